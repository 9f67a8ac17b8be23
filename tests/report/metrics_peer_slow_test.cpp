// Peers in Python: event files written by the tensorboard package, and the rules of the training-metrics tool of gpu-recipes.
// Needs a Python with tensorboard and numpy: the one that TRIREME_PEER_PYTHON names.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/run_program.h"
#include "report/read_run.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class MetricsPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("TRIREME_PEER_PYTHON");
    if (named == nullptr) SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python with tensorboard";
    python_ = named;
  }

  // What the script prints.
  std::string run_python(const std::string& script, const std::string& arguments) const {
    const std::string path = folder_.write("script.py", script), output = folder_ / "output";
    EXPECT_EQ(std::system((python_ + " " + path + " " + arguments + " > " + output).c_str()), 0);
    std::ifstream file(output);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
  std::string python_;
};

TEST_F(MetricsPeerTest, ReadsEventFilesOfTensorboard) {
  // Scalars as tensors, as tensorboard and TensorFlow 2 write them, and as simple values, as PyTorch does; both forms of tensor.
  run_python(R"(
import sys
import numpy
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto
writer = EventFileWriter(sys.argv[1])
for step in range(5):
    content = TensorProto(dtype=2, tensor_content=numpy.float64(step / 7).tobytes())
    writer.add_event(Event(wall_time=1.5, step=step, summary=Summary(value=[
        Summary.Value(tag="simple", simple_value=step / 4),
        Summary.Value(tag="float", tensor=make_tensor_proto(numpy.float32(step / 8))),
        Summary.Value(tag="double", tensor=make_tensor_proto(numpy.float64(step / 3))),
        Summary.Value(tag="int", tensor=make_tensor_proto(numpy.int32(-step))),
        Summary.Value(tag="long", tensor=make_tensor_proto(numpy.int64(step << 40))),
        Summary.Value(tag="content", tensor=content),
        Summary.Value(tag="text", tensor=make_tensor_proto("words"))])))
writer.close()
)",
             (folder_ / "run").string());
  const RunLog log = read_run((folder_ / "run").string());
  EXPECT_TRUE(log.notes.empty());
  EXPECT_EQ(log.series.size(), 6u);  // and no text
  const auto expect = [&](const char* tag, auto value_at) {
    const Series* const series = log.find(tag);
    ASSERT_NE(series, nullptr) << tag;
    ASSERT_EQ(series->points.size(), 5u) << tag;
    for (const Point& point : series->points) EXPECT_EQ(point.value, value_at(static_cast<double>(point.step))) << tag;
  };
  expect("simple", [](double step) { return step / 4; });
  expect("float", [](double step) { return step / 8; });
  expect("double", [](double step) { return step / 3; });
  expect("int", [](double step) { return -step; });
  expect("long", [](double step) { return step * 0x1p40; });
  expect("content", [](double step) { return step / 7; });
}

TEST_F(MetricsPeerTest, ALogOfOursByTheRulesOfTheReferenceTool) {
  const std::string run = folder_ / "run";
  const auto train = run_program(
      "train demo trainer.max_steps=35 trainer.val_check_interval=10 trainer.limit_val_batches=1 model.num_layers=1 "
      "model.hidden_size=32 model.micro_batch_size=1 model.global_batch_size=2 model.encoder_seq_length=16 "
      "exp_manager.explicit_log_dir=" +
      run);
  ASSERT_EQ(train.status, 0) << train.output;
  const std::string log = run + "/dllogger/rank-0/dllogger.json";
  const std::string expected = run_python(R"(
import json, sys
times = []
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line[4:])
    if record["step"] != "PARAMETER" and 10 <= record["step"] <= 30:
        times.append(record["data"]["train_step_timing in s"])
mean = sum(times) / len(times)
tflops = 2.2e15 * 64 / mean / 8 / 1e12
print(f"Average step time: {mean:.8f}\nTFLOPS/Accelerator: {tflops:.8f}\nMFU: {tflops / 2250:.8f}")
)",
                                          log);
  const auto ours = run_program("metrics --file " + log +
                                " --batch_size 64 --num_accelerators 8 --model_type gpt3-175b --accelerator_type b200");
  EXPECT_EQ(ours.output, expected);
}

}  // namespace
}  // namespace trireme
