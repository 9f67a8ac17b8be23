// trireme train on several ranks that share one GPU, each a process of its own. Runs where a GPU is.
#include "cli/mpi_run.h"
#include "support/gpu.h"

namespace trireme {
namespace {

class CudaParallel : public MpiRun {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }
  std::string on_gpu(const std::string& run, const std::string& more) const {
    return train(run, "trainer.backend=cuda model.attention_dropout=0 " + more);
  }
};

constexpr const char* kTp2Pp2 = "model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2";

// f32 sums in another order, by kernels that are chosen by shape; forty steps of Adam carry the difference of the first ones on.
TEST_F(CudaParallel, HasTheLossesOfOneRank) {
  const auto alone = run_program(on_gpu("one", ""));
  ASSERT_EQ(alone.status, 0) << alone.output;
  const auto result = run_shell(processes_that_meet(4, on_gpu("many", kTp2Pp2)));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "comm    4 ranks share a GPU")) << result.output;
  const auto expected = logged("one", "reduced_train_loss"), losses = logged("many", "reduced_train_loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 2e-3 * expected[i]) << "step " << i;
}

// Saved by four ranks, gone on with by one.
TEST_F(CudaParallel, ResumesOnOneRank) {
  const auto saved = run_shell(processes_that_meet(4, on_gpu("run", std::string(kTp2Pp2) + " trainer.max_steps=10")));
  ASSERT_EQ(saved.status, 0) << saved.output;
  const auto resumed = run_program(on_gpu("run", "trainer.max_steps=12 --resume"));
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 10, 40 samples consumed")) << resumed.output;
}

TEST_F(CudaParallel, ADeadRankIsNamed) {
  start(processes_that_meet(4, on_gpu("run", std::string(kTp2Pp2) + " trainer.max_steps=100000")));
  ASSERT_TRUE(wait_for_text(" tok/s")) << output();
  ASSERT_EQ(processes().size(), 4u) << output();
  kill(processes()[1], SIGKILL);
  EXPECT_EQ(finish(), 1);
  EXPECT_TRUE(contains(output(), fmt::format("process {}) died in step", processes()[1]))) << output();
}

}  // namespace
}  // namespace trireme
