// Several ranks on one GPU, staged through the host: the losses of one rank on it. Runs where a GPU is.
#include <gtest/gtest.h>

#include "support/gpu.h"
#include "support/skip.h"
#include "support/staged_layouts.h"

namespace trireme {
namespace {

constexpr int kSteps = 5;

std::vector<Layout> layouts() {
  std::vector<Layout> layouts = staged_layouts(Precision::f32);
  for (const Layout& layout : staged_layouts(Precision::bf16)) layouts.push_back(layout);
  ModelSettings fp8 = small_gpt3();
  fp8.fp8.enabled = fp8.sequence_parallel = true;
  fp8.encoder_seq_length = fp8.max_position_embeddings = 32;  // multiples of 16 rows on two ranks
  layouts.push_back(layout_of("gpt3_sp2_pp2_fp8", fp8, {.tp = 2, .pp = 2}, Precision::bf16));
  fp8.sequence_parallel = false;
  fp8.optim.name = Optimizer::distributed_fused_adam;
  layouts.push_back(layout_of("gpt3_cp2_dp2_fp8", fp8, {.cp = 2, .dp = 2}, Precision::bf16));
  fp8.fsdp = true, fp8.num_layers = 4;
  layouts.push_back(layout_of("gpt3_dp2_fsdp_fp8", fp8, {.dp = 2}, Precision::bf16));
  for (Layout& layout : layouts) {
    layout.name += layout.precision == Precision::bf16 ? "_bf16" : "_f32";
    layout.model.attention_dropout = 0;  // cuDNN's, which is drawn by the place in its tensor: another one in every layout
  }
  return layouts;
}

class CudaLayouts : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Staged, CudaLayouts, testing::ValuesIn(layouts()), [](const auto& test) { return test.param.name; });

// In f32 the products of a slice are made by other kernels than those of the whole, so sums of the same terms come in another
// order: some 1e-7 of a loss, which five steps multiply; 2e-5 is far below what a lost or doubled gradient does. In bf16 the
// parts of a row-parallel product are each rounded to 2^-9 before they are summed, and on the GPU products are rounded elsewhere
// too where a GELU follows: 5e-3. In FP8 parts of a weight have scales of their own, and each rounds to 2^-4: 1e-2.
TEST_P(CudaLayouts, MatchOneRank) {
  SKIP_WITHOUT_GPU();
  const bool fp8 = GetParam().model.fp8.enabled;
  if (fp8 && !make_cuda_backend()->has_fp8()) SKIP_FOR(gpu) << "this GPU has no FP8";
  for (const char* name : {"TRIREME_CACHE", "XDG_CACHE_HOME", "HOME"}) unsetenv(name);  // one process, four writers of plans
  const Layout& layout = GetParam();
  const auto on_the_gpu = [](int) { return make_cuda_backend(); };
  const RankRun one = train_staged(on_one_rank(layout), kSteps, on_the_gpu)[0];
  const std::vector<RankRun> runs = train_staged(layout, kSteps, on_the_gpu);
  const double tolerance = fp8 ? 1e-2 : layout.precision == Precision::f32 ? 2e-5 : 5e-3;
  double loss = 0, norm = 0;
  for (const RankRun& run : runs) {
    EXPECT_NEAR(run.evaluated, one.evaluated, tolerance * one.evaluated);
    for (size_t step = 0; step < kSteps; ++step) {
      loss = std::max(loss, std::abs(run.results[step].loss / one.results[step].loss - 1));
      norm = std::max(norm, std::abs(run.results[step].grad_norm / one.results[step].grad_norm - 1));
      EXPECT_EQ(run.results[step].loss, runs[0].results[step].loss) << "all ranks say the same";
    }
    expect_as_planned(run);
  }
  std::printf("losses within %.1e, gradient norms within %.1e\n", loss, norm);
  EXPECT_LT(loss, tolerance);
  EXPECT_LT(norm, 10 * tolerance);
}

}  // namespace
}  // namespace trireme
