// model.validation_tasks: a run scores itself on evaluation tasks. The scores are those of `trireme evaluate` on the checkpoint
// of that step, and training is what it is without them.
#include "cli/mpi_run.h"
#include "train/finetune_fixture.h"

namespace trireme {
namespace {

class ValidationTasksSlow : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<TemporaryFolder>();
    make_evaluated_run(shared_->path());
  }
  static void TearDownTestSuite() { shared_.reset(); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string arguments(const std::string& output, const std::string& more) const {
    return finetune_arguments((*shared_ / "run").string(), path(output),
                              "trainer.max_steps=4 exp_manager.checkpoint_callback_params.every_n_train_steps=2 " + more);
  }
  static std::string tasks(const std::string& more = "") {
    return fmt::format(
        "'model.validation_tasks.tasks=[lambada,piqa]' model.validation_tasks.data_dir={}/data "
        "model.validation_tasks.every_n_steps=2 {}",
        kEvaluationTests.string(), more);
  }

  // The lines of a run's task_scores.jsonl.
  std::vector<nlohmann::json> scores_of(const std::string& run) const {
    std::istringstream lines(read_file(folder_ / run / "task_scores.jsonl", 1 << 20));
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }

  void expect_scores_of_checkpoints(const std::string& run, const std::string& options = "") const {
    const std::vector<nlohmann::json> found = scores_of(run);
    ASSERT_EQ(found.size(), 2u);
    for (int i = 0; i < 2; ++i) {
      const int step = 2 * (i + 1);
      EXPECT_EQ(found[static_cast<size_t>(i)]["steps_done"], step);
      const ProgramResult evaluated =
          run_program(fmt::format("evaluate {}/checkpoints/step-{:08} --tasks lambada,piqa --data {}/data --threads 1 --json {}",
                                  path(run), step, kEvaluationTests.string(), options));
      ASSERT_EQ(evaluated.status, 0) << evaluated.output;
      const nlohmann::json expected = nlohmann::json::parse(evaluated.output)["results"];
      int compared = 0;
      for (const auto& [name, value] : found[static_cast<size_t>(i)]["scores"].items()) {
        const size_t slash = name.find('/');
        const double other = expected[name.substr(0, slash)][name.substr(slash + 1) + ",none"].get<double>();
        // Products in the same order but for batches of another length, in f32.
        EXPECT_NEAR(value.get<double>(), other, 1e-5 * other) << name;
        ++compared;
      }
      EXPECT_EQ(compared, 4);
    }
  }

  static inline std::unique_ptr<TemporaryFolder> shared_;
  TemporaryFolder folder_;
};

TEST_F(ValidationTasksSlow, AreScoredAsEvaluateScoresCheckpoints) {
  const ProgramResult run = run_program(arguments("scored", tasks()));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("tasks 2/4  lambada perplexity "), std::string::npos) << run.output;
  expect_scores_of_checkpoints("scored");
  const nlohmann::json last = scores_of("scored")[1];
  EXPECT_EQ(read_json(folder_ / "scored/summary.json")["task_scores"], last);
  EXPECT_NE(read_file(only_file(folder_ / "scored", "events.out"), 1 << 24).find("lambada/perplexity"), std::string::npos);
  EXPECT_NE(read_file(only_file(folder_ / "scored", "nemo_log"), 1 << 24).find("tasks 4/4"), std::string::npos);

  ASSERT_EQ(run_program(arguments("plain", "")).status, 0);
  EXPECT_EQ(losses_of(folder_ / "scored"), losses_of(folder_ / "plain"));
}

// A resumed run makes the scores after its checkpoint again, and once.
TEST_F(ValidationTasksSlow, AreThereOnceAfterAResume) {
  ASSERT_EQ(run_program(arguments("resumed", tasks())).status, 0);
  const std::vector<nlohmann::json> before = scores_of("resumed");
  std::filesystem::remove_all(folder_ / "resumed/checkpoints/step-00000004");
  const ProgramResult again = run_program(arguments("resumed", tasks("--resume")));
  ASSERT_EQ(again.status, 0) << again.output;
  const std::vector<nlohmann::json> after = scores_of("resumed");
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[1]["scores"], before[1]["scores"]);
}

TEST_F(ValidationTasksSlow, FollowAValidationUnlessTheyHaveStepsOfTheirOwn) {
  const ProgramResult run =
      run_program(arguments("validated", tasks("model.validation_tasks.every_n_steps=0 trainer.val_check_interval=3 "
                                               "model.data.splits_string=\"'1,1,0'\" trainer.limit_val_batches=1")));
  ASSERT_EQ(run.status, 0) << run.output;
  const std::vector<nlohmann::json> found = scores_of("validated");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["steps_done"], 3);
}

TEST_F(ValidationTasksSlow, AreScoredByAllRanks) {
  if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  for (const auto& [name, layout] :
       {std::pair{"tp2pp2",
                  "model.tensor_model_parallel_size=2 model.sequence_parallel=true "
                  "model.pipeline_model_parallel_size=2"},
        {"dp2pp2", "model.pipeline_model_parallel_size=2 model.optim.name=distributed_fused_adam"}}) {
    const ProgramResult run = run_shell(mpirun(4, arguments(name, tasks(layout))));
    ASSERT_EQ(run.status, 0) << run.output;
    expect_scores_of_checkpoints(name);
  }
}

TEST_F(ValidationTasksSlow, MistakesAreOneLine) {
  const auto refuses = [&](const std::string& more, const std::string& words) {
    const ProgramResult result = run_program(arguments("refused", more));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
  };
  refuses("'model.validation_tasks.tasks=[piqua]'", "task piqua is not known; did you mean piqa?");
  refuses("'model.validation_tasks.tasks=[piqa]'", "evaluation-data is not a folder that can be read");
  refuses(tasks("model.validation_tasks.num_fewshot=9"), "few-shot: task lambada draws 9 examples at once");
}

}  // namespace
}  // namespace trireme
