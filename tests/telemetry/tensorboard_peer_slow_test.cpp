// TensorBoard itself reads a run that was killed, resumed from a checkpoint, and finished. Needs a Python with the tensorboard
// package: the one that TRIREME_PEER_PYTHON names, or python3.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fixtures.h"
#include "telemetry/tensorboard.h"

namespace trireme {
namespace {

TEST(TensorboardPeer, ReadsAResumedRunAsOneCurve) {
  const char* named = std::getenv("TRIREME_PEER_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  if (std::system((python + " -c 'import tensorboard' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no tensorboard; set TRIREME_PEER_PYTHON to one that has";
  }

  const TemporaryFolder folder;
  const auto run = [&](int64_t begin, int64_t end, double loss) {
    TensorboardSink sink(folder.path(), begin, {});
    for (int64_t step = begin; step < end; ++step) {
      StepRecord record = ordinary_record(step);
      record.loss = loss;
      sink.step(record);
      if (step == 5) sink.validation({.steps_done = 6, .loss = 2.5, .batches = 1, .seconds = 1});
    }
  };
  run(0, 10, 3);
  run(6, 12, 1);  // the checkpoint was made after 6 steps

  const std::string script = folder / "read.py";
  std::ofstream(script) << R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
losses = [(e.step, e.value) for e in events.Scalars("reduced_train_loss")]
assert losses == [(step, 3.0 if step < 6 else 1.0) for step in range(12)], losses
assert [(e.step, e.value) for e in events.Scalars("val_loss")] == [(5, 2.5)]
assert {"lr", "global_step", "consumed_samples", "grad_norm", "train_step_timing in s", "epoch"} <= set(events.Tags()["scalars"])
)";
  EXPECT_EQ(std::system((python + " " + script + " " + folder.path().string()).c_str()), 0);
}

}  // namespace
}  // namespace trireme
