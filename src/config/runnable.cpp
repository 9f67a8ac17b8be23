#include "config/runnable.h"

#include "base/error.h"
#include "config/settings_fields.h"

namespace trireme {

namespace {

void require_ranks(const Settings& settings, int64_t here) {
  const int64_t ranks = settings.ranks();
  if (ranks == here) return;
  throw UserError(
      "trainer.num_nodes={} with trainer.devices={}: needs {} ranks, and this is {}; start it with mpirun -n {}, or use "
      "trainer.num_nodes=1 trainer.devices={}{}",
      settings.trainer.num_nodes, settings.trainer.devices, ranks, here, ranks, here,
      here > 1 || settings.model_ranks() == 1 ? "" : ", with parallel sizes of 1");
}

struct Need {
  const char* key;
  bool asked;
  const char* answer;
};

void require_backend(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const DataSettings& data = model.data;
  const ExpManagerSettings& exp = settings.exp_manager;
  const bool keeps_best = exp.create_checkpoint_callback && exp.checkpoint.save_top_k > 0;
  const bool indexed = data.data_impl == DataImpl::mmap;
  const bool recomputes_in_stages =
      model.pipeline_model_parallel_size > 1 && model.activations_checkpoint_granularity != RecomputeGranularity::none;
  constexpr const char* kCuda = "needs the cuda backend, and trainer.backend is another; use false";
  const Need needs[] = {
      {"trainer.precision", settings.trainer.precision == Precision::f16 && settings.trainer.backend == BackendKind::cuda,
       "fp16 is for CPUs; use bf16, or trainer.backend=cpu"},
      {"model.optim.optimizer_cpu_offload", model.optim.optimizer_cpu_offload && model.peft.scheme != PeftScheme::none,
       "the states of adapters are small; use false"},
      {"model.optim.optimizer_cpu_offload", model.optim.optimizer_cpu_offload && model.fp8.enabled && model.fp8.params,
       "with model.fp8_params the masters are what FP8 weights are made of; use false"},
      // With `auto` the backend is not yet known; `reference` supports everything, slowly.
      {"model.fp8", model.fp8.enabled && settings.trainer.backend == BackendKind::cpu, kCuda},
      {"model.fp8", model.fp8.enabled && model.pipeline_schedule == PipelineSchedule::zero_bubble,
       "wgrad in FP8 cannot be deferred; use false, or another model.pipeline_schedule"},
      {"model.fsdp", model.fsdp && model.pipeline_schedule == PipelineSchedule::zero_bubble,
       "gradients are sharded as soon as they are made, and wgrad is deferred; use false, or another model.pipeline_schedule"},
      {"model.reduce_amax", model.fp8.enabled && !model.fp8.reduce_amax && settings.ranks() > 1,
       "all ranks have the same scales; use true"},
      {"model.fp8_wgrad", model.fp8.enabled && !model.fp8.wgrad, "weight gradients are made from FP8 too; use true"},
      {"model.fp8_interval", model.fp8.enabled && model.fp8.interval != 1, "scales follow every step; use 1"},
      {"model.enable_cuda_graph", model.cuda_graph == CudaGraph::yes && settings.trainer.backend == BackendKind::cpu, kCuda},
      {"model.enable_cuda_graph", model.cuda_graph == CudaGraph::yes && settings.ranks() > 1,
       "graphs are for one rank, what ranks exchange is not recorded; use null"},
      {"model.nsys_profile.enabled", model.profile.enabled && settings.trainer.backend == BackendKind::cpu, kCuda},
      {"model.num_micro_batches_with_partial_activation_checkpoints",
       recomputes_in_stages && model.num_micro_batches_with_partial_activation_checkpoints > 0,
       "all micro-batches are recomputed alike; use null"},
      {"model.activations_checkpoint_layers_per_pipeline",
       recomputes_in_stages && model.activations_checkpoint_layers_per_pipeline > 0,
       "all pipeline ranks recompute alike; use null"},
      {"exp_manager.resume_from_checkpoint", !exp.resume_from_checkpoint.empty(),
       "starting from a checkpoint of another run is not supported; use null, or exp_manager.resume_if_exists=true in the run's "
       "folder"},
      {"exp_manager.checkpoint_callback_params.mode", keeps_best && exp.checkpoint.mode == BestCheckpoint::highest_loss,
       "would keep the checkpoints with the highest validation loss; use min"},
      {"model.data.shuffle_documents", !data.shuffle_documents && !(indexed && data.legacy_dataset),
       "documents are shuffled, but in datasets of data_impl mmap with legacy_dataset; use true"},
      {"model.data.no_seqlen_plus_one_input_tokens", data.no_seqlen_plus_one_input_tokens && !indexed,
       "samples have one token more than the sequence, but with data_impl mmap; use false"},
      {"model.data.validation_drop_last", !data.validation_drop_last && !indexed,
       "only whole samples are used, but with data_impl mmap; use true"},
      {"model.data.pad_samples_to_global_batch_size", data.pad_samples_to_global_batch_size,
       "only whole batches are used; use false"},
  };
  for (const Need& need : needs)
    if (need.asked) throw UserError("{}={}: {}", need.key, find_setting(need.key)->write(settings).brief(), need.answer);
}

// The attention kernels of all backends except `reference` hold a row of a head in registers.
void require_head_width(const Settings& settings) {
  const ModelSettings& model = settings.model;
  constexpr int64_t kMost = 256;
  if (settings.trainer.backend == BackendKind::reference || model.head_width() <= kMost) return;
  if (model.kv_channels > 0)
    throw UserError("model.kv_channels={}: heads may be {} wide at most; use that", model.kv_channels, kMost);
  throw UserError(
      "model.num_attention_heads={} of model.hidden_size={} are {} wide each, and may be {} at most; use at least {} heads",
      model.num_attention_heads, model.hidden_size, model.head_width(), kMost, ceil_div(model.hidden_size, kMost));
}

}  // namespace

void require_runnable(const Settings& settings, int64_t ranks_here) {
  require_ranks(settings, ranks_here);
  require_backend(settings);
  require_head_width(settings);
}

std::vector<IdleKey> idle_settings(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const DataSettings& data = model.data;
  const bool pipelined = model.pipeline_model_parallel_size > 1;
  const bool shares_gradients = settings.ranks() > settings.model_ranks() || model.context_parallel_size > 1;
  const bool recomputes = model.activations_checkpoint_granularity != RecomputeGranularity::none;
  const bool shares_masters = model.shards_optimizer() && shares_gradients;
  const bool is_f16 = settings.trainer.precision == Precision::f16;
  const bool validates =
      settings.trainer.val_check_interval > 0 && (settings.trainer.limit_val_batches > 0 || settings.trainer.limit_val_share > 0);
  const bool has_adapters = model.peft.scheme == PeftScheme::lora;
  constexpr const char *kOneRank = "the layout has one rank", *kNoTensor = "there is no tensor parallelism",
                       *kNoPipeline = "there is no pipeline", *kNoCopies = "no ranks share gradients",
                       *kNoFp8 = "model.fp8 is off", *kNotIndexed = "data_impl is not mmap", *kNotSft = "data_impl is not sft",
                       *kBlocks = "with model.fsdp each block is a bucket",
                       *kAdapters = "with LoRA only gradients of adapters are summed, in fp32",
                       *kNotF16 = "trainer.precision is not 16";
  // A setting, and whether there is anything it acts on. A setting at its default was not requested.
  struct Idle {
    const char* prefix;
    bool acts;
    const char* reason;
  };
  const Idle table[] = {
      {"trainer.rank_timeout", settings.ranks() > 1, kOneRank},
      {"trainer.replica_check_interval", shares_gradients, "no ranks have equal weights"},
      {"model.sequence_parallel", model.tensor_model_parallel_size > 1, kNoTensor},
      {"model.ub_tp_comm_overlap", model.overlaps_tensor_parallel(),
       model.tensor_model_parallel_size > 1 ? "FP8 copies are made of all rows" : kNoTensor},
      {"model.overlap_p2p_comm", pipelined, kNoPipeline},
      {"model.batch_p2p_comm", pipelined, kNoPipeline},
      {"model.pipeline_schedule", pipelined, kNoPipeline},
      {"model.optim.name", shares_gradients, kNoCopies},  // the distributed variants shard the optimizer's state among ranks
      {"model.fsdp", shares_gradients, kNoCopies},
      {"model.fsdp_", model.fsdp || !shares_gradients, "model.fsdp is off"},
      {"model.optim.bucket_cap_mb", shares_gradients && !model.fsdp && !has_adapters,
       !shares_gradients ? kNoCopies
       : has_adapters    ? "with LoRA each block is a bucket"
                         : kBlocks},
      {"model.optim.overlap_grad_sync", shares_gradients && !has_adapters, shares_gradients ? kAdapters : kNoCopies},
      {"model.optim.overlap_param_sync", shares_masters, shares_gradients ? "the optimizer is not a distributed one" : kNoCopies},
      {"model.optim.grad_sync_dtype", shares_gradients && !model.fsdp && !has_adapters,
       !shares_gradients ? kNoCopies
       : has_adapters    ? kAdapters
                         : "with model.fsdp it is model.fsdp_grad_reduce_dtype"},
      {"model.fp8_", model.fp8.enabled, kNoFp8},
      {"model.fp8_params", !model.fp8.enabled || !shares_masters, "weights are gathered in bf16"},
      {"model.reduce_amax", model.fp8.enabled, kNoFp8},
      {"model.native_amp_", is_f16, kNotF16},
      {"model.hysteresis", is_f16, kNotF16},
      {"model.optim.exp_avg_", model.peft.scheme == PeftScheme::none, "the moments of adapters are in 32 bits"},
      {"model.nsys_profile.", model.profile.enabled, "model.nsys_profile.enabled is off"},
      {"model.peft.", model.peft.scheme != PeftScheme::none, "model.peft.peft_scheme is null"},
      {"model.validation_tasks.", !model.validation_tasks.tasks.empty(), "there are no model.validation_tasks.tasks"},
      {"model.data.prompt_template", data.data_impl == DataImpl::sft, kNotSft},
      {"model.data.label_key", data.data_impl == DataImpl::sft, kNotSft},
      {"model.data.index_", data.data_impl == DataImpl::mmap, kNotIndexed},
      {"model.data.auto_blend", data.data_impl == DataImpl::mmap, kNotIndexed},
      {"model.data.window_order", data.data_impl == DataImpl::flat || data.data_impl == DataImpl::llmc,
       "data_impl is not flat or llmc"},
      {"model.data.data_prefix", !data.is_made_up(), "mock data is not read from files"},
      {"model.num_micro_batches_with_partial_activation_checkpoints", recomputes && pipelined, kNoPipeline},
      {"model.activations_checkpoint_layers_per_pipeline", recomputes && pipelined, kNoPipeline},
  };
  const Settings defaults;
  std::vector<IdleKey> idle;
  for (const Field& field : settings_fields())
    for (const Idle& row : table)
      if (!row.acts && field.key.starts_with(row.prefix) && field.write(settings).text() != field.write(defaults).text())
        idle.push_back({field.key, row.reason});
  if (!data.validation_prefix.empty() && !validates)
    idle.push_back({"model.data.data_prefix.validation", "nothing is validated"});
  if (!data.test_prefix.empty()) idle.push_back({"model.data.data_prefix.test", "nothing is tested"});
  return idle;
}

}  // namespace trireme
