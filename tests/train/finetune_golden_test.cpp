// Twenty steps of fine-tuning from the same weights: losses are those of transformers and of PEFT (finetune/golden.json, by
// finetune_peer.py), which run every example in a row of its own. On other layouts, and after a resume, they are the same.
#include "cli/mpi_run.h"
#include "train/finetune_fixture.h"

namespace trireme {
namespace {

class FinetuneGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    make_evaluated_run(folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string arguments(const std::string& output, const std::string& more = "") {
    return finetune_arguments((*folder_ / "run").string(), (*folder_ / output).string(), more);
  }
  static void expect_golden(const ProgramResult& result, const std::string& output, const char* kind) {
    ASSERT_EQ(result.status, 0) << result.output;
    expect_losses(losses_of(*folder_ / output), read_json(kFinetuneTests / "golden.json")[kind].get<std::vector<double>>());
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(FinetuneGolden, AllWeights) { expect_golden(run_program(arguments("full")), "full", "full"); }

TEST_F(FinetuneGolden, FromAFolderOfTransformers) {
  const std::string exported = (*folder_ / "hf").string();
  ASSERT_EQ(run_program(fmt::format("export {} --to hf --output {}", (*folder_ / "run").string(), exported)).status, 0);
  expect_golden(run_program(finetune_arguments(exported, (*folder_ / "from-hf").string())), "from-hf", "full");
}

TEST_F(FinetuneGolden, Lora) {
  expect_golden(run_program(arguments("lora", lora_arguments())), "lora", "lora");
  // What is evaluated is the merged model.
  const ProgramResult scores = run_program(fmt::format("evaluate {}/lora --data {}/data --tasks piqa --threads 1 --json",
                                                       folder_->path().string(), kEvaluationTests.string()));
  EXPECT_EQ(scores.status, 0) << scores.output;
}

// The adapters of a run, written and read again, are the same adapters.
TEST_F(FinetuneGolden, AdaptersComeBackFromTheirFiles) {
  ASSERT_EQ(run_program(arguments("short", lora_arguments() + " trainer.max_steps=3")).status, 0);
  const std::string written = (*folder_ / "peft").string();
  const ProgramResult exported =
      run_program(fmt::format("export {} --to peft --output {}", (*folder_ / "short").string(), written));
  ASSERT_EQ(exported.status, 0) << exported.output;
  ASSERT_EQ(run_program(
                arguments("again", lora_arguments(written) + " trainer.max_steps=1 model.optim.lr=0 model.optim.sched.min_lr=0"))
                .status,
            0);
  const ProgramResult twice = run_program(fmt::format("export {0}/again --to peft --output {0}/peft2", folder_->path().string()));
  ASSERT_EQ(twice.status, 0) << twice.output;
  EXPECT_EQ(read_file(*folder_ / "peft/adapter_model.safetensors", 1 << 24),
            read_file(*folder_ / "peft2/adapter_model.safetensors", 1 << 24));
}

TEST_F(FinetuneGolden, LoraResumesBitForBit) {
  const std::string more = lora_arguments() + " ++exp_manager.checkpoint_callback_params.every_n_train_steps=8";
  ASSERT_EQ(run_program(arguments("whole", more)).status, 0);
  ASSERT_EQ(run_program(arguments("halves", more + " trainer.max_steps=8")).status, 0);
  const ProgramResult resumed = run_program(arguments("halves", more + " --resume"));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_EQ(losses_of(*folder_ / "halves"), losses_of(*folder_ / "whole"));
}

class FinetuneLayouts : public FinetuneGolden {
 protected:
  void SetUp() override {
    if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  }
};

TEST_F(FinetuneLayouts, AllWeightsOverTensorParallelRanks) {
  expect_golden(run_shell(mpirun(2, arguments("tp2", "model.tensor_model_parallel_size=2"))), "tp2", "full");
}

TEST_F(FinetuneLayouts, LoraOverPipelineAndDataParallelRanks) {
  expect_golden(run_shell(mpirun(4, arguments("pp2dp2", lora_arguments() + " model.pipeline_model_parallel_size=2"))), "pp2dp2",
                "lora");
}

class FinetuneMistakes : public FinetuneGolden {
 protected:
  void refuses(const std::string& more, const std::string& words) {
    const ProgramResult result = run_program(arguments("refused", more));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
  }
  TemporaryFolder own_;
};

TEST_F(FinetuneMistakes, AreOneLine) {
  refuses("'model.data.data_prefix=[/nowhere.jsonl]'", "/nowhere.jsonl is not a file");
  refuses(R"("model.data.prompt_template='{input}'")", "it must end with the response, {output}");
  refuses(R"("model.data.prompt_template='{question} {output}'")",
          "line 1: there is no field question, which model.data.prompt_template names; it has input, output");
  refuses("model.encoder_seq_length=12", "tokens, and model.encoder_seq_length=12");
  refuses("model.data.reset_attention_mask=false", "must not see each other");
  refuses("model.num_layers=3", "model.restore_from_path=");
  for (const auto& [text, words] : {std::pair{"{\"input\": 1, \"output\": \"a\"}\n", "line 1: field input is not a text"},
                                    std::pair{"\n[1]\n", "line 2: not a JSON object"}, std::pair{"", "there are no examples"},
                                    std::pair{"{\"input\": \"a\", \"output\": \"\"}\n", "line 1: the response is empty"}}) {
    const std::string file = own_.write("bad.jsonl", text);
    refuses(fmt::format("'model.data.data_prefix=[{}]'", file), words);
  }
}

TEST_F(FinetuneMistakes, OfLoraAreOneLine) {
  refuses(lora_arguments() + " model.peft.lora_tuning.adapter_dim=8", "its adapters have rank 4 and alpha 12");
  refuses(lora_arguments() + " 'model.peft.lora_tuning.target_modules=[attention]'",
          "target_modules must name what it was made for");
  refuses(lora_arguments() + " 'model.peft.lora_tuning.target_modules=[atention]'", "did you mean attention?");
  refuses(lora_arguments("/nowhere"), "adapter_config.json is not there");
  refuses("model.peft.peft_scheme=lora model.tensor_model_parallel_size=2 trainer.devices=2", "needs whole weights on a rank");
  const ProgramResult plain = run_program(fmt::format("export {0}/run --to peft --output {0}/none", folder_->path().string()));
  EXPECT_EQ(plain.status, 2);
  EXPECT_NE(plain.output.find("has no adapters"), std::string::npos) << plain.output;
}

}  // namespace
}  // namespace trireme
