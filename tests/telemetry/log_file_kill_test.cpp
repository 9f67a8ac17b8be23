// A process that does nothing but write logs is killed, again and again. SIGKILL then nearly always comes while something is
// being written, and yet no file has a torn record.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "fixtures.h"
#include "telemetry/csv.h"
#include "telemetry/dllogger.h"
#include "telemetry/mllog.h"
#include "telemetry/telemetry.h"
#include "telemetry/tensorboard.h"
#include "telemetry/text_log.h"

namespace trireme {
namespace {

void write_logs(const TemporaryFolder& folder) {
  Telemetry telemetry({.planned_steps = 1});
  telemetry.add<DlloggerSink>(folder / "dllogger.json", DlloggerOptions{}, LoggedParameters{{"cfg/seed", 1234}}, Notify{});
  telemetry.add<TensorboardSink>(folder.path().string(), TensorboardOptions{}, Notify{});
  telemetry.add<CsvSink>(folder / "metrics.csv", 0, RateBasis{.flops_per_sample = 1e12}, Notify{});
  telemetry.add<TextLogSink>(folder / "text.txt", folder / "errors.txt", 1'000'000, Notify{});
  telemetry.add<LightningLogSink>(folder / "lightning.txt", 1'000'000, Notify{});
  telemetry.add<MllogSink>(folder / "mllog.txt", MllogFacts{}, Notify{});
  std::mt19937 random(7);
  std::normal_distribution<double> noise;
  for (int64_t step = 0;; ++step) {
    StepRecord record = ordinary_record(step);
    record.loss += noise(random);  // numbers of every length
    record.grad_norm += noise(random);
    telemetry.step(record);
  }
}

size_t torn_bytes_of_events(const std::string& bytes) {
  size_t at = 0;
  for (uint64_t length = 0; at + sizeof(length) <= bytes.size(); at += 8 + 4 + length + 4)
    std::memcpy(&length, bytes.data() + at, sizeof(length));
  return at - bytes.size();
}

TEST(KilledWriter, LeavesNoTornRecord) {
  std::mt19937 random(20261115);
  std::uniform_int_distribution<int> microseconds(500, 6000);
  for (int kills = 0; kills < 150; ++kills) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_logs(folder);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string text = contents_of(entry.path().string());
      if (text.empty()) continue;
      const bool events = entry.path().filename().string().starts_with("events.");
      ASSERT_TRUE(events ? torn_bytes_of_events(text) == 0 : text.back() == '\n') << entry.path() << " after kill " << kills;
    }
  }
}

}  // namespace
}  // namespace trireme
