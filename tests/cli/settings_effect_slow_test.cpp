// Every setting has an effect: for each row of the field table, a small run with another value differs from the run without it in
// something a user sees or gets: the announcement, the losses, the files, or the line that says what is missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cli/run_program.h"
#include "config/settings_fields.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Effect {
  const char* key;
  const char* value;
  const char* context = "";  // what must be there for the setting to act on
};

constexpr const char* kRope = "model.position_embedding_type=rope";
// The second of the two frequencies of a head lies between those that stay and those that are divided.
#define TRIREME_MIDDLE_ROPE \
  "model.position_embedding_type=rope model.rotary_base=100 model.rope_scaling.original_max_position_embeddings=128"
constexpr const char* kMiddleRope = TRIREME_MIDDLE_ROPE;
constexpr const char* kScaledRope = TRIREME_MIDDLE_ROPE " model.scale_positional_embedding=true";
constexpr const char* kManyDocuments = "model.data.data_impl=mock_legacy model.vocab_size=20";  // every 20th token ends one
constexpr const char* kFp16 = "trainer.precision=16";
constexpr const char* kFull = "model.activations_checkpoint_granularity=full";
constexpr const char* kMock = "model.data.data_impl=mock model.vocab_size=64";
constexpr const char* kRuns = "exp_manager.explicit_log_dir=null exp_manager.exp_dir=FOLDER/runs";
constexpr const char* kNoVocabulary = "model.data.data_impl=mock";

const Effect kEffects[] = {
    {"batch_size", "4", "micro_batch_size=2 ~model.micro_batch_size ~model.global_batch_size"},
    {"micro_batch_size", "2", "batch_size=4 ~model.micro_batch_size ~model.global_batch_size"},
    {"trainer.num_nodes", "2"},
    {"trainer.devices", "2"},
    {"trainer.precision", "32"},
    {"trainer.max_steps", "5"},
    {"trainer.max_time", "00:00:00:01",
     "trainer.max_steps=6000 trainer.log_every_n_steps=100000 trainer.val_check_interval=null "
     "exp_manager.checkpoint_callback_params.every_n_train_steps=null"},
    {"trainer.log_every_n_steps", "2"},
    {"trainer.console_every_n_steps", "2"},
    {"trainer.max_epochs", "1", "trainer.limit_train_batches=3"},
    {"trainer.limit_train_batches", "3", "trainer.max_epochs=1"},
    {"trainer.val_check_interval", "0.25"},
    {"trainer.limit_val_batches", "1.0"},
    {"trainer.gradient_clip_val", "0.1"},
    {"trainer.on_nonfinite", "stop", "model.optim.lr=100 model.optim.weight_decay=100 trainer.max_steps=20"},
    {"trainer.backend", "reference"},
    {"trainer.threads", "2"},
    {"trainer.rank_timeout", "60"},
    {"trainer.replica_check_interval", "2"},
    {"exp_manager.explicit_log_dir", "FOLDER/elsewhere"},
    {"exp_manager.exp_dir", "FOLDER/elsewhere", "exp_manager.explicit_log_dir=null"},
    {"exp_manager.name", "other", kRuns},
    {"exp_manager.version", "mine", kRuns},
    {"exp_manager.use_datetime_version", "false", kRuns},
    {"exp_manager.dllogger_logger_kwargs.json_file", "log.json"},
    {"exp_manager.dllogger_logger_kwargs.stdout", "true"},
    {"exp_manager.log_step_timing", "false"},
    {"exp_manager.log_tflops_per_sec_per_gpu", "false",
     "trainer.val_check_interval=null exp_manager.checkpoint_callback_params.every_n_train_steps=null"},
    {"exp_manager.files_to_copy", "[FOLDER/text.txt]"},
    {"exp_manager.resume_if_exists", "true"},
    {"exp_manager.resume_ignore_no_checkpoint", "true", "exp_manager.resume_if_exists=true"},
    {"exp_manager.resume_from_checkpoint", "/load"},
    {"exp_manager.create_checkpoint_callback", "false"},
    {"exp_manager.create_dllogger_logger", "false"},
    {"exp_manager.create_tensorboard_logger", "false"},
    {"exp_manager.step_timing_kwargs.buffer_size", "1"},
    {"exp_manager.checkpoint_callback_params.every_n_train_steps", "2"},
    {"exp_manager.checkpoint_callback_params.save_top_k", "4", "exp_manager.checkpoint_callback_params.keep_last=1"},
    {"exp_manager.checkpoint_callback_params.mode", "max", "exp_manager.checkpoint_callback_params.save_top_k=1"},
    {"exp_manager.checkpoint_callback_params.keep_last", "4"},
    {"exp_manager.checkpoint_callback_params.local_dir", "FOLDER/near"},
    {"model.micro_batch_size", "1"},
    {"model.global_batch_size", "8"},
    {"model.rampup_batch_size", "[2,2,4]"},
    {"model.tensor_model_parallel_size", "2"},
    {"model.pipeline_model_parallel_size", "2"},
    {"model.virtual_pipeline_model_parallel_size", "2"},
    {"model.pipeline_schedule", "gpipe"},
    {"model.num_layers_in_first_pipeline_stage", "1"},
    {"model.num_layers_in_last_pipeline_stage", "1"},
    {"model.context_parallel_size", "2"},
    {"model.sequence_parallel", "true"},
    {"model.encoder_seq_length", "8"},
    {"model.max_position_embeddings", "32"},
    {"model.num_layers", "3"},
    {"model.hidden_size", "32"},
    {"model.ffn_hidden_size", "32"},
    {"model.num_attention_heads", "2"},
    {"model.num_query_groups", "2"},
    {"model.kv_channels", "8"},
    {"model.vocab_size", "300"},
    {"model.make_vocab_size_divisible_by", "128"},
    {"model.init_method_std", "0.1"},
    {"model.use_scaled_init_method", "false"},
    {"model.hidden_dropout", "0.2"},
    {"model.attention_dropout", "0.2"},
    {"model.normalization", "rmsnorm"},
    {"model.layernorm_zero_centered_gamma", "true", "model.do_layer_norm_weight_decay=true"},
    {"model.layernorm_epsilon", "0.1"},
    {"model.do_layer_norm_weight_decay", "true"},
    {"model.position_embedding_type", "rope"},
    {"model.rotary_percentage", "0.5", kRope},
    {"model.rotary_base", "100", kRope},
    {"model.scale_positional_embedding", "true", kMiddleRope},
    {"model.seq_len_interpolation_factor", "2", kRope},
    {"model.rope_scaling.rope_type", "llama3", kMiddleRope},
    {"model.rope_scaling.factor", "2", kScaledRope},
    {"model.rope_scaling.low_freq_factor", "1.5", kScaledRope},
    {"model.rope_scaling.high_freq_factor", "8", kScaledRope},
    {"model.rope_scaling.original_max_position_embeddings", "100", kScaledRope},
    {"model.activation", "swiglu"},
    {"model.bias", "false"},
    {"model.share_embeddings_and_output_weights", "false"},
    {"model.parallel_residual", "true"},
    {"model.shared_attention_norm", "true", "model.parallel_residual=true"},
    {"model.activations_checkpoint_granularity", "full"},
    {"model.activations_checkpoint_method", "block", kFull},
    {"model.activations_checkpoint_num_layers", "2", kFull},
    {"model.num_micro_batches_with_partial_activation_checkpoints", "1"},
    {"model.activations_checkpoint_layers_per_pipeline", "1"},
    {"model.seed", "7"},
    {"model.resume_from_checkpoint", "/load"},
    {"model.restore_from_path", "FOLDER/nothing"},
    {"model.overlap_p2p_comm", "true"},
    {"model.batch_p2p_comm", "false"},
    {"model.ub_tp_comm_overlap", "true"},
    {"model.fsdp", "true"},
    {"model.fsdp_sharding_strategy", "grad", "model.fsdp=true"},
    {"model.fsdp_grad_reduce_dtype", "bf16", "model.fsdp=true"},
    {"model.enable_cuda_graph", "true"},
    {"model.fp8", "true"},
    {"model.fp8_hybrid", "false"},
    {"model.fp8_e4m3", "true"},
    {"model.fp8_recipe", "tensorwise"},
    {"model.fp8_params", "true"},
    {"model.fp8_lm_head", "true"},
    {"model.fp8_wgrad", "false"},
    {"model.fp8_margin", "1"},
    {"model.fp8_interval", "2"},
    {"model.fp8_amax_history_len", "16"},
    {"model.fp8_amax_compute_algo", "most_recent"},
    {"model.reduce_amax", "false"},
    {"model.native_amp_init_scale", "4096", kFp16},
    {"model.native_amp_growth_interval", "1", "trainer.precision=16 model.native_amp_init_scale=2097152"},
    {"model.hysteresis", "1", kFp16},
    {"model.nsys_profile.enabled", "true"},
    {"model.nsys_profile.trace", "[osrt]"},
    {"model.nsys_profile.start_step", "3"},
    {"model.nsys_profile.end_step", "12"},
    {"model.nsys_profile.ranks", "[0,1]"},
    {"model.nsys_profile.gen_shape", "true"},
    {"model.peft.peft_scheme", "lora"},
    {"model.peft.restore_from_path", "FOLDER/adapters"},
    {"model.peft.lora_tuning.adapter_dim", "4"},
    {"model.peft.lora_tuning.alpha", "8"},
    {"model.peft.lora_tuning.target_modules", "[all]"},
    {"model.validation_tasks.tasks", "[piqa]"},
    {"model.validation_tasks.data_dir", "FOLDER"},
    {"model.validation_tasks.every_n_steps", "3"},
    {"model.validation_tasks.limit", "3"},
    {"model.validation_tasks.num_fewshot", "3"},
    {"model.tokenizer.library", "sentencepiece", "model.data.data_impl=mock model.tokenizer.type=GPT2BPETokenizer"},
    {"model.tokenizer.type", "GPT2BPETokenizer", kNoVocabulary},
    {"model.tokenizer.model", "spm.model", "model.data.data_impl=mmap"},
    {"model.tokenizer.vocab_file", "FOLDER/tokenizer/vocab.json"},
    {"model.tokenizer.merge_file", "FOLDER/tokenizer/merges.txt"},
    {"model.optim.name", "distributed_fused_adam"},
    {"model.optim.lr", "2e-2"},
    {"model.optim.weight_decay", "0.5"},
    {"model.optim.betas", "[0.8,0.9]"},
    {"model.optim.eps", "1e-2"},
    {"model.optim.bucket_cap_mb", "220"},
    {"model.optim.overlap_grad_sync", "true"},
    {"model.optim.overlap_param_sync", "true"},
    {"model.optim.grad_sync_dtype", "bf16"},
    {"model.optim.exp_avg_dtype", "bf16"},
    {"model.optim.exp_avg_sq_dtype", "bf16"},
    {"model.optim.optimizer_cpu_offload", "true"},
    {"model.optim.sched.name", "constant"},
    {"model.optim.sched.warmup_steps", "2.5"},
    {"model.optim.sched.constant_steps", "1"},
    {"model.optim.sched.min_lr", "5e-3"},
    {"model.optim.sched.max_steps_for_lr_sched", "100", "model.optim.sched.name=CosineAnnealingExp"},
    {"model.data.data_impl", "mock_legacy", "model.vocab_size=300"},
    {"model.data.data_prefix", "[FOLDER/other.txt]"},
    {"model.data.splits_string", "'50,50,0'"},
    {"model.data.mock_dataset", "true", "model.vocab_size=300"},
    {"model.data.legacy_dataset", "true", kMock},
    {"model.data.shuffle_documents", "false"},
    {"model.data.no_seqlen_plus_one_input_tokens", "true"},
    {"model.data.validation_drop_last", "false"},
    {"model.data.pad_samples_to_global_batch_size", "true"},
    {"model.data.index_mapping_dir", "FOLDER/maps"},
    {"model.data.index_tokenizer", "GPT2"},
    {"model.data.auto_blend", "1.0"},
    {"model.data.window_order", "sequential"},
    {"model.data.reset_position_ids", "true", kManyDocuments},
    {"model.data.reset_attention_mask", "true", kManyDocuments},
    {"model.data.eod_mask_loss", "true", kManyDocuments},
    {"model.data.num_workers", "3"},
    {"model.data.prompt_template", "'{a} {b}'"},
    {"model.data.label_key", "answer"},
};

class SettingsEffect : public testing::TestWithParam<size_t> {
 protected:
  SettingsEffect() {
    for (const char* name : {"text.txt", "other.txt"}) {
      std::string text;
      for (int i = 0; i < 300; ++i) text += fmt::format("line {} of {} that nobody wrote\n", i * i, name);
      folder_.write(name, text);
    }
    folder_.write("tiny.yaml", fmt::format(R"(
trainer: {{max_steps: 4, val_check_interval: 2, limit_val_batches: 1, threads: 1}}
exp_manager: {{explicit_log_dir: {0}/run, checkpoint_callback_params: {{every_n_train_steps: 1, save_top_k: 0}}}}
model:
  {{micro_batch_size: 2, global_batch_size: 4, encoder_seq_length: 16, max_position_embeddings: 16, num_layers: 2,
  hidden_size: 16, num_attention_heads: 4, make_vocab_size_divisible_by: 64, hidden_dropout: 0.0, attention_dropout: 0.0,
  optim: {{lr: 1e-2, sched: {{warmup_steps: 2, min_lr: 1e-4}}}},
  data: {{data_impl: text, splits_string: '80,20,0', data_prefix: [{0}/text.txt]}}}}
)",
                                           folder_.path().string()));
  }

  // Everything of a run that does not depend on the clock.
  std::string fingerprint(std::string changes) {
    for (size_t at = changes.find("FOLDER"); at != std::string::npos; at = changes.find("FOLDER"))
      changes.replace(at, 6, folder_.path().string());
    for (const char* place : {"run", "runs", "elsewhere"}) fs::remove_all(folder_ / place);
    const ProgramResult run = run_program("train " + (folder_ / "tiny.yaml").string() + " " + changes);
    return fmt::format("status {}\n{}{}{}{}", run.status, without_clock(run.output), files(), mean_is_raw(), board_has_rates());
  }

  static std::string without_clock(const std::string& output) {
    static const std::set<std::string> kept = {"trireme", "trireme:", "model", "batch", "data",
                                               "layout",  "without",  "run",   "step",  "valid"};
    static const std::regex clock("_?20[0-9-]+_[0-9-]+|  program and data.*|(grad +[0-9.e+-]+) .*|  perplexity.*");
    std::string text;
    std::istringstream lines(unwrapped(output));
    for (std::string line; std::getline(lines, line);) {
      const std::string first = line.substr(0, line.find(' '));
      if (first == "DLL") text += "DLL\n";
      if (kept.contains(first) || line.starts_with("memory  parameters")) text += std::regex_replace(line, clock, "$1") + "\n";
    }
    return text;
  }

  std::string files() const {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path()))
      names.insert(std::regex_replace(entry.path().string(), std::regex("tfevents.*|20[0-9-]+_[0-9-]+"), ""));
    std::string list;
    for (const std::string& name : names) list += name + "\n";
    return list;
  }

  // Whether the event file has the rates of the end of a run.
  std::string board_has_rates() const {
    if (!fs::exists(folder_ / "run")) return {};
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "run")) {
      if (!entry.path().filename().string().starts_with("events.")) continue;
      std::ifstream file(entry.path());
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      return contains(bytes, "tflops_per_sec") ? "rates" : "none";
    }
    return {};
  }

  // Whether the mean of the step times, which depends on the clock, is one of a single step.
  std::string mean_is_raw() const {
    std::ifstream log(folder_ / "run/dllogger/rank-0/dllogger.json");
    std::string last;
    for (std::string line; std::getline(log, line);) last = line;
    const std::regex times("\"train_step_timing in s\": ([0-9.e-]+).*\"train_step_timing_raw in s\": ([0-9.e-]+)");
    std::smatch found;
    if (!std::regex_search(last, found, times)) return {};
    return found[1] == found[2] ? "raw" : "mean";
  }

  TemporaryFolder folder_;
};

TEST(SettingsEffectTable, HasEveryRowOfTheFieldTable) {
  std::set<std::string> tried;
  for (const Effect& effect : kEffects) EXPECT_TRUE(tried.insert(effect.key).second) << effect.key;
  for (const Field& field : settings_fields()) EXPECT_TRUE(tried.contains(field.key)) << field.key;
  EXPECT_EQ(tried.size(), settings_fields().size());
}

constexpr size_t kParts = 8;  // of the table, to be run side by side

TEST_P(SettingsEffect, ChangingASettingChangesSomething) {
  std::map<std::string, std::string> without = {{"", fingerprint("")}};
  ASSERT_EQ(fingerprint(""), without[""]) << "a run must repeat itself";
  EXPECT_TRUE(contains(without[""], "status 0"));
  EXPECT_TRUE(contains(without[""], "step  4/4  loss"));
  for (size_t i = GetParam(); i < std::size(kEffects); i += kParts) {
    const Effect& effect = kEffects[i];
    const std::string context = effect.context;
    if (!without.contains(context)) without[context] = fingerprint(context);
    const std::string with = fingerprint(fmt::format("{} ++{}={}", context, effect.key, effect.value));
    EXPECT_NE(with, without[context]) << effect.key << "=" << effect.value;
    // A complaint must be about this setting, not about the notation of the test.
    EXPECT_EQ(with.find("unknown key"), std::string::npos) << with;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, SettingsEffect, testing::Range<size_t>(0, kParts));

}  // namespace
}  // namespace trireme
