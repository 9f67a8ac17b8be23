// trireme train on several ranks: it is the run of one rank, said once, and its checkpoints fit any layout.
#include "cli/mpi_run.h"

namespace trireme {
namespace {

using ParallelTrain = MpiRun;

constexpr const char* kTp2Pp2 = "model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2";

TEST_F(ParallelTrain, HasTheLossesOfOneRank) {
  ASSERT_EQ(run_program(train("one")).status, 0);
  const auto expected = logged("one", "reduced_train_loss"), validated = logged("one", "val_loss");
  const struct {
    int ranks;
    const char* layout;
  } cases[] = {{4, kTp2Pp2}, {2, ""}, {4, "model.pipeline_model_parallel_size=2"}, {4, "model.context_parallel_size=2"}};
  for (const auto& test : cases) {
    const std::string run = fmt::format("ranks{}{}", test.ranks, test.layout);
    const auto result = run_shell(mpirun(test.ranks, train("many", test.layout)));
    ASSERT_EQ(result.status, 0) << result.output;
    const auto losses = logged("many", "reduced_train_loss"), many_validated = logged("many", "val_loss");
    ASSERT_EQ(losses.size(), expected.size());
    ASSERT_EQ(many_validated.size(), validated.size());
    // f32 sums in another order; forty steps of Adam carry the difference of the first ones on.
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-3 * expected[i]) << run << ", step " << i;
    for (size_t i = 0; i < validated.size(); ++i) EXPECT_NEAR(many_validated[i], validated[i], 1e-3 * validated[i]) << run;
    fs::remove_all(folder_ / "many");
  }
}

// The boxes that MPI keeps for every pair of ranks are 7% of what so small a run takes, and were not announced.
TEST_F(ParallelTrain, AnnouncesWhatManyRanksTake) {
  const auto result = run_shell(mpirun(
      32, train("run", "model.global_batch_size=32 trainer.max_steps=30 trainer.val_check_interval=null --json 2>/dev/null")));
  ASSERT_EQ(result.status, 0) << result.output;
  const auto summary = nlohmann::json::parse(result.output);
  const auto announced = summary.at("memory_announced_bytes").get<double>();
  const auto measured = summary.at("memory_measured_bytes").get<double>();
  EXPECT_LE(measured, 1.02 * announced) << measured / announced;
  EXPECT_GE(measured, 0.85 * announced);
}

TEST_F(ParallelTrain, FindsTheOthersWithoutMpi) {
  ASSERT_EQ(run_shell(mpirun(4, train("mpi", kTp2Pp2))).status, 0);
  const auto result = run_shell(processes_that_meet(4, train("tcp", kTp2Pp2)));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "layout  4 ranks on 1 machine: TP 2, PP 2, DP 1, CP 1\n"));
  // The same sums in the same order, whatever carries them.
  EXPECT_EQ(logged("tcp", "reduced_train_loss"), logged("mpi", "reduced_train_loss"));
  EXPECT_TRUE(shard_bytes("tcp", 40) == shard_bytes("mpi", 40));
}

TEST_F(ParallelTrain, OneRankSpeaksAndEachHasALog) {
  const auto result = run_shell(mpirun(4, train("run", kTp2Pp2)));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "layout  4 ranks on 1 machine: TP 2, PP 2, DP 1, CP 1\n"));
  EXPECT_TRUE(contains(result.output, "rank 0: embedding, layers 0, tensor slice 1 of 2; "));
  EXPECT_TRUE(contains(result.output, "rank 3: layers 1, head, tensor slice 2 of 2; "));
  const std::regex last("step +40/40");
  EXPECT_EQ(std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), last), std::sregex_iterator()), 1);
  for (int rank = 0; rank < 4; ++rank) {
    const auto log = read_file(folder_ / "run" / fmt::format("nemo_log_globalrank-{0}_localrank-{0}.txt", rank), 1 << 24);
    EXPECT_TRUE(contains(log, fmt::format("rank {}: ", rank)));
    EXPECT_TRUE(contains(log, "the run is finished"));
  }
  const auto summary = nlohmann::json::parse(read_file(folder_ / "run/summary.json", 1 << 20));
  EXPECT_EQ(summary.at("devices"), 4);
  EXPECT_TRUE(contains(read_file(folder_ / "run/joblog.log", 1 << 20), "RANKS=4\n"));
  EXPECT_EQ(fs::file_size(folder_ / "run/nemo_error_log.txt"), 0u);
}

TEST_F(ParallelTrain, TheLayoutNamesTheChunksOfStages) {
  const auto result = run_shell(mpirun(2, train("run",
                                                "trainer.max_steps=1 model.num_layers=4 model.pipeline_model_parallel_size=2 "
                                                "model.virtual_pipeline_model_parallel_size=2")));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "layout  2 ranks on 1 machine: TP 1, PP 2, VP 2, DP 1, CP 1\n")) << result.output;
}

TEST_F(ParallelTrain, BenchmarkNamesEveryRank) {
  const auto result = run_shell(mpirun(2, train("run", "--benchmark trainer.max_steps=6")));
  ASSERT_EQ(result.status, 0) << result.output;
  const auto report = nlohmann::json::parse(read_file(folder_ / "run/benchmark.json", 1 << 20));
  EXPECT_EQ(report.at("layout").at("data_parallel"), 2);
  ASSERT_EQ(report.at("ranks").size(), 2u);
  for (const auto& rank : report.at("ranks")) EXPECT_GT(rank.at("peak_memory_bytes").get<int64_t>(), 1 << 20);
}

TEST_F(ParallelTrain, TraceHasTheOpsAndTheMessagesOfEveryRank) {
  const auto result = run_shell(mpirun(4, train("run", std::string(kTp2Pp2) + " --trace-ops")));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "tp all_reduce"));
  for (int rank = 0; rank < 4; ++rank) {
    const auto trace = nlohmann::json::parse(read_file(folder_ / "run" / fmt::format("trace_globalrank-{}.json", rank), 1 << 26));
    std::set<std::string> names;
    for (const auto& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      names.insert(event.at("name").get<std::string>());
      EXPECT_GE(event.at("dur").get<double>(), 0);
    }
    for (const char* name : {"adamw", "linear_forward", "tp all_reduce", "pp exchange"})
      EXPECT_TRUE(names.contains(name)) << "rank " << rank << " has no " << name;
  }
  // Steps that were watched do not count.
  const auto summary = nlohmann::json::parse(read_file(folder_ / "run/summary.json", 1 << 20));
  EXPECT_EQ(summary.at("left_out_steps").at("profiled"), 3);
}

TEST_F(ParallelTrain, MistakesAreToldOnce) {
  const struct {
    int ranks;
    std::string arguments, words;
  } cases[] = {
      {3, train("run", "model.num_layer=3"), "num_layers"},
      {3, train("run", kTp2Pp2), "needs a multiple of 4; use 4 ranks"},
      {2, train("run", "trainer.devices=4"),
       "2 ranks were started: start it with mpirun -n 4, or add trainer.num_nodes=1 trainer.devices=2"},
      {2, train("run", "model.data.data_prefix=[/no/such/file]"), "/no/such/file"},
      {2, train("run", "--resume"), "no checkpoint"},
      {2, "train demo --no-such-flag", "--no-such-flag"},
  };
  for (const auto& test : cases) {
    const auto result = run_shell(mpirun(test.ranks, test.arguments));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(complaints(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, test.words));
    EXPECT_FALSE(contains(result.output, "rank 1 (")) << "found by all, and told as nobody's";
  }
}

TEST_F(ParallelTrain, DryRunMakesNothing) {
  const auto result = run_shell(mpirun(2, train("run", "--dry-run")));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "layout  2 ranks"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// Saved by one layout, gone on with by others, and in the end by one rank.
TEST_F(ParallelTrain, ResumesInAnotherLayout) {
  ASSERT_EQ(run_program(train("whole")).status, 0);
  ASSERT_EQ(run_shell(mpirun(4, train("run", kTp2Pp2))).status, 0);
  const auto go_on_from = [&](int step, const std::string& command) {
    for (int later = 40; later > step; later -= 10) fs::remove_all(checkpoint("run", later));
    const auto result = run_shell(command);
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(contains(result.output, fmt::format("resumed from step {}, {} samples consumed", step, 4 * step)));
  };
  go_on_from(10, mpirun(2, train("run", "--resume")));
  go_on_from(20, mpirun(2, train("run", "model.pipeline_model_parallel_size=2 --resume")));
  go_on_from(30, std::string(TRIREME_BINARY) + " " + train("run", "--resume"));
  const auto losses = logged("run", "reduced_train_loss"), expected = logged("whole", "reduced_train_loss");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-3 * expected[i]) << "step " << i;
}

// What a run of several ranks saved is a model like any other.
TEST_F(ParallelTrain, ItsCheckpointGeneratesText) {
  ASSERT_EQ(run_shell(mpirun(4, train("run", std::string(kTp2Pp2) + " trainer.max_steps=10"))).status, 0);
  const auto sampled = run_program("generate " + (folder_ / "run").string() + " --prompt 'line ' --tokens 4");
  EXPECT_EQ(sampled.status, 0) << sampled.output;
  EXPECT_TRUE(sampled.output.starts_with("line "));
}

}  // namespace
}  // namespace trireme
