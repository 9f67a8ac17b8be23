#include "config/settings_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "config/known_keys.h"
#include "config/settings_fields.h"
#include "config/settings_printer.h"
#include "config/user_error.h"
#include "config/yaml.h"

namespace trireme {
namespace {

// A recipe with one dotted key set to a value in YAML notation.
Tree recipe_with(const std::string& key, const std::string& value) {
  Tree recipe;
  recipe.set(key, *read_yaml("v: " + value, "r.yaml").find("v"));
  return recipe;
}

Settings settings_with(const std::string& key, const std::string& value) {
  return read_settings(recipe_with(key, value)).settings;
}

TEST(SettingsReader, AnEmptyRecipeGivesTheDefaults) {
  EXPECT_EQ(to_yaml(read_settings(Tree{}).settings), to_yaml(Settings{}));
  EXPECT_EQ(to_yaml(read_settings(read_yaml("model:\ntrainer: {}\n", "r.yaml")).settings), to_yaml(Settings{}));
}

TEST(SettingsReader, EveryFieldCanBeChangedAndWrittenBack) {
  // A value other than the default for every key: no row may read or write a member of another one.
  const char* text = R"(
batch_size: 330
micro_batch_size: 15
trainer: {num_nodes: 2, devices: 3, precision: 32, max_steps: 7, max_time: '01:02:03:04', log_every_n_steps: 5, max_epochs: 3,
  console_every_n_steps: 7, limit_train_batches: 4, val_check_interval: 6, limit_val_batches: 0.25, gradient_clip_val: 0.5, on_nonfinite: stop,
  backend: reference, threads: 9, rank_timeout: 77, replica_check_interval: 78}
exp_manager: {explicit_log_dir: here, exp_dir: there, name: run, version: mine, use_datetime_version: false,
  dllogger_logger_kwargs: {json_file: log.json, stdout: true}, log_step_timing: false, log_tflops_per_sec_per_gpu: false,
  files_to_copy: [one], resume_if_exists: true, resume_ignore_no_checkpoint: true,
  resume_from_checkpoint: from, create_checkpoint_callback: false, create_dllogger_logger: false,
  create_tensorboard_logger: false, step_timing_kwargs: {buffer_size: 11},
  checkpoint_callback_params: {every_n_train_steps: 12, save_top_k: 13, mode: max, keep_last: 14, local_dir: near}}
model: {micro_batch_size: 15, global_batch_size: 1980, rampup_batch_size: [17, 18, 19], tensor_model_parallel_size: 20,
  pipeline_model_parallel_size: 21, virtual_pipeline_model_parallel_size: 5, pipeline_schedule: gpipe,
  num_layers_in_first_pipeline_stage: 3, num_layers_in_last_pipeline_stage: 2, context_parallel_size: 22, sequence_parallel: true,
  encoder_seq_length: 23, max_position_embeddings: 24, num_layers: 25, hidden_size: 26, ffn_hidden_size: 27,
  num_attention_heads: 28, num_query_groups: 29, kv_channels: 30, vocab_size: 31, make_vocab_size_divisible_by: 32,
  init_method_std: 0.33, use_scaled_init_method: false, hidden_dropout: 0.34, attention_dropout: 0.35, normalization: rmsnorm,
  layernorm_zero_centered_gamma: true, layernorm_epsilon: 0.36, do_layer_norm_weight_decay: true, position_embedding_type: rope,
  rotary_percentage: 0.37, rotary_base: 38.0, scale_positional_embedding: true, seq_len_interpolation_factor: 65.0,
  rope_scaling: {rope_type: llama3, factor: 61.0, low_freq_factor: 62.0, high_freq_factor: 63.0, original_max_position_embeddings: 64},
  activation: gelu_erf, bias: false, share_embeddings_and_output_weights: false,
  parallel_residual: true, shared_attention_norm: true, activations_checkpoint_granularity: full, activations_checkpoint_method: block,
  activations_checkpoint_num_layers: 39, num_micro_batches_with_partial_activation_checkpoints: 49,
  activations_checkpoint_layers_per_pipeline: 50, seed: 40, resume_from_checkpoint: elsewhere, restore_from_path: start,
  overlap_p2p_comm: true,
  batch_p2p_comm: false, ub_tp_comm_overlap: true, fsdp: true, fsdp_sharding_strategy: grad, fsdp_grad_reduce_dtype: bf16,
  enable_cuda_graph: true, fp8: true, fp8_hybrid: false, fp8_e4m3: true,
  fp8_recipe: tensorwise, fp8_params: true, fp8_lm_head: true, fp8_wgrad: false, fp8_margin: 51, fp8_interval: 52, fp8_amax_history_len: 53,
  fp8_amax_compute_algo: most_recent, reduce_amax: false,
  native_amp_init_scale: 66.0, native_amp_growth_interval: 67, hysteresis: 68,
  peft: {peft_scheme: lora, restore_from_path: adapters, lora_tuning: {adapter_dim: 4, alpha: 8.5, target_modules: [all]}},
  validation_tasks: {tasks: [piqa], data_dir: evaluated, every_n_steps: 66, limit: 67, num_fewshot: 68},
  nsys_profile: {enabled: true, trace: [osrt], start_step: 54, end_step: 55, ranks: [56], gen_shape: true},
  tokenizer: {library: sentencepiece, type: bpe, model: spm.model, vocab_file: vocab.json, merge_file: merges.txt},
  optim: {name: fused_adam, lr: 0.41, weight_decay: 0.42, betas: [0.43, 0.44], eps: 0.45, bucket_cap_mb: 57,
    overlap_grad_sync: true, overlap_param_sync: true, grad_sync_dtype: bf16,
    exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16, optimizer_cpu_offload: true,
    sched: {name: constant, warmup_steps: 46.5, constant_steps: 47, min_lr: 0.48, max_steps_for_lr_sched: 58.5}},
  data: {data_impl: mock_legacy, data_prefix: {train: [a, b], validation: [c], test: [d]}, splits_string: '1,2,3',
    mock_dataset: true, legacy_dataset: true, shuffle_documents: false, no_seqlen_plus_one_input_tokens: true,
    validation_drop_last: false, pad_samples_to_global_batch_size: true, index_mapping_dir: c, index_tokenizer: '{}',
    auto_blend: 0.59, window_order: sequential, reset_position_ids: true, reset_attention_mask: true, eod_mask_loss: true,
    num_workers: 60, prompt_template: '{question} {answer}', label_key: answer}}
)";
  const Tree recipe = read_yaml(text, "r.yaml");
  const ReadSettings read = read_settings(recipe);
  EXPECT_TRUE(read.ignored_keys.empty());
  const Tree written = to_tree(read.settings), defaults = to_tree(Settings{});
  for (const Field& field : settings_fields()) {
    ASSERT_NE(recipe.find(field.key), nullptr) << field.key;
    EXPECT_EQ(written.find(field.key)->text(), recipe.find(field.key)->text()) << field.key;
    const Tree* usual = defaults.find(field.key);
    EXPECT_TRUE(usual == nullptr || usual->text() != written.find(field.key)->text()) << field.key;
  }
  const Settings again = read_settings(read_yaml(to_yaml(read.settings), "again.yaml")).settings;
  EXPECT_EQ(to_yaml(again), to_yaml(read.settings));
}

TEST(SettingsReader, Precision) {
  for (const char* text : {"32", "'32'", "32-true"})
    EXPECT_EQ(settings_with("trainer.precision", text).trainer.precision, Precision::f32);
  for (const char* text : {"bf16", "bf16-mixed"})
    EXPECT_EQ(settings_with("trainer.precision", text).trainer.precision, Precision::bf16);
  for (const char* text : {"16", "'16'", "fp16", "16-mixed"})
    EXPECT_EQ(settings_with("trainer.precision", text).trainer.precision, Precision::f16);
  EXPECT_EQ(user_error_of([&] { settings_with("trainer.precision", "16-true"); }),
            "trainer.precision=16-true: fp16 without masters is not supported; use 16-mixed (r.yaml:1)");
}

TEST(SettingsReader, Activation) {
  EXPECT_EQ(settings_with("model.activation", "gelu").model.activation, MlpActivation::gelu);
  EXPECT_EQ(settings_with("model.activation", "gelu_erf").model.activation, MlpActivation::gelu_erf);
  EXPECT_EQ(settings_with("model.activation", "swiglu").model.activation, MlpActivation::swiglu);
  EXPECT_EQ(settings_with("model.activation", "fast-swiglu").model.activation, MlpActivation::swiglu);
}

TEST(SettingsReader, NullStandsForWhatNemoMeansByIt) {
  EXPECT_EQ(read_settings(read_yaml("model: {hidden_size: 100, ffn_hidden_size: null}", "r.yaml")).settings.model.ffn_hidden_size,
            400);
  EXPECT_EQ(settings_with("model.hidden_size", "100").model.ffn_hidden_size, 400);
  EXPECT_EQ(settings_with("model.num_query_groups", "null").model.num_query_groups, 0);
  EXPECT_EQ(settings_with("model.kv_channels", "null").model.kv_channels, 0);
  EXPECT_EQ(settings_with("model.activations_checkpoint_granularity", "null").model.activations_checkpoint_granularity,
            RecomputeGranularity::none);
  EXPECT_EQ(settings_with("model.activations_checkpoint_method", "null").model.activations_checkpoint_method,
            RecomputeMethod::uniform);
  EXPECT_EQ(settings_with("model.activations_checkpoint_num_layers", "null").model.activations_checkpoint_num_layers, 1);
  EXPECT_EQ(settings_with("model.seq_len_interpolation_factor", "null").model.seq_len_interpolation_factor, 1);
  EXPECT_EQ(settings_with("trainer.gradient_clip_val", "null").trainer.gradient_clip_val, 0);
  EXPECT_EQ(settings_with("trainer.max_time", "null").trainer.max_time, 0);
  EXPECT_EQ(settings_with("exp_manager.exp_dir", "null").exp_manager.exp_dir, "runs");
  EXPECT_TRUE(settings_with("model.data.data_prefix", "null").model.data.data_prefix.empty());
}

// A printed recipe names what the one that was read named, also where two names mean the same.
TEST(SettingsReader, EveryNameOfAChoiceIsWrittenBack) {
  const struct {
    const char* key;
    std::vector<const char*> names;
  } choices[] = {
      {"model.data.data_impl", {"mock", "mock_legacy", "text", "mmap", "flat", "llmc"}},
      {"model.optim.name", {"adamw", "fused_adam", "distributed_fused_adam", "mcore_distributed_optim"}},
      {"model.optim.sched.name", {"CosineAnnealing", "CosineAnnealingExp", "constant"}},
      {"model.pipeline_schedule", {"1f1b", "gpipe", "zb-h1"}},
      {"model.tokenizer.library", {"megatron", "sentencepiece", "huggingface"}},
  };
  for (const auto& [key, names] : choices)
    for (const char* name : names) EXPECT_EQ(find_setting(key)->write(settings_with(key, name)).text(), name) << key;
  for (const char* name : choices[0].names)
    EXPECT_EQ(name_of(settings_with("model.data.data_impl", name).model.data.data_impl), name);
}

TEST(SettingsReader, OtherNotations) {
  EXPECT_EQ(settings_with("trainer.max_time", "01:02:03:04").trainer.max_time, 93784);
  EXPECT_EQ(settings_with("trainer.max_steps", "1e5").trainer.max_steps, 100000);
  EXPECT_EQ(settings_with("trainer.limit_val_batches", "0.0").trainer.limit_val_batches, 0);
  EXPECT_EQ(settings_with("exp_manager.resume_if_exists", "1").exp_manager.resume_if_exists, true);
  EXPECT_EQ(settings_with("model.optim.sched.warmup_steps", "132.5").model.optim.sched.warmup_steps, 132.5);
  EXPECT_EQ(settings_with("model.normalization", "LayerNorm").model.normalization, Normalization::layernorm);
  EXPECT_EQ(settings_with("model.layernorm_zero_centered_gamma", "true").model.normalization, Normalization::layernorm1p);
  EXPECT_EQ(settings_with("model.data.mock_dataset", "true").model.data.data_impl, DataImpl::mock);
  EXPECT_EQ(settings_with("model.data.legacy_dataset", "true").model.data.data_impl, DataImpl::mock_legacy);
  EXPECT_EQ(read_settings(read_yaml("model: {data: {data_impl: text, data_prefix: one.txt}}", "r.yaml"))
                .settings.model.data.data_prefix,
            std::vector<std::string>{"one.txt"});
  EXPECT_EQ(settings_with("model.tokenizer.type", "GPT2BPETokenizer").model.vocab_size, 50257);
}

TEST(SettingsReader, SharesOfAnEpochAsLightningHasThem) {
  const auto trainer = [](const std::string& keys) {
    return read_settings(read_yaml("trainer: {max_steps: 100, " + keys + "}", "r.yaml")).settings.trainer;
  };
  EXPECT_EQ(trainer("val_check_interval: 1").val_check_interval, 1);
  EXPECT_EQ(trainer("val_check_interval: 1.0").val_check_interval, 100);
  EXPECT_EQ(trainer("val_check_interval: 0.25").val_check_interval, 25);
  EXPECT_EQ(trainer("val_check_interval: 0.001").val_check_interval, 1);
  EXPECT_EQ(trainer("val_check_interval: 30.0").val_check_interval, 30);
  EXPECT_EQ(trainer("limit_val_batches: 1").limit_val_batches, 1);
  EXPECT_EQ(trainer("limit_val_batches: 1.0").limit_val_share, 1);
  EXPECT_EQ(trainer("limit_val_batches: 1.0").limit_val_batches, 0);
  EXPECT_EQ(trainer("limit_train_batches: 20").max_steps, 100);
  EXPECT_EQ(trainer("limit_train_batches: 20, max_epochs: 2").max_steps, 40);
  EXPECT_EQ(trainer("limit_train_batches: 20, max_epochs: 1000").max_steps, 100);
  EXPECT_EQ(trainer("limit_train_batches: 1.0, max_epochs: 1").max_steps, 100);
  EXPECT_EQ(trainer("max_epochs: -1").max_steps, 100);
}

TEST(SettingsReader, LitgptCountsTheSamplesOfADevice) {
  const auto model = [](const std::string& keys) {
    return read_settings(read_yaml("trainer: {devices: 4}\n" + keys, "r.yaml")).settings.model;
  };
  EXPECT_EQ(model("batch_size: 125\nmicro_batch_size: 5").micro_batch_size, 5);
  EXPECT_EQ(model("batch_size: 125\nmicro_batch_size: 5").global_batch_size, 500);
  EXPECT_EQ(model("batch_size: 6\nmicro_batch_size: 6\nmodel: {tensor_model_parallel_size: 2}").global_batch_size, 24);
  const auto error = [&](const std::string& keys) { return user_error_of([&] { model(keys); }); };
  EXPECT_EQ(error("batch_size: 5\nmicro_batch_size: 125"),
            "micro_batch_size=125 is larger than batch_size=5, which leaves 0 micro-batches to accumulate; they are swapped: use "
            "batch_size=125 micro_batch_size=5");
  EXPECT_EQ(error("batch_size: 125\nmicro_batch_size: 6"),
            "micro_batch_size=6 does not divide batch_size=125; use for example batch_size=120");
  EXPECT_EQ(error("batch_size: 125"), "micro_batch_size must be given beside batch_size");
  EXPECT_EQ(error("batch_size: 125\nmicro_batch_size: 5\nmodel: {global_batch_size: 125}"),
            "model.global_batch_size=125 contradicts batch_size=125, which asks for 500; remove one of them, for example with "
            "~batch_size");
}

TEST(SettingsReader, ValuesThatNoSettingAccepts) {
  struct Case {
    const char *key, *value, *message;
  };
  const Case cases[] = {
      {"trainer.max_steps", "0", "trainer.max_steps=0: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "many", "trainer.max_steps=many: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "1.5", "trainer.max_steps=1.5: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "1e300", "trainer.max_steps=1e+300: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "null", "trainer.max_steps=null: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "[1]", "trainer.max_steps=[1]: expected an integer from 1 to 1000000000000"},
      {"trainer.max_steps", "???", "trainer.max_steps must be given: an integer from 1 to 1000000000000"},
      {"trainer.limit_val_batches", "1.5",
       "trainer.limit_val_batches=1.5: expected an integer from 0 to 1000000000000, or a share from 0.0 to 1.0"},
      {"trainer.limit_val_batches", "-0.5",
       "trainer.limit_val_batches=-0.5: expected an integer from 0 to 1000000000000, or a share from 0.0 to 1.0"},
      {"trainer.max_time", "3600", "trainer.max_time=3600: expected DD:HH:MM:SS, for example 00:04:00:00 for four hours"},
      {"trainer.max_time", "'01:02:03'",
       "trainer.max_time=01:02:03: expected DD:HH:MM:SS, for example 00:04:00:00 for four hours"},
      {"trainer.max_time", "'1:2:3:4:5'",
       "trainer.max_time=1:2:3:4:5: expected DD:HH:MM:SS, for example 00:04:00:00 for four hours"},
      {"trainer.max_time", "'1:-2:3:4'",
       "trainer.max_time=1:-2:3:4: expected DD:HH:MM:SS, for example 00:04:00:00 for four hours"},
      {"trainer.precision", "64",
       "trainer.precision=64: expected 32, 32-true, bf16, bf16-mixed, bf16-true, 16, 16-mixed or fp16"},
      {"trainer", "5", "trainer=5: trainer is a group of keys"},
      {"model.hidden_dropout", "1.0", "model.hidden_dropout=1.0: expected a number from 0 to below 1"},
      {"model.hidden_dropout", ".nan", "model.hidden_dropout=.nan: expected a number from 0 to below 1"},
      {"model.hidden_dropout", "-0.1", "model.hidden_dropout=-0.1: expected a number from 0 to below 1"},
      {"model.rotary_percentage", "1.5", "model.rotary_percentage=1.5: expected a number from 0 to 1"},
      {"model.bias", "2", "model.bias=2: expected true or false"},
      {"model.activation", "relu", "model.activation=relu: expected gelu, fast-swiglu, swiglu or gelu_erf"},
      {"model.optim.betas", "0.9", "model.optim.betas=0.9: expected a list of two numbers such as [0.9, 0.95]"},
      {"model.optim.betas", "[0.9, 1]", "model.optim.betas=[0.9,1]: expected a number from 0 to below 1"},
      {"model.optim.name", "sgd",
       "model.optim.name=sgd: expected adamw, fused_adam, distributed_fused_adam or mcore_distributed_optim"},
      {"model.data.data_prefix", "[[a]]", "model.data.data_prefix=[[a]]: expected a list of text, not of lists or maps"},
      {"model.data.data_impl", "retro", "model.data.data_impl=retro: expected mock, mock_legacy, text, mmap, flat, llmc or sft"},
      {"model.data.data_prefix", "{train: [a], dev: [b]}",
       "model.data.data_prefix={train:[a],dev:[b]}: expected train, validation and test, not dev"},
      {"model.data.seq_length", "1024", "model.data.seq_length=1024: must equal model.encoder_seq_length=2048"},
      {"exp_manager.name", "[a]", "exp_manager.name=[a]: expected text"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(user_error_of([&] { settings_with(c.key, c.value); }), std::string(c.message) + " (r.yaml:1)")
        << c.key << "=" << c.value;
  EXPECT_EQ(user_error_of([] { read_settings(read_yaml("just text", "r.yaml")); }),
            "a recipe must be a map of keys such as trainer: and model: (r.yaml:1)");
}

TEST(SettingsReader, UnknownKeysNameTheNearestOne) {
  EXPECT_EQ(user_error_of([] { settings_with("model.num_layer", "3"); }),
            "model.num_layer: unknown key; did you mean model.num_layers? (r.yaml:1)");
  EXPECT_EQ(user_error_of([] { settings_with("optim.lr", "3"); }),
            "optim.lr: unknown key; did you mean model.optim.lr? (r.yaml:1)");
  EXPECT_EQ(user_error_of([] { settings_with("xyzzy_plugh", "3"); }), "xyzzy_plugh: unknown key (r.yaml:1)");
}

TEST(SettingsReader, UnsupportedRequestsSaySo) {
  struct Case {
    const char *key, *off, *on, *reason;
  };
  const Case cases[] = {
      {"model.num_moe_experts", "null", "8", "mixture of experts is not supported; remove it"},
      {"model.cpu_offloading", "false", "true", "keeping activations or weights in host memory is not supported; use false"},
      {"exp_manager.ema.enable", "false", "true", "averaged weights (EMA) are not supported; use false"},
      {"model.ffn_dropout", "0.0", "0.1", "dropout inside the MLP is not supported; use 0"},
      {"model.window_size", "null", "[4096,0]", "sliding window attention is not supported; remove it"},
      {"model.position_embedding_type", "rope", "alibi", "ALiBi is not supported; use rope"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(read_settings(recipe_with(c.key, c.off)).ignored_keys.empty()) << c.key;
    EXPECT_EQ(user_error_of([&] { settings_with(c.key, c.on); }), fmt::format("{}={}: {} (r.yaml:1)", c.key, c.on, c.reason));
  }
}

TEST(SettingsReader, KnownKeysWithoutEffectAreReportedOnce) {
  const Tree recipe = read_yaml(
      "name: gpt\nrun: {name: a, results_dir: \"???\"}\ntrainer: {logger: false, accelerator: gpu}\n"
      "exp_manager: {ema: {decay: 0.9}}\n"
      "model: {apply_query_key_layer_scaling: true, use_emha: false, moe_z_loss_coeff: 0.1}\n",
      "r.yaml");
  const std::vector<std::string> expected = {"name",
                                             "run",
                                             "trainer.logger",
                                             "trainer.accelerator",
                                             "exp_manager.ema.decay",
                                             "model.apply_query_key_layer_scaling",
                                             "model.use_emha",
                                             "model.moe_z_loss_coeff"};
  EXPECT_EQ(names_of(read_settings(recipe).ignored_keys), expected);
}

// Requests of NeMo recipes that have an equal here, or that change nothing, load.
TEST(SettingsReader, TakesWhatNemoTakes) {
  EXPECT_EQ(settings_with("trainer.precision", "bf16-true").trainer.precision, Precision::bf16);
  EXPECT_EQ(settings_with("exp_manager.checkpoint_callback_params.save_top_k", "-1").exp_manager.checkpoint.save_top_k, -1);
  const Settings fp8 = read_settings(read_yaml("model: {fp8: true, fp8_e4m3: true, fp8_hybrid: true}\n", "r.yaml")).settings;
  EXPECT_TRUE(fp8.model.fp8.e4m3);
  EXPECT_FALSE(fp8.model.fp8.hybrid);
  for (const char* key : {"exp_manager.create_wandb_logger", "exp_manager.create_mlflow_logger", "model.tp_only_amax_red"})
    EXPECT_EQ(names_of(read_settings(recipe_with(key, "true")).ignored_keys), std::vector<std::string>{key});
  EXPECT_TRUE(read_settings(recipe_with("exp_manager.create_wandb_logger", "false")).ignored_keys.empty());
  EXPECT_EQ(names_of(read_settings(recipe_with("model.optim.ddp_bucket_size", "1000")).ignored_keys),
            std::vector<std::string>{"model.optim.ddp_bucket_size"});
}

TEST(SettingsReader, EveryKeyIsListedOnce) {
  std::set<std::string> seen;
  for (const Field& field : settings_fields()) {
    EXPECT_TRUE(seen.insert(field.key).second) << field.key;
    EXPECT_EQ(find_restricted(field.key), nullptr) << field.key;
    EXPECT_FALSE(find_without_effect(field.key)) << field.key;
    EXPECT_FALSE(field.help.empty()) << field.key;
  }
  for (const RestrictedKey& restricted : restricted_keys()) EXPECT_TRUE(seen.insert(restricted.key).second) << restricted.key;
  for (const KeysWithoutEffect& group : keys_without_effect())
    for (const std::string& key : group.keys) EXPECT_TRUE(seen.insert(key).second) << key;
}

TEST(SettingsHelp, HasALineForEverySetting) {
  const std::string help = settings_help();
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(help, '\n')), settings_fields().size());
  EXPECT_NE(help.find("\ntrainer.devices=1  "), std::string::npos);
}

}  // namespace
}  // namespace trireme
