// The typed settings of a run, one struct per group of recipe keys, with the key names that NeMo users know. settings_fields.h
// lists each member once, with its key, range and help. Parsing, printing and --help follow from that list.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

enum class Precision : uint8_t { f32, bf16, f16 };
enum class Normalization : uint8_t { layernorm, layernorm1p, rmsnorm };
enum class PositionEmbedding : uint8_t { learned_absolute, rope, none };
enum class MlpActivation : uint8_t {
  gelu,
  gelu_erf,
  swiglu
};  // gelu: the tanh form, as the fused kernels of the reference systems have it
enum class RecomputeGranularity : uint8_t { none, selective, full };
enum class RecomputeMethod : uint8_t { uniform, block };
enum class OnNonfinite : uint8_t { skip, stop };
enum class CudaGraph : uint8_t { where_it_pays, yes, no };
enum class BackendKind : uint8_t { automatic, cpu, cuda, reference };
enum class WindowOrder : uint8_t { random, sequential };  // of samples from files without documents
enum class BestCheckpoint : uint8_t { lowest_loss, highest_loss };
enum class AmaxAlgorithm : uint8_t { max, most_recent };
enum class Fp8Recipe : uint8_t { delayed, tensorwise };
enum class PipelineSchedule : uint8_t { one_forward_one_backward, gpipe, zero_bubble };
enum class SyncType : uint8_t { f32, bf16 };
enum class MomentType : uint8_t { f32, bf16 };
enum class ShardingStrategy : uint8_t { full, gradients };
enum class Optimizer : uint8_t { adamw, fused_adam, distributed_fused_adam, mcore_distributed_optim };
enum class LearningRateSchedule : uint8_t { cosine, cosine_exp, constant };
enum class DataImpl : uint8_t { mock, mock_legacy, text, mmap, flat, llmc, sft };  // mock_legacy: uniform random tokens
enum class TokenizerLibrary : uint8_t { megatron, sentencepiece, huggingface };

std::string name_of(DataImpl data_impl);   // as recipes have it
const char* name_of(Precision precision);  // 32, bf16 or 16

struct TrainerSettings {  // trainer.*
  int64_t num_nodes = 1;
  int64_t devices = 1;
  Precision precision = Precision::bf16;  // 32, 32-true, bf16, bf16-mixed, 16, 16-mixed
  int64_t max_steps = 100;
  double max_time = 0;  // seconds; written DD:HH:MM:SS; 0: no limit
  int64_t log_every_n_steps = 1;
  int64_t max_epochs = 0;                        // of limit_train_batches steps; 0: as many as max_steps needs
  int64_t limit_train_batches = 0;               // steps per epoch; 0: max_steps
  int64_t console_every_n_steps = 0;             // ours: lines on the terminal; 0: log_every_n_steps
  int64_t val_check_interval = 0;                // steps; 0: no validation
  double val_check_share = 0;                    // the same as a share of max_steps; 0 once it is turned into steps
  int64_t limit_val_batches = 50;                // global batches per validation
  double limit_val_share = 0;                    // the same as a share of the validation data; 0: the count is used
  double gradient_clip_val = 1.0;                // 0: no clipping
  OnNonfinite on_nonfinite = OnNonfinite::skip;  // ours: what a NaN or Inf does
  BackendKind backend = BackendKind::automatic;  // ours
  int64_t threads = 0;       // ours: CPU threads per rank; 0: its cores, shared with the other ranks of the machine
  int64_t rank_timeout = 0;  // ours: seconds that a rank waits for others; 0: ranks that hang are found by their progress

  int64_t replica_check_interval = 1000;  // ours: steps between checks that data parallel ranks have equal weights; 0: none

  // The longest wait for another rank. Without rank_timeout it is for what progress does not show.
  int64_t longest_rank_wait() const { return rank_timeout > 0 ? rank_timeout : 600; }
};

struct CheckpointSettings {         // exp_manager.checkpoint_callback_params.*
  int64_t every_n_train_steps = 0;  // 0: only at the end and on a signal
  int64_t save_top_k = 1;           // best by validation loss; -1: all are kept
  BestCheckpoint mode = BestCheckpoint::lowest_loss;
  int64_t keep_last = 2;  // ours: most recent ones kept
  std::string local_dir;  // ours: a folder of each machine that is written first; empty: none
};

struct ExpManagerSettings {      // exp_manager.*
  std::string explicit_log_dir;  // the run's folder; empty: exp_dir/name/<time>
  std::string exp_dir = "runs";
  std::string name = "gpt";
  std::string version;  // the folder under exp_dir/name; empty: by the time, or by number
  bool use_datetime_version = true;
  bool resume_if_exists = false;
  bool resume_ignore_no_checkpoint = false;
  std::string resume_from_checkpoint;  // a checkpoint of another run to start from
  bool create_checkpoint_callback = true;
  bool create_dllogger_logger = true;
  bool create_tensorboard_logger = true;
  std::string dllogger_json_file;  // dllogger_logger_kwargs.json_file; empty: dllogger/rank-0/dllogger.json
  bool dllogger_stdout = false;    // dllogger_logger_kwargs.stdout
  bool log_step_timing = true;
  int64_t step_timing_buffer = 5;  // step_timing_kwargs.buffer_size: steps in the running mean of the step time
  bool log_tflops_per_sec_per_gpu = true;
  std::vector<std::string> files_to_copy;
  CheckpointSettings checkpoint;
};

struct ScheduleSettings {  // model.optim.sched.*
  LearningRateSchedule name = LearningRateSchedule::cosine;
  double warmup_steps = 0;  // NeMo recipes have fractions: 132.5
  int64_t constant_steps = 0;
  double min_lr = 0;
  double max_steps_for_lr_sched = 0;  // CosineAnnealingExp: the length of the cosine in steps; 0: max_steps
};

struct OptimSettings {                // model.optim.*
  Optimizer name = Optimizer::adamw;  // all Adam variants of the reference systems are AdamW; two of them are distributed
  double lr = 6e-4;
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;  // betas: [beta1, beta2]
  double eps = 1e-8;
  int64_t bucket_cap_mb = 0;  // size of a gradient bucket; 0: the program's choice
  bool overlap_grad_sync = false;
  bool overlap_param_sync = false;
  SyncType grad_sync_dtype = SyncType::f32;
  MomentType exp_avg_dtype = MomentType::f32;     // of Adam's first moment
  MomentType exp_avg_sq_dtype = MomentType::f32;  // and of the second
  bool optimizer_cpu_offload = false;             // masters and moments in host memory
  ScheduleSettings sched;

  // Whether the name is that of an optimizer whose state is sharded among the ranks with the same parameters.
  bool is_distributed() const { return name == Optimizer::distributed_fused_adam || name == Optimizer::mcore_distributed_optim; }
};

struct DataSettings {  // model.data.*
  DataImpl data_impl = DataImpl::mock;
  std::vector<std::string> data_prefix;  // text: files, read as bytes; mmap: prefixes, perhaps each after its weight
  // From data_prefix: {train, validation, test}; empty: splits_string is used.
  std::vector<std::string> validation_prefix, test_prefix;
  std::string splits_string = "99990,8,2";
  bool mock_dataset = false;    // the same as data_impl mock
  bool legacy_dataset = false;  // samples as in NeMo before Megatron Core
  bool shuffle_documents = true;
  bool no_seqlen_plus_one_input_tokens = false;
  bool validation_drop_last = true;
  bool pad_samples_to_global_batch_size = false;
  std::string index_mapping_dir;  // folder of the sample indices; empty: beside the data
  std::string index_tokenizer =   // ours: the reference's description of its tokenizer, used in the names of its indices
      R"({"class": "nemo.collections.common.tokenizers.huggingface.auto_tokenizer.AutoTokenizer"})";
  double auto_blend = 0;                             // ours: weights proportional to size to this power; 0: off
  WindowOrder window_order = WindowOrder::random;    // ours: flat, llmc
  bool reset_position_ids = false;                   // positions restart after the end of a document
  bool reset_attention_mask = false;                 // attention sees no earlier document
  bool eod_mask_loss = false;                        // no loss for the token after the end of a document
  std::string prompt_template = "{input} {output}";  // sft: how the fields of an example become its text
  std::string label_key = "output";                  // sft: the field that is the response
  int64_t num_workers = 2;                           // threads that prepare batches ahead of the step

  // Read as text: one token per byte unless the recipe names a tokenizer.
  bool is_text() const { return data_impl == DataImpl::text || data_impl == DataImpl::sft; }
  bool is_made_up() const { return data_impl == DataImpl::mock || data_impl == DataImpl::mock_legacy; }  // not read from a file
};

struct TokenizerSettings {  // model.tokenizer.*
  TokenizerLibrary library = TokenizerLibrary::megatron;
  std::string type;        // GPT2BPETokenizer, bpe, ...; huggingface: a name, or a folder
  std::string model;       // a sentencepiece model, or any file that vocab_file can be
  std::string vocab_file;  // vocab.json, tokenizer.json or *.tiktoken
  std::string merge_file;  // merges.txt; empty: the one beside vocab_file
};

enum class RopeType : uint8_t { plain, linear, llama3 };

struct RopeScalingSettings {  // model.rope_scaling.*, with the names of transformers and the values of Llama 3.1
  RopeType rope_type = RopeType::plain;
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

struct Fp8Settings {                        // model.fp8 and model.fp8_*
  static constexpr int64_t kMultiple = 16;  // every dimension of an FP8 GEMM must be a multiple of it

  bool enabled = false;
  bool hybrid = true;    // E4M3 forward, E5M2 gradients
  bool e4m3 = false;     // E4M3 for both
  bool params = false;   // working weights only in FP8
  bool lm_head = false;  // the GEMMs of the LM head too
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool wgrad = true;  // wgrad in FP8 too
  int64_t margin = 0;
  int64_t interval = 1;
  int64_t amax_history_len = 1024;
  AmaxAlgorithm amax_compute_algo = AmaxAlgorithm::max;
  bool reduce_amax = true;
};

struct LossScaleSettings {  // model.native_amp_* and model.hysteresis, of fp16
  double init_scale = 4294967296;
  int64_t growth_interval = 1000;  // finite steps after which the scale is doubled
  int64_t hysteresis = 2;          // steps that are not finite before it is halved
};

struct ProfileSettings {  // model.nsys_profile.*
  bool enabled = false;
  std::vector<std::string> trace = {"nvtx", "cuda"};
  int64_t start_step = 10;
  int64_t end_step = 10;
  std::vector<int64_t> ranks = {0};
  bool gen_shape = false;
};

enum class PeftScheme : uint8_t { none, lora };

struct LoraSettings {  // model.peft.lora_tuning.*
  int64_t adapter_dim = 32;
  double alpha = 0;  // 0: adapter_dim
  std::vector<std::string> target_modules = {"attention_qkv"};

  double scale() const { return alpha > 0 ? alpha / static_cast<double>(adapter_dim) : 1; }
};

struct PeftSettings {  // model.peft.*
  PeftScheme scheme = PeftScheme::none;
  LoraSettings lora;
  std::string restore_from_path;  // adapters to begin with, as PEFT saves them; empty: drawn by the seed
};

// Ours: tasks of `trireme evaluate` that the model is scored on while it trains.
struct ValidationTasksSettings {  // model.validation_tasks.*
  std::vector<std::string> tasks;
  std::string data_dir = "evaluation-data";
  int64_t every_n_steps = 0;  // 0: after every validation
  int64_t limit = 0;          // documents of each task; 0: all
  int64_t num_fewshot = 0;
};

struct ModelSettings {  // model.*
  int64_t micro_batch_size = 1;
  int64_t global_batch_size = 1;
  std::vector<int64_t> rampup_batch_size;  // [start, increment, samples] or empty
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t virtual_pipeline_model_parallel_size = 1;                                 // chunks of layers per pipeline rank
  PipelineSchedule pipeline_schedule = PipelineSchedule::one_forward_one_backward;  // ours
  int64_t num_layers_in_first_pipeline_stage = 0;                                   // 0: as many as the others
  int64_t num_layers_in_last_pipeline_stage = 0;
  int64_t context_parallel_size = 1;
  bool sequence_parallel = false;
  bool overlap_p2p_comm = false;
  bool batch_p2p_comm = true;
  bool ub_tp_comm_overlap = false;
  bool fsdp = false;  // shards the gradients of the blocks among data parallel ranks, and the optimizer's state
  ShardingStrategy fsdp_sharding_strategy = ShardingStrategy::full;  // full: the weights of the blocks too
  SyncType fsdp_grad_reduce_dtype = SyncType::f32;
  CudaGraph cuda_graph = CudaGraph::where_it_pays;
  Fp8Settings fp8;
  LossScaleSettings loss_scale;
  int64_t encoder_seq_length = 2048;       // T
  int64_t max_position_embeddings = 2048;  // P
  int64_t num_layers = 12;                 // L
  int64_t hidden_size = 768;               // C
  int64_t ffn_hidden_size = 3072;          // F
  int64_t num_attention_heads = 12;        // H
  int64_t num_query_groups = 0;            // G; 0: as many as heads
  int64_t kv_channels = 0;                 // D; 0: hidden_size / heads
  int64_t vocab_size = 0;                  // V, ours; 0: the tokenizer's
  int64_t make_vocab_size_divisible_by = 128;
  double init_method_std = 0.02;
  bool use_scaled_init_method = true;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  Normalization normalization = Normalization::layernorm;
  bool layernorm_zero_centered_gamma = false;  // with layernorm: the same as layernorm1p
  double layernorm_epsilon = 1e-5;
  bool do_layer_norm_weight_decay = false;  // also decays every other parameter that is not decayed by default
  PositionEmbedding position_embedding_type = PositionEmbedding::learned_absolute;
  double rotary_percentage = 1.0;
  double rotary_base = 10000;
  bool scale_positional_embedding = false;  // NeMo's name for rope_scaling.rope_type=llama3
  double seq_len_interpolation_factor = 1;  // NeMo's name for the factor of rope_scaling.rope_type=linear
  RopeScalingSettings rope_scaling;
  MlpActivation activation = MlpActivation::gelu;
  bool bias = true;
  bool share_embeddings_and_output_weights = true;
  bool parallel_residual = false;      // ours: GPT-NeoX style, attention and mlp in parallel
  bool shared_attention_norm = false;  // LitGPT's: attention and mlp share one norm, as in Falcon 7B
  RecomputeGranularity activations_checkpoint_granularity = RecomputeGranularity::none;
  RecomputeMethod activations_checkpoint_method = RecomputeMethod::uniform;
  int64_t activations_checkpoint_num_layers = 1;
  int64_t num_micro_batches_with_partial_activation_checkpoints = 0;
  int64_t activations_checkpoint_layers_per_pipeline = 0;
  uint64_t seed = 1234;
  std::string resume_from_checkpoint;  // the same as in exp_manager; NeMo recipes have it here too
  std::string restore_from_path;       // a run or checkpoint with the initial weights; empty: random by the seed
  ProfileSettings profile;
  TokenizerSettings tokenizer;
  OptimSettings optim;
  DataSettings data;
  PeftSettings peft;
  ValidationTasksSettings validation_tasks;

  int64_t groups() const { return num_query_groups > 0 ? num_query_groups : num_attention_heads; }
  int64_t head_width() const { return kv_channels > 0 ? kv_channels : hidden_size / num_attention_heads; }
  // The vocabulary with its padding rows, as the reference systems count parameters.
  int64_t padded_vocabulary() const {
    const int64_t multiple = make_vocab_size_divisible_by * tensor_model_parallel_size;
    return (vocab_size + multiple - 1) / multiple * multiple;
  }
  // Whether tensor parallel communication overlaps with the GEMMs it belongs to. Not in FP8, because FP8 copies are made of all
  // rows at once.
  bool overlaps_tensor_parallel() const { return ub_tp_comm_overlap && tensor_model_parallel_size > 1 && !fp8.enabled; }
  // Whether ranks with the same parameters shard the optimizer's state.
  bool shards_optimizer() const { return fsdp || optim.is_distributed(); }
  SyncType grad_sync_dtype() const { return fsdp ? fsdp_grad_reduce_dtype : optim.grad_sync_dtype; }
  // Layers of one of `stages` pipeline ranks. The settings must be validated.
  int64_t layers_of_stage(int64_t stages, int64_t stage) const;
  // The kind of rope scaling and its factor, from whichever key gives them.
  RopeType rope_type() const {
    if (scale_positional_embedding) return RopeType::llama3;
    return seq_len_interpolation_factor != 1 ? RopeType::linear : rope_scaling.rope_type;
  }
  double rope_factor() const { return seq_len_interpolation_factor != 1 ? seq_len_interpolation_factor : rope_scaling.factor; }
  // The dimensions of a head that rotary embeddings rotate.
  int64_t rotary_dims() const;
};

// LitGPT's names for the batch: samples per device and step, and how many of those at once. 0: not given.
struct LitgptSettings {
  int64_t batch_size = 0;
  int64_t micro_batch_size = 0;
};

struct Settings {
  LitgptSettings litgpt;
  TrainerSettings trainer;
  ExpManagerSettings exp_manager;
  ModelSettings model;

  // The layout of the ranks.
  int64_t ranks() const { return trainer.num_nodes * trainer.devices; }
  int64_t model_ranks() const {
    return model.tensor_model_parallel_size * model.pipeline_model_parallel_size * model.context_parallel_size;
  }
  int64_t data_parallel_size() const { return ranks() / model_ranks(); }  // the settings must be validated
};

}  // namespace trireme
