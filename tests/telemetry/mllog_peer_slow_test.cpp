// MLPerf's own parser reads our lines. Needs a Python with the mlperf-logging package: the one that TRIREME_PEER_PYTHON names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fixtures.h"
#include "support/skip.h"
#include "telemetry/mllog.h"

namespace trireme {
namespace {

constexpr const char* kRead = R"(
import sys
from mlperf_logging.compliance_checker import mlp_parser
for ruleset in ("3.1.0", "4.1.0", "5.0.0"):
    lines, errors = mlp_parser.parse_file(sys.argv[1], ruleset=ruleset)
    assert not errors, errors
    keys = [line.key for line in lines]
    assert keys[-1] == "run_stop" and keys.count("tracked_stats") == 100 and "eval_accuracy" in keys, keys
    assert [line.value["value"] for line in lines if line.key == "seed"] == [1234]
)";

TEST(MllogPeer, MlperfsParserReadsEveryLine) {
  const char* python = std::getenv("TRIREME_PEER_PYTHON");
  if (python == nullptr || std::system((std::string(python) + " -c 'import mlperf_logging' 2>/dev/null").c_str()) != 0)
    SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python that has mlperf-logging";
  const TemporaryFolder folder;
  const std::string path = folder / "mllog.txt";
  MllogSink sink(path, {.global_batch_size = 8, .sequence_length = 256, .steps = 100, .learning_rate = 1e-3, .seed = 1234}, {});
  for (int64_t step = 0; step < 100; ++step) {
    StepRecord record = ordinary_record(step);
    if (step == 50) record.loss = std::numeric_limits<double>::quiet_NaN();
    sink.step(record);
  }
  sink.validation({.steps_done = 100, .loss = 2.69, .batches = 1, .seconds = 1});
  sink.finish({.outcome = RunOutcome::finished, .steps_done = 100});
  EXPECT_EQ(std::system((std::string(python) + " " + folder.write("read.py", kRead) + " " + path).c_str()), 0);
}

}  // namespace
}  // namespace trireme
