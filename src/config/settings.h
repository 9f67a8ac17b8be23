// The typed settings of a run, one struct per group of recipe keys, with the key names that NeMo users know. settings_fields.h lists
// each member once, with its key, range and help; parsing, printing and --help follow from that list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

enum class Precision : uint8_t { f32, bf16 };
enum class Normalization : uint8_t { layernorm, layernorm1p, rmsnorm };
enum class PositionEmbedding : uint8_t { learned_absolute, rope, none };
enum class MlpActivation : uint8_t { gelu, gelu_erf, swiglu };  // gelu: the tanh form, as the fused kernels of the reference systems have it
enum class RecomputeGranularity : uint8_t { none, selective, full };
enum class RecomputeMethod : uint8_t { uniform, block };
enum class OnNonfinite : uint8_t { skip, stop };
enum class BackendKind : uint8_t { cpu, reference };

struct TrainerSettings {                     // trainer.*
  int64_t num_nodes = 1;
  int64_t devices = 1;
  Precision precision = Precision::bf16;     // 32, 32-true, bf16, bf16-mixed
  int64_t max_steps = 100;
  double max_time = 0;                       // seconds; written DD:HH:MM:SS; 0: no limit
  int64_t log_every_n_steps = 1;
  int64_t val_check_interval = 0;            // steps; 0: no validation
  int64_t limit_val_batches = 50;            // global batches a validation
  double gradient_clip_val = 1.0;            // 0: no clipping
  OnNonfinite on_nonfinite = OnNonfinite::skip;  // ours: what a NaN or Inf does
  BackendKind backend = BackendKind::cpu;    // ours
  int64_t threads = 0;                       // ours: CPU threads of a rank; 0: all this process may use
};

struct CheckpointSettings {                  // exp_manager.checkpoint_callback_params.*
  int64_t every_n_train_steps = 0;           // 0: only at the end and on a signal
  int64_t save_top_k = 1;                    // best by validation loss
  int64_t keep_last = 2;                     // ours: most recent ones kept
};

struct ExpManagerSettings {                  // exp_manager.*
  std::string explicit_log_dir;              // the run's folder; empty: exp_dir/name/<time>
  std::string exp_dir = "runs";
  std::string name = "gpt";
  bool resume_if_exists = false;
  bool resume_ignore_no_checkpoint = false;
  bool create_checkpoint_callback = true;
  bool create_dllogger_logger = true;
  bool create_tensorboard_logger = true;
  int64_t step_timing_buffer = 5;            // step_timing_kwargs.buffer_size: steps in the running mean of the step time
  CheckpointSettings checkpoint;
};

struct ScheduleSettings {                    // model.optim.sched.*
  std::string name = "CosineAnnealing";      // or constant
  int64_t warmup_steps = 0;
  int64_t constant_steps = 0;
  double min_lr = 0;
};

struct OptimSettings {                       // model.optim.*
  std::string name = "adamw";                // every Adam of the reference systems is this one
  double lr = 6e-4;
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;          // betas: [beta1, beta2]
  double eps = 1e-8;
  ScheduleSettings sched;
};

struct DataSettings {                        // model.data.*
  std::string data_impl = "mock";            // mock, mock_legacy (uniform random tokens), text
  std::vector<std::string> data_prefix;      // text: files, read as bytes
  std::string splits_string = "99990,8,2";
};

struct ModelSettings {                       // model.*
  int64_t micro_batch_size = 1;
  int64_t global_batch_size = 1;
  std::vector<int64_t> rampup_batch_size;    // [start, increment, samples] or empty
  int64_t tensor_model_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  int64_t context_parallel_size = 1;
  bool sequence_parallel = false;
  int64_t encoder_seq_length = 2048;         // T
  int64_t max_position_embeddings = 2048;    // P
  int64_t num_layers = 12;                   // L
  int64_t hidden_size = 768;                 // C
  int64_t ffn_hidden_size = 3072;            // F
  int64_t num_attention_heads = 12;          // H
  int64_t num_query_groups = 0;              // G; 0: as many as heads
  int64_t kv_channels = 0;                   // D; 0: hidden_size / heads
  int64_t vocab_size = 0;                    // V, ours; 0: the tokenizer's
  int64_t make_vocab_size_divisible_by = 128;
  double init_method_std = 0.02;
  bool use_scaled_init_method = true;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  Normalization normalization = Normalization::layernorm;
  double layernorm_epsilon = 1e-5;
  PositionEmbedding position_embedding_type = PositionEmbedding::learned_absolute;
  double rotary_percentage = 1.0;
  double rotary_base = 10000;
  MlpActivation activation = MlpActivation::gelu;
  bool bias = true;
  bool share_embeddings_and_output_weights = true;
  bool parallel_residual = false;            // ours: GPT-NeoX style, attention and mlp side by side
  RecomputeGranularity activations_checkpoint_granularity = RecomputeGranularity::none;
  RecomputeMethod activations_checkpoint_method = RecomputeMethod::uniform;
  int64_t activations_checkpoint_num_layers = 1;
  uint64_t seed = 1234;
  OptimSettings optim;
  DataSettings data;

  int64_t groups() const { return num_query_groups > 0 ? num_query_groups : num_attention_heads; }
  int64_t head_width() const { return kv_channels > 0 ? kv_channels : hidden_size / num_attention_heads; }
  // The vocabulary with its padding rows, as the reference systems count parameters.
  int64_t padded_vocabulary() const {
    const int64_t multiple = make_vocab_size_divisible_by * tensor_model_parallel_size;
    return (vocab_size + multiple - 1) / multiple * multiple;
  }
  // The dimensions of a head that rotary embeddings turn.
  int64_t rotary_dims() const;
};

struct Settings {
  TrainerSettings trainer;
  ExpManagerSettings exp_manager;
  ModelSettings model;
};

}  // namespace trireme
