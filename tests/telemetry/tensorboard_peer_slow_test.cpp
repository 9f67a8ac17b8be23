// TensorBoard itself reads a run that was stopped, resumed from an older checkpoint, and finished: every tag at every step has
// the value that the DLLogger file has. Needs a Python with the tensorboard package: the one that TRIREME_PEER_PYTHON names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cli/run_program.h"
#include "fixtures.h"
#include "support/skip.h"

namespace trireme {
namespace {

constexpr const char* kCompare = R"(
import csv, json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run, steps = sys.argv[1], int(sys.argv[2])
events = EventAccumulator(run, size_guidance={"scalars": 0})
events.Reload()
tags = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}

logged, validations = {}, {}
for number, line in enumerate(open(run + "/dllogger/rank-0/dllogger.json")):
    record = json.loads(line[4:])  # as the reference tool reads every line
    assert (record["step"] == "PARAMETER") == (number == 0), line
    if number == 0:
        continue
    assert isinstance(record["step"], int) and "train_step_timing in s" in record["data"], line
    for name, value in record["data"].items():
        logged.setdefault(name, []).append((record["step"], value))

f32 = lambda value: struct.unpack("f", struct.pack("f", value))[0]
for name, points in logged.items():
    expected = [(step, f32(value)) for step, value in points]
    found = tags[name]
    if name == "val_loss":
        assert found == expected and found, (name, found, expected)
    else:
        assert [step for step, _ in found] == list(range(steps)), (name, found)
        assert found == expected, (name, found, expected)

promised = {"train_backward_timing in s", "reduced_train_loss", "lr", "global_step", "consumed_samples", "grad_norm", "train_step_timing in s", "epoch",
            "train_step_timing_raw in s", "global_batch_size", "tokens_per_second", "tflops_per_device", "mfu",
            "memory_allocated", "peak_memory_usage"}
assert promised <= set(logged), promised - set(logged)
only_here = set(tags) - set(logged)
assert only_here == {"validation_step_timing in s", "tflops_per_sec_per_gpu", "TFLOPS_per_GPU", "TFLOPS"}, only_here

rows = list(csv.DictReader(open(run + "/metrics.csv")))
losses = [(int(row["step"]), f32(float(row["reduced_train_loss"]))) for row in rows if row["reduced_train_loss"]]
assert losses == tags["reduced_train_loss"]
train_time = [float(row["time/train"]) for row in rows]
assert train_time == sorted(train_time)
)";

TEST(TensorboardPeer, ReadsAResumedRunAsOneCurveEqualToTheDlloggerFile) {
  const char* python = std::getenv("TRIREME_PEER_PYTHON");
  if (python == nullptr || std::system((std::string(python) + " -c 'import tensorboard' 2>/dev/null").c_str()) != 0)
    SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python that has tensorboard";

  const TemporaryFolder folder;
  const std::string run = (folder / "run").string();
  const std::string recipe =
      folder.write("small.yaml",
                   "trainer: {precision: 32, max_steps: 30, val_check_interval: 10, limit_val_batches: 1}\n"
                   "exp_manager: {checkpoint_callback_params: {every_n_train_steps: 8, keep_last: 9}}\n"
                   "model:\n"
                   "  micro_batch_size: 2\n  global_batch_size: 4\n  encoder_seq_length: 16\n  max_position_embeddings: 16\n"
                   "  num_layers: 1\n  hidden_size: 16\n  ffn_hidden_size: 64\n  num_attention_heads: 2\n  vocab_size: 64\n"
                   "  data: {data_impl: mock_legacy}\n");
  const std::string train = "train " + recipe + " exp_manager.explicit_log_dir=" + run;
  const ProgramResult first = run_program(train + " trainer.max_steps=20");
  ASSERT_EQ(first.status, 0) << first.output;
  // The newest checkpoints are lost, so steps 8 to 19 are made again.
  for (const char* step : {"step-00000016", "step-00000020"}) std::filesystem::remove_all(folder / "run/checkpoints" / step);
  const ProgramResult resumed = run_program(train + " --resume");
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  ASSERT_TRUE(contains(resumed.output, "resumed from step 8"));

  const std::string script = folder.write("compare.py", kCompare);
  EXPECT_EQ(std::system((std::string(python) + " " + script + " " + run + " 30").c_str()), 0);
}

}  // namespace
}  // namespace trireme
