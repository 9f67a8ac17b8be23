// What the logs of a run cost a training step: each sink alone, then all of them as a run has them, writing real files.
//
//   telemetry_bench FOLDER [STEPS]      FOLDER is made, and should be on the disk that runs are written to
//
// One line a measurement: BENCH telemetry sinks=NAME steps=N mean_us=.. median_us=.. p99_us=.. max_us=..
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "telemetry/console.h"
#include "telemetry/csv.h"
#include "telemetry/dllogger.h"
#include "telemetry/mllog.h"
#include "telemetry/summary.h"
#include "telemetry/telemetry.h"
#include "telemetry/tensorboard.h"
#include "telemetry/text_log.h"

namespace trireme {
namespace {

const RateBasis kRates{.flops_per_sample = 1.67e9, .peak = {"a peak", 0.26}};

struct Bench {
  std::filesystem::path folder;
  int64_t steps;
  int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);

  using AddSink = std::function<void(Telemetry&, const std::string& name)>;

  std::string file(const std::string& run, const char* name) const { return (folder / run / name).string(); }

  // Times Telemetry::step with what the trainer does for it, step by step.
  void run(const std::string& name, const AddSink& add) const {
    Telemetry telemetry({.rates = kRates, .planned_steps = steps});
    add(telemetry, name);
    std::mt19937 random(1);
    std::normal_distribution<double> noise(0, 0.01);
    std::vector<double> seconds;
    StepRecord record;
    for (int64_t step = 0; step < steps; ++step) {
      record.step = step;
      record.consumed_samples = 8 * (step + 1);
      record.global_batch_size = 8;
      record.tokens = 2048;
      record.loss = 3 + noise(random);
      record.grad_norm = 1 + noise(random);
      record.learning_rate = 1e-3;
      record.step_seconds = 0.1 + noise(random) / 10;
      const Stopwatch watch;
      const MemoryUse memory = memory_use();
      record.memory_bytes = memory.now;
      record.peak_memory_bytes = memory.peak;
      telemetry.step(record);
      seconds.push_back(watch.seconds());
    }
    print(name, seconds);
  }

  static void print(const std::string& name, std::vector<double> seconds) {
    std::ranges::sort(seconds);
    const auto at = [&](double share) {
      return seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))] * 1e6;
    };
    const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size()) * 1e6;
    fmt::print("BENCH telemetry sinks={} steps={} mean_us={:.1f} median_us={:.1f} p99_us={:.1f} max_us={:.1f}\n", name,
               seconds.size(), mean, at(0.5), at(0.99), at(1));
  }
};

void run_all(const Bench& bench) {
  struct Row {
    const char* name;
    Bench::AddSink add;
  };
  const std::vector<Row> rows = {
      {"none", [](Telemetry&, const std::string&) {}},
      {"console",
       [&](Telemetry& t, const std::string&) {
         t.add<Console>(ConsoleOptions{.total_steps = bench.steps, .descriptor = bench.null_device, .terminal = {}});
       }},
      {"dllogger",
       [&](Telemetry& t, const std::string& run) {
         t.add<DlloggerSink>(bench.file(run, "dllogger.json"), DlloggerOptions{}, LoggedParameters{}, Notify{});
       }},
      {"tensorboard",
       [&](Telemetry& t, const std::string& run) {
         t.add<TensorboardSink>((bench.folder / run).string(), TensorboardOptions{}, Notify{});
       }},
      {"csv", [&](Telemetry& t, const std::string& run) { t.add<CsvSink>(bench.file(run, "metrics.csv"), 0, kRates, Notify{}); }},
      {"text",
       [&](Telemetry& t, const std::string& run) {
         t.add<TextLogSink>(bench.file(run, "log.txt"), bench.file(run, "errors.txt"), bench.steps, Notify{});
       }},
      {"lightning",
       [&](Telemetry& t, const std::string& run) {
         t.add<LightningLogSink>(bench.file(run, "lightning_logs.txt"), bench.steps, Notify{});
       }},
      {"mllog",
       [&](Telemetry& t, const std::string& run) { t.add<MllogSink>(bench.file(run, "mllog.txt"), MllogFacts{}, Notify{}); }},
      {"summary", [&](Telemetry& t, const std::string&) { t.add<SummarySink>(kRates, bench.steps); }},
  };
  for (const Row& row : rows) bench.run(row.name, row.add);
  bench.run("all", [&](Telemetry& telemetry, const std::string& run) {
    for (const Row& row : rows) row.add(telemetry, run);
  });
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw trireme::UserError("usage: telemetry_bench FOLDER [STEPS]");
    if (std::filesystem::exists(argv[1])) throw trireme::UserError("{} is there already; name a folder that is not", argv[1]);
    trireme::run_all({.folder = argv[1], .steps = argc > 2 ? std::max(std::atoll(argv[2]), 1LL) : 20000});
  } catch (const trireme::UserError& error) {
    fmt::print(stderr, "telemetry_bench: {}\n", error.what());
    return 2;
  }
  return 0;
}
