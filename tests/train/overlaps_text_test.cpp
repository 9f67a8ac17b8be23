#include <gtest/gtest.h>

#include "train/run_size.h"

namespace trireme {
namespace {

Settings all_overlaps() {
  Settings settings;
  settings.trainer.devices = 16;
  ModelSettings& model = settings.model;
  model.tensor_model_parallel_size = model.pipeline_model_parallel_size = model.context_parallel_size = 2;
  model.overlap_p2p_comm = model.ub_tp_comm_overlap = true;
  model.optim.name = Optimizer::distributed_fused_adam;
  model.optim.overlap_grad_sync = model.optim.overlap_param_sync = true;
  return settings;
}

TEST(OverlapsText, NamesThoseThatAreOn) {
  EXPECT_EQ(
      overlaps_text(all_overlaps()),
      "gradient sums with backward, weight gathers with forward, pipeline messages with computation, tensor parallel sums with "
      "wgrad, tensor parallel pieces with their GEMMs, keys of other ranks with attention");
}

TEST(OverlapsText, LeavesOutWhatFp8DoesNotDo) {
  Settings settings = all_overlaps();
  settings.model.fp8.enabled = true;
  EXPECT_EQ(overlaps_text(settings).find("tensor parallel pieces"), std::string::npos);
}

TEST(OverlapsText, LeavesOutWhatHasNothingToOverlap) {
  Settings settings = all_overlaps();
  settings.model.optim.name = Optimizer::fused_adam;  // nothing is gathered
  settings.model.tensor_model_parallel_size = settings.model.context_parallel_size = 1;
  EXPECT_EQ(overlaps_text(settings), "gradient sums with backward, pipeline messages with computation");
  settings.model.pipeline_model_parallel_size = 1;
  settings.trainer.devices = 1;
  EXPECT_EQ(overlaps_text(settings), "none");
}

}  // namespace
}  // namespace trireme
