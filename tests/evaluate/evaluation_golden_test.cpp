// trireme evaluate on the small files of tests/evaluate/data: log-likelihoods, accuracies and perplexities are those that lm-eval
// found for the same weights (golden.json and golden-fewshot.json, by lm_eval_peer.py), whatever the backend, the batches and the
// ranks.
#include "cli/mpi_run.h"
#include "evaluate/evaluation_fixture.h"

namespace trireme {
namespace {

class EvaluationGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    make_evaluated_run(folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string arguments(const std::string& output, const std::string& options, const std::string& tasks = kAllTasks) {
    return fmt::format("evaluate {} --data {}/data --tasks {} --output {} --threads 1 {}", (*folder_ / "run").string(),
                       kEvaluationTests.string(), tasks, (*folder_ / output).string(), options);
  }

  static void expect_golden(const ProgramResult& result, const std::string& output, const char* golden = "golden.json") {
    ASSERT_EQ(result.status, 0) << result.output;
    expect_scores(*folder_ / output, read_json(kEvaluationTests / golden));
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(EvaluationGolden, OnTheCpu) {
  const ProgramResult result = run_program(arguments("cpu", ""));
  expect_golden(result, "cpu");
  EXPECT_NE(result.output.find("hellaswag      acc_norm"), std::string::npos) << result.output;
}

TEST_F(EvaluationGolden, AfterTwoExamples) {
  expect_golden(run_program(arguments("shots", "--num-fewshot 2")), "shots", "golden-fewshot.json");
}

TEST_F(EvaluationGolden, OnTheReferenceBackend) {
  expect_golden(run_program(arguments("reference", "--backend reference")), "reference");
}

TEST_F(EvaluationGolden, OneSequenceAtATime) { expect_golden(run_program(arguments("single", "--batch-tokens 1")), "single"); }

TEST_F(EvaluationGolden, CopiesOnSeveralRanks) {
  expect_golden(run_shell(processes_that_meet(2, arguments("copies", "--batch-tokens 200"))), "copies");
}

class EvaluationLayouts : public EvaluationGolden {
 protected:
  void SetUp() override {
    if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  }
};

TEST_F(EvaluationLayouts, TensorAndPipelineParallel) {
  expect_golden(run_shell(mpirun(4, arguments("tp2pp2", "--batch-tokens 200 --tensor-parallel 2 --pipeline-parallel 2"))),
                "tp2pp2");
}

TEST_F(EvaluationLayouts, CopiesOfAPipeline) {
  expect_golden(run_shell(mpirun(4, arguments("pp2", "--batch-tokens 200 --pipeline-parallel 2"))), "pp2");
}

}  // namespace
}  // namespace trireme
