// Export and import as users meet them: there and back, training goes on, mistakes are answered in one line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "convert/convert_fixture.h"

namespace trireme {
namespace {

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += fmt::format("line {} of a text that nobody wrote\n", i * i);
    text_ = folder_.write("text.txt", text);
    folder_.write("small.yaml",
                  "trainer: {precision: 32, max_steps: 10}\n"
                  "model:\n"
                  "  micro_batch_size: 2\n  global_batch_size: 4\n  encoder_seq_length: 16\n  max_position_embeddings: 16\n"
                  "  num_layers: 2\n  hidden_size: 32\n  ffn_hidden_size: 128\n  num_attention_heads: 4\n"
                  "  hidden_dropout: 0\n  attention_dropout: 0\n  data: {data_impl: text, data_prefix: [" +
                      text_ + "]}\n");
  }

  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult train(const std::string& recipe, const std::string& run, const std::string& more = "") const {
    return run_program(fmt::format("train {} exp_manager.explicit_log_dir={} {}", in(recipe), in(run), more));
  }
  void refused(const std::string& arguments, const std::string& part) const {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, part));
  }

  TemporaryFolder folder_;
  std::string text_;
};

TEST_F(ExportTest, ThereAndBackAndOn) {
  ASSERT_EQ(train("small.yaml", "run").status, 0);
  const auto exported = run_program("export " + in("run") + " --to hf --output " + in("hf") + " --json");
  ASSERT_EQ(exported.status, 0) << exported.output;
  const auto facts = nlohmann::json::parse(exported.output);
  EXPECT_EQ(facts["family"], "gpt2");
  EXPECT_EQ(facts["step"], 10);
  EXPECT_EQ(facts["tokenizer"], "bytes");
  EXPECT_EQ(facts["dtype"], "f32");

  // The tokenizer that was exported is read like any other.
  const std::string greedy = "generate " + in("run") + " --prompt 'l\u00efne ' --tokens 8 --temperature 0";
  const auto with_exported = run_program(greedy + " --tokenizer " + in("hf"));
  EXPECT_EQ(with_exported.status, 0) << with_exported.output;
  EXPECT_EQ(with_exported.output, run_program(greedy).output);
  const auto encoded = [&](const std::string& tokenizer) {
    return run_shell(fmt::format("echo 'a b' | {} data encode --tokenizer {}", TRIREME_BINARY, tokenizer)).output;
  };
  EXPECT_EQ(encoded(in("hf/tokenizer.json")), encoded("bytes"));

  const auto imported = run_program("import " + in("hf") + " --output " + in("imported/"));
  ASSERT_EQ(imported.status, 0) << imported.output;
  const std::string generate = " --prompt 'line ' --tokens 10 --temperature 0";
  EXPECT_EQ(run_program("generate " + in("imported") + generate).output, run_program("generate " + in("run") + generate).output);

  // Training starts from the imported weights: with a learning rate of 0 they stay what they were.
  const auto still =
      train("imported/recipe.yaml", "still",
            "trainer.max_steps=1 model.optim.lr=0 model.optim.sched.min_lr=0 model.data.data_prefix=[" + text_ + "]");
  ASSERT_EQ(still.status, 0) << still.output;
  EXPECT_TRUE(contains(still.output, "weights " + in("imported")));
  ASSERT_EQ(run_program("export " + in("still") + " --output " + in("still-hf")).status, 0);
  EXPECT_EQ(tensors_in(folder_ / "still-hf"), tensors_in(folder_ / "hf"));
  // A resumed run goes on from its own checkpoint, not from the imported weights.
  const auto resumed =
      train("imported/recipe.yaml", "still", "trainer.max_steps=2 --resume --changed model.data.data_prefix=[" + text_ + "]");
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 1"));
}

TEST_F(ExportTest, ModelsWithoutATokenizerGenerateNumbers) {
  ASSERT_EQ(run_program(fmt::format("import {}/tests/convert/golden/llama --output {}", TRIREME_SOURCE_DIR, in("llama"))).status,
            0);
  refused("generate " + in("llama"), "--prompt-tokens");
  refused("generate " + in("llama") + " --prompt-tokens 3,61", "0 to 60");
  const auto numbers = run_program("generate " + in("llama") + " --prompt-tokens 3,41,0 --tokens 4 --temperature 0");
  EXPECT_EQ(numbers.status, 0);
  EXPECT_TRUE(numbers.output.starts_with("3 41 0 ")) << numbers.output;
  EXPECT_EQ(std::count(numbers.output.begin(), numbers.output.end(), ' '), 6) << numbers.output;
}

TEST_F(ExportTest, MistakesAreAnsweredInOneLine) {
  refused("export " + in("nowhere") + " --output " + in("hf"), "nowhere is not the folder of a run");
  refused("export " + in("step-00000007") + " --output " + in("hf"), "there is no checkpoint");
  refused("import " + in("nowhere") + " --output " + in("run"), "nowhere is not there");
  const std::string golden = std::string(TRIREME_SOURCE_DIR) + "/tests/convert/golden/";
  ASSERT_EQ(run_program("import " + golden + "gpt2 --output " + in("gpt2")).status, 0);
  refused("import " + golden + "gpt2 --output " + in("gpt2"), "there already");
  refused("export " + in("gpt2") + " --output " + in("gpt2"), "there already");
  refused("export " + in("gpt2") + " --to onnx --output " + in("hf"), "--to");
  refused("export " + in("gpt2") + " --dtype fp8 --output " + in("hf"), "--dtype");
  for (const char* size : {"0", "99999999999999999999", "16EB"}) {
    const auto result = run_program("export " + in("gpt2") + " --output " + in("hf") + " --dry-run --max-shard-size " + size);
    EXPECT_FALSE(result.output.find("check failed") < result.output.size()) << result.output;
  }
  EXPECT_EQ(run_program("export " + in("gpt2") + " --output " + in("hf") + " --dry-run").status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "hf"));

  // Weights of another model, and weights where a whole checkpoint is needed.
  refused(fmt::format("train {} model.restore_from_path={}", in("small.yaml"), in("gpt2")), "model.restore_from_path=");
  refused(fmt::format("train {} model.restore_from_path={}", in("small.yaml"), in("nowhere")), "nowhere");
  const auto resumed = run_program(fmt::format("train {0}/recipe.yaml exp_manager.explicit_log_dir={0} --resume", in("gpt2")));
  EXPECT_EQ(resumed.status, 2);
  EXPECT_TRUE(contains(resumed.output, "start a run with model.restore_from_path="));
}

TEST_F(ExportTest, CheckpointsOfMegatronComeInAndGoOut) {
  const std::string golden = std::string(TRIREME_SOURCE_DIR) + "/tests/convert/golden/megatron/";
  const auto imported = run_program("import " + golden + "gpt3-optimizer --output " + in("run"));
  ASSERT_EQ(imported.status, 0) << imported.output;
  EXPECT_TRUE(contains(imported.output, "torch_dist of iteration 7"));
  EXPECT_TRUE(contains(imported.output, "exp_manager.explicit_log_dir=" + in("run") + " --resume"));
  // The run goes on with Megatron's moments, and from its iteration.
  std::filesystem::copy(folder_ / "run", folder_ / "on", std::filesystem::copy_options::recursive);
  const auto resumed = train("run/recipe.yaml", "on", "trainer.max_steps=8 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 7"));

  const auto exported =
      run_program("export " + in("run") + " --to megatron --tensor-parallel 2 --output " + in("out") + " --json");
  ASSERT_EQ(exported.status, 0) << exported.output;
  const auto facts = nlohmann::json::parse(exported.output);
  EXPECT_EQ(facts["files"], 2);
  EXPECT_TRUE(contains(facts["arguments"].get<std::string>(), "--num-layers 2 --hidden-size 16"));
  EXPECT_EQ(read_file(folder_ / "out/latest_checkpointed_iteration.txt", 100), "release");
  const auto again = run_program("import " + in("out") + " --output " + in("again") + " --json");
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(nlohmann::json::parse(again.output)["tensor_parallel"], 2);
  EXPECT_EQ(parameters_in(*open_named_checkpoint(folder_ / "again").checkpoint),
            parameters_in(*open_named_checkpoint(folder_ / "run").checkpoint));
  refused("export " + in("run") + " --to megatron --tensor-parallel 3 --output " + in("other"), "--tensor-parallel 3");
}

TEST_F(ExportTest, CheckpointsOfOthersAreNamed) {
  folder_.write("deepspeed/global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "x");
  folder_.write("fsdp/.metadata", "x");
  folder_.write("litgpt/lit_model.pth", "x");
  folder_.write("gguf/model.gguf", "x");
  folder_.write("zarr/weight/.zarray", "x");
  const auto line = [&](const std::string& name, const char* part) {
    refused("import " + in(name) + " --output " + in("run"), part);
  };
  line("deepspeed", "a checkpoint of DeepSpeed, which is not read here; convert it with zero_to_fp32.py");
  line("fsdp", "PyTorch FSDP");
  line("litgpt", "a checkpoint of LitGPT");
  line("gguf/model.gguf", "a model of llama.cpp");
  line("zarr", "torch_dist");
  folder_.write("bad.nemo", "not an archive at all");
  const auto bad = run_program("import " + in("bad.nemo") + " --output " + in("run"));
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(lines_of(bad.output), 1) << bad.output;
}

}  // namespace
}  // namespace trireme
