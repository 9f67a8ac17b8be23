// Folders as the reference systems and we leave them.
#include "report/read_run.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "logs.h"
#include "report/run_facts.h"
#include "support/temporary_folder.h"
#include "telemetry/fixtures.h"
#include "telemetry/tensorboard.h"

namespace trireme {
namespace {

void write_events(const std::filesystem::path& folder, int64_t steps) {
  TensorboardSink sink(folder.string(), {0}, {});
  for (int64_t step = 0; step < steps; ++step) sink.step(ordinary_record(step));
}

TEST(ReadRun, NemoLauncherTree) {
  const TemporaryFolder top;
  const std::string run = "gpt3_126m/";
  top.write(run + "gpt3_126m_hydra.yaml", "trainer: {num_nodes: 4, devices: 8}\nmodel: {global_batch_size: 256}\n");
  top.write(run + "results/hparams.yaml", "cfg:\n  global_batch_size: 256\n  optim: {lr: 0.0006}\n  precision: bf16-mixed\n");
  top.write(run + "results/nemo_log_globalrank-0_localrank-0.txt", "");
  top.write(run + "results/nemo_log_globalrank-31_localrank-7.txt", "");
  top.write(run + "results/run_0/metrics.csv", "step,loss\n1,1\n");  // of an earlier start
  write_events(top / (run + "results"), 5);

  const RunLog log = read_run((top / run).string());
  EXPECT_EQ(log.name, "gpt3_126m");
  EXPECT_EQ(log.find("reduced_train_loss")->points.size(), 5u);
  EXPECT_EQ(log.find("loss"), nullptr);
  EXPECT_EQ(*log.parameter("model.optim.lr"), 0.0006);
  EXPECT_EQ(log.ranks_seen, 32);
  const RunFacts facts = facts_of(log, {});
  EXPECT_EQ(facts.accelerators, 32);
  EXPECT_EQ(facts.accelerators_from, "the run's settings");
  EXPECT_EQ(facts.batch, 256);
  EXPECT_EQ(facts.trained_in, TrainedIn::bf16);

  // Named by its results folder, what lies above is not looked at; the text logs still tell the number of ranks.
  const RunFacts inner = facts_of(read_run((top / run / "results").string()), {});
  EXPECT_EQ(inner.accelerators, 32);
  EXPECT_EQ(inner.accelerators_from, "the number of its text logs");
}

TEST(ReadRun, LitgptVersionsAndTheirSettings) {
  const TemporaryFolder top;
  top.write("out/hyperparameters.yaml", "devices: 8\nnum_nodes: 2\ntrain: {global_batch_size: 125, max_seq_length: 2048}\n");
  top.write("out/version_9/metrics.csv", "step,train_loss\n1,9\n");
  top.write("out/version_10/metrics.csv", "step,train_loss\n1,10\n");
  top.write("out/version_10/hparams.yaml", "{}\n");
  const RunLog log = read_run((top / "out").string());
  EXPECT_EQ(log.find("train_loss")->points[0].value, 10);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_TRUE(contains(log.notes[0], "holds 2 runs"));
  const RunFacts facts = facts_of(log, {});
  EXPECT_EQ(facts.batch, 125);
  EXPECT_EQ(facts.sequence_length, 2048);
  EXPECT_EQ(facts.accelerators, 16);
}

TEST(ReadRun, OneKindOfLogCompletesAnother) {
  const TemporaryFolder top;
  top.write("run/dllogger/rank-0/dllogger.json", nemo_log(3));
  top.write("run/dllogger/rank-1/dllogger.json", "");
  top.write("run/summary.json", "{\"devices\": 2, \"peak_tflops_per_device\": 3.5, \"peak_name\": \"measured\"}");
  top.write("run/metrics.csv", "step,peak_memory_usage\n0,1000\n");
  write_events(top / "run", 3);
  const RunLog log = read_run((top / "run").string());
  EXPECT_EQ(log.find("reduced_train_loss")->points[0].value, 10);  // of the first log
  EXPECT_NE(log.find("tokens_per_second"), nullptr);               // of the event file
  EXPECT_NE(log.find("peak_memory_usage"), nullptr);
  EXPECT_EQ(facts_of(log, {}).accelerators, 2);
  EXPECT_EQ(facts_of(log, {}).peak->tflops, 3.5);
}

TEST(ReadRun, ADamagedLogIsANoteWhileAnotherCanBeRead) {
  const TemporaryFolder top;
  top.write("run/dllogger.json", nemo_log(3));
  top.write("run/metrics.csv", "nothing");
  top.write("run/hparams.yaml", "a: [1");
  top.write("run/summary.json", "{torn");
  const RunLog log = read_run((top / "run").string());
  EXPECT_EQ(log.notes.size(), 2u);
  EXPECT_TRUE(log.summary.is_null());
  std::filesystem::remove(top / "run/dllogger.json");
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_run((top / "run").string()); }), "metrics.csv has no header"));
}

TEST(ReadRun, FilesAreKnownByTheirContent) {
  const TemporaryFolder top;
  EXPECT_EQ(read_run(top.write("saved.txt", nemo_log(2))).find("reduced_train_loss")->points.size(), 2u);
  write_events(top / "events", 2);
  const auto event_file = std::filesystem::directory_iterator(top / "events")->path();
  std::filesystem::copy_file(event_file, top / "renamed.bin");
  EXPECT_EQ(read_run((top / "renamed.bin").string()).find("reduced_train_loss")->points.size(), 2u);
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_run(top.write("notes.txt", "hello")); }), "is no log that can be read"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_run((top / "nowhere").string()); }), "is not there"));
  std::filesystem::create_directory(top / "empty");
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_run((top / "empty").string()); }), "holds no log"));
}

TEST(ReadRun, NamesTellRunsApart) {
  const TemporaryFolder top;
  const std::string a = top.write("a/dllogger/rank-0/dllogger.json", nemo_log(2)),
                    b = top.write("b/metrics.csv", "step,loss\n1,1\n");
  const auto runs = read_runs({a, (top / "b").string()});
  EXPECT_EQ(runs[0].name, "a");
  EXPECT_EQ(runs[1].name, "b");
  const auto same = read_runs({b, b, (top / "b").string()});
  EXPECT_NE(same[0].name, same[1].name);
  EXPECT_NE(same[1].name, same[2].name);
}

}  // namespace
}  // namespace trireme
