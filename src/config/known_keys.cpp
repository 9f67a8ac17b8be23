#include "config/known_keys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace trireme {

namespace {

bool stands_for(std::string_view known, std::string_view key) {
  if (known.ends_with('*')) return key.starts_with(known.substr(0, known.size() - 1));
  return key == known || (key.starts_with(known) && key[known.size()] == '.');
}

// Keys of older releases, and their present names.
constexpr std::array kAliases = {std::pair<std::string_view, std::string_view>{"trainer.gpus", "trainer.devices"}};

const std::string kLoggers = "logs go to TensorBoard, DLLogger and CSV files";
const std::string kMoe = "mixture of experts is not supported; remove it";
const std::string kBlock = "blocks are pre-norm with plain multi-head attention; remove it";
const std::string kResetRate = "the learning rate continues from the checkpoint; use false";
const std::string kRestore =
    "use model.restore_from_path, which takes a run or checkpoint of this program (trireme import makes one of a model of "
    "others)";

}  // namespace

const std::vector<KeysWithoutEffect>& keys_without_effect() {
  static const std::vector<KeysWithoutEffect> groups = {
      {"of the NeMo launcher",
       {"name",
        "run",
        "hydra",
        "cluster",
        "cluster_type",
        "stages",
        "container",
        "container_mounts",
        "env_vars",
        "numa_mapping",
        "data_dir",
        "base_results_dir",
        "launcher_scripts_path",
        "bignlp_path",
        "wandb_api_key_file",
        "debug",
        "inference",
        "enable_vboost",
        "bcp_no_redirect",
        "wandb_api_bcp_secret_key",
        "s3_checkpointing",
        "data_preparation",
        "data_curation",
        "conversion",
        "conversion_hf2nemo",
        "external_conversion",
        "fine_tuning",
        "generic",
        "peft",
        "prompt_learning",
        "adapter_learning",
        "ia3_learning",
        "evaluation",
        "export",
        "rlhf_rm",
        "rlhf_ppo",
        "steerlm_reg",
        "ptq",
        "rag_indexing",
        "rag_generating",
        "fw_inference",
        "run_*"}},
      {"of the Python trainer",
       {"trainer.accelerator", "trainer.strategy", "trainer.logger", "trainer.plugins", "trainer.callbacks", "trainer.benchmark",
        "trainer.profiler", "trainer.enable_checkpointing", "trainer.enable_progress_bar", "trainer.enable_model_summary",
        "trainer.use_distributed_sampler", "trainer.replace_sampler_ddp", "trainer.limit_test_batches",
        "trainer.num_sanity_val_steps", "trainer.check_val_every_n_epoch", "trainer.sync_batchnorm", "trainer.deterministic",
        "trainer.detect_anomaly"}},
      {"logs and checkpoints have their own form here",
       {"exp_manager.step_timing_kwargs.sync_cuda",
        "exp_manager.step_timing_kwargs.reduction",
        "exp_manager.dllogger_logger_kwargs.verbose",
        "exp_manager.neptune_logger_kwargs",
        "exp_manager.mlflow_logger_kwargs",
        "exp_manager.clearml_logger_kwargs",
        "exp_manager.wandb_logger_kwargs",
        "exp_manager.summary_writer_kwargs",
        "exp_manager.ema.*",
        "exp_manager.seconds_to_sleep",
        "exp_manager.log_local_rank_0_only",
        "exp_manager.log_global_rank_0_only",
        "exp_manager.create_preemption_callback",
        "exp_manager.disable_validation_on_resume",
        "exp_manager.log_delta_step_timing",
        "exp_manager.checkpoint_callback_params.filename",
        "exp_manager.checkpoint_callback_params.always_save_nemo",
        "exp_manager.checkpoint_callback_params.save_nemo_on_train_end",
        "exp_manager.checkpoint_callback_params.model_parallel_size",
        "exp_manager.checkpoint_callback_params.save_last",
        "exp_manager.checkpoint_callback_params.every_n_epochs",
        "exp_manager.checkpoint_callback_params.save_last_n_optim_states",
        "exp_manager.checkpoint_callback_params.save_best_model",
        "exp_manager.checkpoint_callback_params.verbose",
        "exp_manager.checkpoint_callback_params.async_save"}},
      {"ways to compute the same numbers",
       {"model.mcore_gpt",
        "model.transformer_engine",
        "model.megatron_amp_O2",
        "model.use_flash_attention",
        "model.use_emha",
        "model.grad_div_ar_fusion",
        "model.gradient_accumulation_fusion",
        "model.bias_activation_fusion",
        "model.bias_gelu_fusion",
        "model.bias_dropout_add_fusion",
        "model.masked_softmax_fusion",
        "model.cross_entropy_loss_fusion",
        "model.get_attention_mask_from_fusion",
        "model.apply_rope_fusion",
        "model.persist_layer_norm",
        "model.gradient_as_bucket_view",
        "model.grad_allreduce_chunk_size_mb",
        "model.use_cpu_initialization",
        "model.onnx_safe",
        "model.apex_transformer_log_level",
        "model.openai_gelu",
        "model.gc_interval",
        "model.precision",
        "model.dist_ckpt_*",
        "model.sharp",
        "model.defer_embedding_wgrad_compute",
        "model.wgrad_deferral_limit",
        "model.use_te_rng_tracker",
        "model.deterministic_mode",
        "model.name",
        "model.cpu_offloading_*",
        "model.enable_megatron_timers",
        "model.megatron_timer_kwargs",
        "model.validation_param_sync_overlap",
        "model.account_for_*"}},
      {"attention scores are in 32 bits", {"model.apply_query_key_layer_scaling"}},
      {"communication between ranks is arranged otherwise",
       {"model.sync_batch_comm", "model.nccl_communicator_config_path", "model.use_tp_pp_dp_mapping", "model.tp_comm_*",
        "model.ub_tp_comm_overlap_cfg", "model.tp_only_amax_red"}},
      {"of features that another key switches on",
       {"model.fsdp_sharded_checkpoint", "model.fsdp_use_orig_params", "model.moe_*", "model.memory_profile", "model.target",
        "model.nemo_version", "model.tokenizer.delimiter", "model.tokenizer.sentencepiece_legacy", "model.tokenizer.use_fast",
        "model.tokenizer.tokenizer_model"}},
      {"buffers of the optimizer, and how a dataset is kept",
       {"model.optim.contiguous_*", "model.optim.capturable", "model.optim.master_weights", "model.optim.nccl_ub",
        "model.optim.lock_timeout", "model.optim.sched.monitor", "model.optim.sched.reduce_on_plateau", "model.data.skip_warmup",
        "model.data.exchange_indices_distributed", "model.data.mmap_bin_files", "model.data.delay_data_*",
        "model.data.num_dataset_builder_threads", "model.data.create_inputs", "model.data.pin_memory", "model.data.fim",
        "model.optim.ddp_bucket_size"}},
      {"exp_avg_dtype and exp_avg_sq_dtype are enough", {"model.optim.use_precision_aware_optimizer"}},
      {"states in host memory are pinned and copied while others are updated",
       {"model.optim.overlap_cpu_optimizer_d2h_h2d", "model.optim.use_torch_optimizer_for_cpu_offload",
        "model.optim.pin_cpu_grads", "model.optim.pin_cpu_params"}},
      {"of LitGPT",
       {"data", "logger_name", "train.epochs", "eval.max_new_tokens", "eval.initial_validation", "eval.final_validation",
        "eval.evaluate_example", "optimizer.init_args"}},
      // the reader compares it with another key, so it is not reported
      {"", {"model.data.seq_length"}},
  };
  return groups;
}

const std::vector<RestrictedKey>& restricted_keys() {
  static const std::vector<RestrictedKey> keys = {
      {"restore_from_path", {}, kRestore},
      {"model.restore_from_ckpt", {}, kRestore},
      {"model.pretrained_checkpoint", {}, kRestore},
      {"model.skip_train", {"false"}, "a training run trains; use false"},
      {"model.drop_layers", {"[]"}, "leaving out layers is not supported; use []"},
      {"model.reset_lr", {"false"}, kResetRate},
      {"model.reset_lr_steps", {"false"}, kResetRate},
      {"model.cpu_offloading", {"false"}, "keeping activations or weights in host memory is not supported; use false"},
      {"model.optim.optimizer_offload_fraction", {"1", "1.0"}, "all states are in host memory or none; use 1.0"},
      {"model.optim.main_params_dtype", {"fp32"}, "masters are in 32 bits; use fp32"},
      {"model.optim.main_grads_dtype", {"fp32"}, "gradients are added up in 32 bits; use fp32"},
      {"trainer.accumulate_grad_batches", {"1"}, "use 1 and set model.global_batch_size"},
      {"exp_manager.create_wandb_logger", {"false"}, kLoggers, OtherValue::is_said},
      {"exp_manager.create_mlflow_logger", {"false"}, kLoggers, OtherValue::is_said},
      {"exp_manager.create_neptune_logger", {"false"}, kLoggers, OtherValue::is_said},
      {"exp_manager.create_clearml_logger", {"false"}, kLoggers, OtherValue::is_said},
      {"exp_manager.checkpoint_callback_params.dirpath", {}, "checkpoints lie in the folder of the run; remove it"},
      {"exp_manager.create_early_stopping_callback", {"false"}, "early stopping is not supported; use false"},
      {"exp_manager.ema.enable", {"false"}, "averaged weights (EMA) are not supported; use false"},
      {"exp_manager.checkpoint_callback_params.monitor", {"val_loss"}, "the best checkpoints are those with the lowest val_loss"},
      {"model.expert_model_parallel_size", {"1"}, kMoe},
      {"model.num_moe_experts", {}, kMoe},
      {"model.fp32_residual_connection",
       {"false"},
       "residuals have the type of the activations; use false or trainer.precision=32"},
      {"model.fp16_lm_cross_entropy", {"false"}, "the loss is computed in 32 bits; use false"},
      {"model.pre_process", {"true"}, "the model always has its embedding; use true"},
      {"model.post_process", {"true"}, "the model always has its output layer; use true"},
      {"model.transformer_block_type", {"pre_ln"}, kBlock},
      {"model.attention_type", {"multihead"}, kBlock},
      {"model.headscale", {"false"}, kBlock},
      {"model.normalize_attention_scores", {"true"}, kBlock},
      {"model.qk_layernorm", {"false"}, kBlock},
      {"model.window_size", {}, "sliding window attention is not supported; remove it"},
      {"model.mcore_customization_config.new_decoder_architecture", {"false"}, kBlock},
      {"model.mcore_customization_config.parallel_attention", {"false"}, "use model.parallel_residual=true instead"},
      {"model.ffn_dropout", {"0", "0.0"}, "dropout inside the MLP is not supported; use 0"},
      {"model.rotary_interleaved", {"false"}, "rope turns the two halves of a head; use false"},
      {"model.data.dataloader_type", {"single"}, "samples come in one shuffled order; use single"},
      {"model.data.data_cache_generation_only", {"false"}, "a training run trains; use false"},
      {"model.data.add_fim", {"false"}, "fill-in-the-middle is not supported; use false"},
  };
  return keys;
}

std::optional<IdleKey> find_without_effect(std::string_view key) {
  for (const KeysWithoutEffect& group : keys_without_effect())
    for (const std::string& known : group.keys)
      // A pattern is reported as the key that matched it, a subtree once by its own name.
      if (stands_for(known, key)) return IdleKey{known.ends_with('*') ? std::string(key) : known, group.reason};
  return std::nullopt;
}

const RestrictedKey* find_restricted(std::string_view key) {
  const auto found =
      std::ranges::find_if(restricted_keys(), [&](const RestrictedKey& known) { return stands_for(known.key, key); });
  return found == restricted_keys().end() ? nullptr : &*found;
}

std::string canonical_key(std::string key) {
  for (const auto& [alias, name] : kAliases)
    if (key == alias || key.ends_with("." + std::string(alias)))
      return key.replace(key.size() - alias.size(), alias.size(), name);
  return key;
}

void rename_aliases(Tree& recipe) {
  for (const auto& [alias, name] : kAliases) {
    const Tree* value = recipe.find(alias);
    if (value == nullptr) continue;
    const Tree* present = recipe.find(name);
    if (present != nullptr && !present->is_null() && present->text() != value->text())
      throw UserError("{}={} contradicts {}={}; remove one of them{}", alias, value->brief(), name, present->brief(),
                      value->where_suffix());
    if (present == nullptr || present->is_null()) recipe.set(name, *value);
    recipe.remove(alias);
  }
}

}  // namespace trireme
