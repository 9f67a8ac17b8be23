#include "config/settings_fields.h"

#include <algorithm>
#include <limits>

#include "config/field_kinds.h"
#include "config/hardware_fields.h"

namespace trireme {

namespace {

// Upper limits are far above real training runs, and low enough that sums and products of a few of them fit into an int64_t.
constexpr int64_t kMaxSteps = 1'000'000'000'000;
constexpr int64_t kMaxBatch = 1 << 20;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxSequence = 1 << 24;
constexpr int64_t kMaxVocabulary = 1 << 24;
constexpr int64_t kMaxRanks = 1 << 20;

constexpr IntegerRange kSteps = {0, kMaxSteps};
const IntegerRange kStepsOrNull = {0, kMaxSteps, 0};
constexpr IntegerRange kRanks = {1, kMaxRanks};
constexpr IntegerRange kWidth = {1, kMaxWidth};
const IntegerRange kWidthOrNull = {0, kMaxWidth, 0};
constexpr RealRange kRate = {0, 100};
constexpr RealRange kEpsilon = {1e-30, 1};  // 0 would divide by zero
constexpr RealRange kProbability = {0, 1, Most::excluded};
constexpr RealRange kRopeFactor = {1, 1e6};

std::vector<Row<TrainerSettings>> trainer_rows() {
  using S = TrainerSettings;
  return {
      integer("num_nodes", &S::num_nodes, kRanks, "machines"),
      integer("devices", &S::devices, kRanks, "ranks on each machine"),
      refuse(choice("precision", &S::precision,
                    {{"32", Precision::f32},
                     {"32-true", Precision::f32},
                     {"bf16", Precision::bf16},
                     {"bf16-mixed", Precision::bf16},
                     {"bf16-true", Precision::bf16},
                     {"16", Precision::f16},
                     {"16-mixed", Precision::f16},
                     {"fp16", Precision::f16}},
                    "type of activations and working weights; masters are 32-bit"),
             {"16-true"}, "fp16 without masters is not supported; use 16-mixed"),
      integer("max_steps", &S::max_steps, {1, kMaxSteps}, "optimizer steps of the run"),
      duration("max_time", &S::max_time, "stop and save after this time"),
      integer("log_every_n_steps", &S::log_every_n_steps, {1, kMaxSteps}, "steps between records in the log files"),
      integer("console_every_n_steps", &S::console_every_n_steps, {0, kMaxSteps, 0},
              "steps between lines on the terminal; null: log_every_n_steps"),
      integer("max_epochs", &S::max_epochs, {-1, kMaxSteps, 0}, "epochs of limit_train_batches steps; null or -1: no limit"),
      whole_or_count("limit_train_batches", &S::limit_train_batches, kStepsOrNull, "steps of an epoch; null or 1.0: max_steps"),
      count_or_share("val_check_interval", &S::val_check_interval, &S::val_check_share, kStepsOrNull,
                     "steps between validations, or their share of max_steps: 1.0 is one at the end; null: none"),
      count_or_share("limit_val_batches", &S::limit_val_batches, &S::limit_val_share, kSteps,
                     "global batches in a validation, or the share of the validation data: 1 is one batch, 1.0 is all"),
      real("gradient_clip_val", &S::gradient_clip_val, {0, 1e9, Most::included, 0}, "largest gradient norm; null: no clipping"),
      choice("on_nonfinite", &S::on_nonfinite, {{"skip", OnNonfinite::skip}, {"stop", OnNonfinite::stop}},
             "what to do with a step whose gradients are NaN or infinite"),
      choice("backend", &S::backend,
             {{"auto", BackendKind::automatic},
              {"cpu", BackendKind::cpu},
              {"cuda", BackendKind::cuda},
              {"reference", BackendKind::reference}},
             "what computes; auto: the GPU if there is one, else the CPU"),
      integer("threads", &S::threads, {0, 1 << 16}, "CPU threads of a rank; 0: all it may use, shared with the ranks beside it"),
      integer("rank_timeout", &S::rank_timeout, {0, 1 << 20, 0},
              "seconds that a rank waits for others before the job fails; null: a rank that hangs is found by its progress"),
      integer("replica_check_interval", &S::replica_check_interval, kStepsOrNull,
              "steps between checks that data parallel ranks have equal weights, which are also made before every checkpoint; "
              "null: no checks"),
  };
}

std::vector<Row<CheckpointSettings>> checkpoint_rows() {
  using S = CheckpointSettings;
  return {
      integer("every_n_train_steps", &S::every_n_train_steps, kStepsOrNull, "steps between checkpoints; null: only at the end"),
      integer("save_top_k", &S::save_top_k, {-1, kMaxSteps}, "checkpoints kept for the best validation loss; -1: all are kept"),
      choice("mode", &S::mode, {{"min", BestCheckpoint::lowest_loss}, {"max", BestCheckpoint::highest_loss}},
             "whether the best validation loss is the lowest"),
      integer("keep_last", &S::keep_last, {1, kMaxSteps}, "most recent checkpoints kept"),
      text("local_dir", &S::local_dir, "",
           "folder on each machine, such as /dev/shm/checkpoints or a local disk, to which checkpoints go first; they are copied "
           "to the run's folder while training continues; null: straight to the run's folder"),
  };
}

std::vector<Row<ExpManagerSettings>> exp_manager_rows() {
  using S = ExpManagerSettings;
  const S defaults;
  std::vector<Row<S>> rows = {
      text("explicit_log_dir", &S::explicit_log_dir, "", "folder of the run; null: exp_dir/name/TIME"),
      text("exp_dir", &S::exp_dir, defaults.exp_dir, "folder of all runs"),
      text("name", &S::name, defaults.name, "name of the run"),
      text("version", &S::version, "", "folder of the run in exp_dir/name; null: a new one"),
      boolean("use_datetime_version", &S::use_datetime_version,
              "call a new folder by the time; false: version_0, version_1, ..."),
      boolean("resume_if_exists", &S::resume_if_exists, "go on from the last checkpoint of the folder"),
      boolean("resume_ignore_no_checkpoint", &S::resume_ignore_no_checkpoint, "start over if there is no checkpoint to resume"),
      text("resume_from_checkpoint", &S::resume_from_checkpoint, "", "checkpoint of another run to start from"),
      boolean("create_checkpoint_callback", &S::create_checkpoint_callback, "save checkpoints"),
      boolean("create_dllogger_logger", &S::create_dllogger_logger, "write dllogger.json"),
      boolean("create_tensorboard_logger", &S::create_tensorboard_logger, "write TensorBoard events"),
      text("dllogger_logger_kwargs.json_file", &S::dllogger_json_file, "",
           "path of the DLLogger file, from the run's folder; null or ./dllogger.json: dllogger/rank-0/dllogger.json"),
      boolean("dllogger_logger_kwargs.stdout", &S::dllogger_stdout, "print DLLogger's line of each step too"),
      boolean("log_step_timing", &S::log_step_timing, "put step times in DLLogger and TensorBoard"),
      integer("step_timing_kwargs.buffer_size", &S::step_timing_buffer, {-1, 1 << 20},
              "steps in the running mean of the step time; 0 or -1: each step alone"),
      boolean("log_tflops_per_sec_per_gpu", &S::log_tflops_per_sec_per_gpu, "put the run's TFLOP/s in TensorBoard at its end"),
      text_list("files_to_copy", &S::files_to_copy, "files to copy to the run's folder at the start"),
  };
  mount(
      rows, "checkpoint_callback_params.", checkpoint_rows(), [](auto& s) -> auto& { return s.checkpoint; });
  return rows;
}

std::vector<Row<ScheduleSettings>> schedule_rows() {
  using S = ScheduleSettings;
  return {
      choice("name", &S::name,
             {{"CosineAnnealing", LearningRateSchedule::cosine},
              {"CosineAnnealingExp", LearningRateSchedule::cosine_exp},
              {"constant", LearningRateSchedule::constant}},
             "course of the learning rate"),
      real("warmup_steps", &S::warmup_steps, {0, kMaxSteps}, "steps of linear warm-up; may be a fraction such as 132.5"),
      integer("constant_steps", &S::constant_steps, kSteps, "steps at min_lr at the end"),
      real("min_lr", &S::min_lr, kRate, "learning rate at the end"),
      real("max_steps_for_lr_sched", &S::max_steps_for_lr_sched, {0, kMaxSteps, Most::included, 0},
           "CosineAnnealingExp: steps that the cosine is laid out for; null: trainer.max_steps"),
  };
}

std::vector<Row<OptimSettings>> optim_rows() {
  using S = OptimSettings;
  std::vector<Row<S>> rows = {
      choice("name", &S::name,
             {{"adamw", Optimizer::adamw},
              {"fused_adam", Optimizer::fused_adam},
              {"distributed_fused_adam", Optimizer::distributed_fused_adam},
              {"mcore_distributed_optim", Optimizer::mcore_distributed_optim}},
             "every name means AdamW; the last two share its state out over the data parallel ranks"),
      real("lr", &S::lr, kRate, "largest learning rate"),
      real("weight_decay", &S::weight_decay, kRate, "decay of weight matrices and embeddings"),
      real_pair("betas", &S::beta1, &S::beta2, kProbability, "decay of the running means of gradient and squared gradient"),
      real("eps", &S::eps, kEpsilon, "added to the root of the squared gradient"),
  };
  append(rows, gradient_sync_rows());
  append(rows, optimizer_state_rows());
  mount(
      rows, "sched.", schedule_rows(), [](auto& s) -> auto& { return s.sched; });
  return rows;
}

const std::vector<Choice<DataImpl>>& data_impls() {
  static const std::vector<Choice<DataImpl>> names = {{"mock", DataImpl::mock}, {"mock_legacy", DataImpl::mock_legacy},
                                                      {"text", DataImpl::text}, {"mmap", DataImpl::mmap},
                                                      {"flat", DataImpl::flat}, {"llmc", DataImpl::llmc},
                                                      {"sft", DataImpl::sft}};
  return names;
}

std::vector<Row<DataSettings>> data_rows() {
  using S = DataSettings;
  return {
      choice("data_impl", &S::data_impl, data_impls(), "where samples come from"),
      split_lists(
          "data_prefix", SplitLists<S>{&S::data_prefix, &S::validation_prefix, &S::test_prefix},
          "text: the files, read as bytes; mmap: dataset prefixes, perhaps each after its weight; flat, llmc: a folder or files; "
          "or {train, validation, test} with a list each"),
      text("splits_string", &S::splits_string, S{}.splits_string, "shares of training, validation and test data"),
      boolean("mock_dataset", &S::mock_dataset, "the same as data_impl mock"),
      boolean("legacy_dataset", &S::legacy_dataset, "samples as older NeMo makes them; with mock the same as mock_legacy"),
      boolean("shuffle_documents", &S::shuffle_documents, "shuffle documents before they are cut into samples"),
      boolean("no_seqlen_plus_one_input_tokens", &S::no_seqlen_plus_one_input_tokens,
              "samples of encoder_seq_length tokens, whose last target is made up, instead of one more"),
      boolean("validation_drop_last", &S::validation_drop_last, "leave out the last, shorter sample of the validation data"),
      boolean("pad_samples_to_global_batch_size", &S::pad_samples_to_global_batch_size,
              "fill up the last batch of the validation data"),
      text("index_mapping_dir", &S::index_mapping_dir, "", "mmap: where sample indices are kept; null: beside the data"),
      text("index_tokenizer", &S::index_tokenizer, S{}.index_tokenizer,
           "mmap: the tokenizer in the names of indices, as the system that made them describes it"),
      real("auto_blend", &S::auto_blend, {0, 10, Most::included, 0},
           "mmap: weigh datasets by size to this power; folders allowed"),
      choice("window_order", &S::window_order, {{"random", WindowOrder::random}, {"sequential", WindowOrder::sequential}},
             "flat, llmc: windows at drawn offsets, or one after the other"),
      boolean("reset_position_ids", &S::reset_position_ids, "positions start again at 0 after the token that ends a document"),
      boolean("reset_attention_mask", &S::reset_attention_mask, "attention sees only the document that a token belongs to"),
      boolean("eod_mask_loss", &S::eod_mask_loss, "the target of the token that ends a document does not count in the loss"),
      text("prompt_template", &S::prompt_template, S{}.prompt_template,
           "sft: the text of an example, with its fields in braces; it ends with the response"),
      text("label_key", &S::label_key, S{}.label_key, "sft: the field with the response, which alone counts in the loss"),
      integer("num_workers", &S::num_workers, {0, 256}, "threads that make batches ahead of the step; 0 is 1"),
  };
}

std::vector<Row<TokenizerSettings>> tokenizer_rows() {
  using S = TokenizerSettings;
  return {
      choice("library", &S::library,
             {{"megatron", TokenizerLibrary::megatron},
              {"sentencepiece", TokenizerLibrary::sentencepiece},
              {"huggingface", TokenizerLibrary::huggingface}},
             "where the tokenizer comes from"),
      text("type", &S::type, "",
           "the tokenizer; megatron's GPT2BPETokenizer has 50257 tokens; huggingface: a folder with its tokenizer.json"),
      text("model", &S::model, "", "the tokenizer's file, such as a sentencepiece model"),
      text("vocab_file", &S::vocab_file, "", "vocab.json, tokenizer.json or a .tiktoken file; null, and no model: bytes"),
      text("merge_file", &S::merge_file, "", "merges.txt of vocab_file; null: the one beside it"),
  };
}

std::vector<Row<RopeScalingSettings>> rope_scaling_rows() {
  using S = RopeScalingSettings;
  return {
      choice(
          "rope_type", &S::rope_type,
          {{"null", RopeType::plain}, {"default", RopeType::plain}, {"linear", RopeType::linear}, {"llama3", RopeType::llama3}},
          "lower frequencies of rope for long texts: all of them, or the low ones as in Llama 3.1"),
      real("factor", &S::factor, kRopeFactor,
           "linear: what positions, and so all frequencies, are divided by; llama3: what low frequencies are divided by"),
      real("low_freq_factor", &S::low_freq_factor, kRopeFactor,
           "llama3: waves longer than the original length over this are low"),
      real("high_freq_factor", &S::high_freq_factor, kRopeFactor,
           "llama3: waves shorter than the original length over this stay"),
      integer("original_max_position_embeddings", &S::original_max_position_embeddings, {1, 1 << 30},
              "llama3: the original length"),
  };
}

std::vector<Row<LitgptSettings>> litgpt_rows() {
  using S = LitgptSettings;
  return {
      integer("batch_size", &S::batch_size, {0, kMaxBatch, 0},
              "LitGPT: samples of one device in a step, instead of model.global_batch_size"),
      integer("micro_batch_size", &S::micro_batch_size, {0, kMaxBatch, 0},
              "LitGPT: those a device works on at once, instead of model.micro_batch_size"),
  };
}

std::vector<Row<ModelSettings>> size_rows() {
  using S = ModelSettings;
  return {
      integer("micro_batch_size", &S::micro_batch_size, {1, kMaxBatch}, "samples a rank works on at once"),
      integer("global_batch_size", &S::global_batch_size, {1, kMaxBatch}, "samples in a step"),
      integer_list("rampup_batch_size", &S::rampup_batch_size, {0, kMaxSteps}, "[start, increment, samples]; null: no ramp-up"),
      integer("tensor_model_parallel_size", &S::tensor_model_parallel_size, kRanks, "ranks that share each layer"),
      integer("pipeline_model_parallel_size", &S::pipeline_model_parallel_size, kRanks, "ranks that share the stack of layers"),
      integer("virtual_pipeline_model_parallel_size", &S::virtual_pipeline_model_parallel_size, {1, 10'000, 1},
              "chunks of layers on each pipeline rank, for the interleaved schedule; null: 1"),
      choice("pipeline_schedule", &S::pipeline_schedule,
             {{"1f1b", PipelineSchedule::one_forward_one_backward},
              {"gpipe", PipelineSchedule::gpipe},
              {"zb-h1", PipelineSchedule::zero_bubble}},
             "order of forward and backward passes on pipeline ranks; 1f1b is interleaved with several chunks"),
      integer("num_layers_in_first_pipeline_stage", &S::num_layers_in_first_pipeline_stage, {0, 10'000, 0},
              "layers of the first pipeline rank, which has the embedding too; null: as many as the others"),
      integer("num_layers_in_last_pipeline_stage", &S::num_layers_in_last_pipeline_stage, {0, 10'000, 0},
              "layers of the last pipeline rank, which has the output too; null: as many as the others"),
      integer("context_parallel_size", &S::context_parallel_size, kRanks, "ranks that share each sequence"),
      boolean("sequence_parallel", &S::sequence_parallel, "cut norms and dropouts over the tensor parallel ranks"),
      integer("encoder_seq_length", &S::encoder_seq_length, {1, kMaxSequence}, "tokens in a sample"),
      integer("max_position_embeddings", &S::max_position_embeddings, {1, kMaxSequence}, "rows of the position embedding"),
      integer("num_layers", &S::num_layers, {1, 10'000}, "transformer blocks"),
      integer("hidden_size", &S::hidden_size, kWidth, "width of the model"),
      integer("ffn_hidden_size", &S::ffn_hidden_size, kWidthOrNull, "width inside the MLP; null: 4 * hidden_size"),
      integer("num_attention_heads", &S::num_attention_heads, kWidth, "query heads"),
      integer("num_query_groups", &S::num_query_groups, kWidthOrNull, "key and value heads; null: as many as query heads"),
      integer("kv_channels", &S::kv_channels, kWidthOrNull, "width of a head; null: hidden_size / num_attention_heads"),
      integer("vocab_size", &S::vocab_size, {0, kMaxVocabulary, 0}, "tokens; null: the tokenizer's"),
      integer("make_vocab_size_divisible_by", &S::make_vocab_size_divisible_by, {1, 1 << 16},
              "the vocabulary is padded to a multiple"),
  };
}

std::vector<Row<ModelSettings>> architecture_rows() {
  using S = ModelSettings;
  return {
      real("init_method_std", &S::init_method_std, kRate, "standard deviation of initial weights"),
      boolean("use_scaled_init_method", &S::use_scaled_init_method,
              "divide it by sqrt(2 * num_layers) where a block adds to its input"),
      real("hidden_dropout", &S::hidden_dropout, kProbability, "dropout of embeddings and of what a block adds"),
      real("attention_dropout", &S::attention_dropout, kProbability, "dropout of attention probabilities"),
      choice("normalization", &S::normalization,
             {{"layernorm", Normalization::layernorm},
              {"layernorm1p", Normalization::layernorm1p},
              {"rmsnorm", Normalization::rmsnorm},
              {"LayerNorm", Normalization::layernorm},
              {"RMSNorm", Normalization::rmsnorm}},
             "the norm before each half of a block"),
      boolean("layernorm_zero_centered_gamma", &S::layernorm_zero_centered_gamma, "with layernorm: the same as layernorm1p"),
      real("layernorm_epsilon", &S::layernorm_epsilon, kEpsilon, "added to the variance in a norm"),
      boolean("do_layer_norm_weight_decay", &S::do_layer_norm_weight_decay, "decay norms and biases too"),
      refuse(choice("position_embedding_type", &S::position_embedding_type,
                    {{"learned_absolute", PositionEmbedding::learned_absolute},
                     {"rope", PositionEmbedding::rope},
                     {"none", PositionEmbedding::none}},
                    "how positions enter the model"),
             {"alibi", "ALiBi"}, "ALiBi is not supported; use rope"),
      real("rotary_percentage", &S::rotary_percentage, {0, 1}, "share of a head that rope turns"),
      real("rotary_base", &S::rotary_base, {1, 1e12}, "base of the angles of rope"),
      boolean("scale_positional_embedding", &S::scale_positional_embedding, "the same as rope_scaling.rope_type=llama3"),
      real("seq_len_interpolation_factor", &S::seq_len_interpolation_factor,
           {kRopeFactor.least, kRopeFactor.most, Most::included, 1},
           "the same as rope_scaling.rope_type=linear with this factor; null: 1"),
      choice("activation", &S::activation,
             {{"gelu", MlpActivation::gelu},
              {"fast-swiglu", MlpActivation::swiglu},
              {"swiglu", MlpActivation::swiglu},
              {"gelu_erf", MlpActivation::gelu_erf}},
             "activation of the MLP; gelu is the tanh form"),
      boolean("bias", &S::bias, "biases in linear layers"),
      boolean("share_embeddings_and_output_weights", &S::share_embeddings_and_output_weights,
              "one matrix for embedding and output"),
      boolean("parallel_residual", &S::parallel_residual, "attention and MLP side by side on the same input, as in GPT-NeoX"),
      boolean("shared_attention_norm", &S::shared_attention_norm,
              "with parallel_residual: one norm for attention and MLP, as in Falcon 7B"),
      choice("activations_checkpoint_granularity", &S::activations_checkpoint_granularity,
             {{"null", RecomputeGranularity::none},
              {"selective", RecomputeGranularity::selective},
              {"full", RecomputeGranularity::full}},
             "what backward computes again instead of keeping it"),
      choice("activations_checkpoint_method", &S::activations_checkpoint_method,
             {{"uniform", RecomputeMethod::uniform}, {"block", RecomputeMethod::block}, {"null", RecomputeMethod::uniform}},
             "full: keep the input of every n-th block, or recompute the first n blocks"),
      integer("activations_checkpoint_num_layers", &S::activations_checkpoint_num_layers, {0, 10'000, 1},
              "full: the n of the method"),
      integer("num_micro_batches_with_partial_activation_checkpoints", &S::num_micro_batches_with_partial_activation_checkpoints,
              {0, kMaxBatch, 0}, "pipeline: micro-batches in flight that are recomputed only in part; null: none"),
      integer("activations_checkpoint_layers_per_pipeline", &S::activations_checkpoint_layers_per_pipeline, {0, 10'000, 0},
              "pipeline: layers fewer to recompute on each later stage; null: none"),
      integer("seed", &S::seed, {0, std::numeric_limits<int64_t>::max()}, "seed of every random draw"),
      text("resume_from_checkpoint", &S::resume_from_checkpoint, "", "the same as exp_manager.resume_from_checkpoint"),
      text("restore_from_path", &S::restore_from_path, "",
           "run or checkpoint whose weights a new run starts from; null: weights are drawn"),
  };
}

std::vector<Row<PeftSettings>> peft_rows() {
  using S = PeftSettings;
  std::vector<Row<PeftSettings>> rows = {
      choice("peft_scheme", &S::scheme, {{"null", PeftScheme::none}, {"lora", PeftScheme::lora}},
             "what is trained: null: all weights; lora: adapters of low rank"),
      text("restore_from_path", &S::restore_from_path, "",
           "lora: adapters to begin with, a folder that PEFT saved; null: new ones"),
  };
  using L = LoraSettings;
  const std::vector<Row<LoraSettings>> lora = {
      integer("adapter_dim", &L::adapter_dim, {1, 1 << 16}, "lora: rank of the adapters"),
      real("alpha", &L::alpha, {0, 1e6, Most::included, 0}, "lora: adapters are multiplied by alpha / adapter_dim; null: by 1"),
      text_list("target_modules", &L::target_modules,
                "lora: attention_qkv, attention_dense, mlp_fc1, mlp_fc2, attention, mlp or all"),
  };
  mount(
      rows, "lora_tuning.", lora, [](auto& s) -> auto& { return s.lora; });
  return rows;
}

std::vector<Row<ValidationTasksSettings>> validation_tasks_rows() {
  using S = ValidationTasksSettings;
  constexpr int64_t kMost = int64_t{1} << 40;
  return {
      text_list("tasks", &S::tasks, "tasks to score the model on while it trains, as for trireme evaluate"),
      text("data_dir", &S::data_dir, "", "folder with the files of the tasks"),
      integer("every_n_steps", &S::every_n_steps, {0, kMost}, "steps between two scorings; 0: after every validation"),
      integer("limit", &S::limit, {0, kMost}, "only the first documents of each task; 0: all"),
      integer("num_fewshot", &S::num_fewshot, {0, 1000}, "solved examples before each question"),
  };
}

std::vector<Row<ModelSettings>> model_rows() {
  std::vector<Row<ModelSettings>> rows;
  const auto whole = [](auto& s) -> auto& { return s; };
  mount(rows, "", size_rows(), whole);
  mount(rows, "", architecture_rows(), whole);
  append(rows, hardware_rows());
  mount(
      rows, "rope_scaling.", rope_scaling_rows(), [](auto& s) -> auto& { return s.rope_scaling; });
  mount(
      rows, "tokenizer.", tokenizer_rows(), [](auto& s) -> auto& { return s.tokenizer; });
  mount(
      rows, "optim.", optim_rows(), [](auto& s) -> auto& { return s.optim; });
  mount(
      rows, "data.", data_rows(), [](auto& s) -> auto& { return s.data; });
  mount(
      rows, "peft.", peft_rows(), [](auto& s) -> auto& { return s.peft; });
  mount(
      rows, "validation_tasks.", validation_tasks_rows(), [](auto& s) -> auto& { return s.validation_tasks; });
  return rows;
}

}  // namespace

std::string name_of(DataImpl data_impl) {
  const std::vector<Choice<DataImpl>>& names = data_impls();
  return std::ranges::find(names, data_impl, &Choice<DataImpl>::value)->name;
}

const std::vector<Field>& settings_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> rows;
    mount(
        rows, "", litgpt_rows(), [](auto& s) -> auto& { return s.litgpt; });
    mount(
        rows, "trainer.", trainer_rows(), [](auto& s) -> auto& { return s.trainer; });
    mount(
        rows, "exp_manager.", exp_manager_rows(), [](auto& s) -> auto& { return s.exp_manager; });
    mount(
        rows, "model.", model_rows(), [](auto& s) -> auto& { return s.model; });
    return rows;
  }();
  return fields;
}

const Field* find_setting(std::string_view key) {
  const std::vector<Field>& fields = settings_fields();
  const auto field = std::ranges::find(fields, key, &Field::key);
  return field == fields.end() ? nullptr : &*field;
}

}  // namespace trireme
