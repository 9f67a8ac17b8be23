// trireme plan --measure as a user types it, and what the file it writes is good for.
#include <nlohmann/json.hpp>

#include "cli/mpi_run.h"
#include "config/yaml.h"
#include "plan/hardware.h"

namespace trireme {
namespace {

class PlanMeasureTest : public SmallRun {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  nlohmann::json parsed(const std::string& text) const { return nlohmann::json::parse(text); }

  // A plan whose compute is that of measured ops: 100 times it, if they take 100 times as long.
  double compute_on(const std::string& file) const {
    const auto result = run_program(fmt::format("plan {} --json --cluster {}", path("small.yaml"), file));
    EXPECT_EQ(result.status, 0) << result.output;
    return parsed(result.output).at("parts_s").at("compute").get<double>();
  }
};

TEST_F(PlanMeasureTest, TheFilePlansAndIsComparedWithARun) {
  const auto measured = run_program("plan --measure --quick --cpu --threads 1 --output " + path("here.yaml"));
  ASSERT_EQ(measured.status, 0) << measured.output;
  EXPECT_TRUE(contains(measured.output, "measuring 1 of 5: f32, 64 wide"));
  EXPECT_TRUE(contains(measured.output, "here.yaml: use it with --cluster"));
  const Platform platform = load_platform(path("here.yaml"));
  EXPECT_EQ(platform.measured->threads, 1);
  EXPECT_EQ(platform.measured->ranks, 1);
  EXPECT_GT(platform.gpu.f32_tflops, 0);
  for (const char* format : {"f32", "bf16"})
    for (const char* op : {"linear_forward", "attention_backward", "residual_norm_forward", "cross_entropy", "adamw"})
      EXPECT_TRUE(platform.measured->formats.at(format).ops().contains(op)) << format << " " << op;

  const auto run = run_program(train("run", "--plan trainer.threads=1 trainer.max_steps=14 --cluster " + path("here.yaml")));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(contains(run.output, "\nparts   compute "));
  const nlohmann::json plan = parsed(text_of("run/summary.json")).at("plan");
  double predicted = 0, measured_sum = 0;
  std::vector<std::string> names;
  for (const nlohmann::json& row : plan.at("rows")) {
    names.push_back(row.at("part"));
    predicted += row.at("predicted_s").get<double>(), measured_sum += row.at("measured_s").get<double>();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"compute", "optimizer", "other"}));
  EXPECT_NEAR(predicted, plan.at("step_s").get<double>(), 1e-9);
  EXPECT_GT(measured_sum, 0);

  const auto page = run_program(fmt::format("report {} --output {}", path("run"), path("page.html")));
  ASSERT_EQ(page.status, 0) << page.output;
  EXPECT_TRUE(contains(read_file(folder_ / "page.html", 1 << 24), "<h2>Predicted step, here"));
}

TEST_F(PlanMeasureTest, APlanTakesTheTimesOfTheFile) {
  ASSERT_EQ(run_program("plan --measure --quick --cpu --threads 1 --output " + path("here.yaml")).status, 0);
  Tree file = read_yaml_file(path("here.yaml"));
  for (Tree::Entry& op : file.find("measured.bf16")->map())
    for (Tree& row : op.value.list()) row.list().back() = Tree(100 * row.list().back().real());
  const std::string slow = folder_.write("slow.yaml", write_yaml(file));
  EXPECT_NEAR(compute_on(slow) / compute_on(path("here.yaml")), 100, 1);
  const auto plan = run_program(fmt::format("plan {} --cluster {}", path("small.yaml"), path("here.yaml")));
  EXPECT_TRUE(contains(plan.output, "from    measured with --quick, which is too little to rely on: 1 rank with "));
}

TEST_F(PlanMeasureTest, RanksMeasureTogetherWithTheirCollectives) {
  if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  const auto measured = run_shell(mpirun(2, "plan --measure --quick --cpu --threads 1 --output " + path("two.yaml")));
  ASSERT_EQ(measured.status, 0) << measured.output;
  const Platform platform = load_platform(path("two.yaml"));
  EXPECT_EQ(platform.measured->ranks, 2);
  EXPECT_EQ(platform.gpus_per_node, 2);
  EXPECT_GT(platform.nvlink_bandwidth, 0);
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "sendrecv"})
    EXPECT_GT(platform.measured->collectives.at(name).points().size(), 3) << name;

  const std::string two = "--cluster " + path("two.yaml");
  const auto plan = run_program(fmt::format("plan {} --json {} trainer.devices=2", path("small.yaml"), two));
  ASSERT_EQ(plan.status, 0) << plan.output;
  EXPECT_GT(parsed(plan.output).at("parts_s").at("dp").get<double>(), 0);
  const auto alone = run_program(fmt::format("plan {} {}", path("small.yaml"), two));
  EXPECT_EQ(alone.status, 2);
  EXPECT_TRUE(contains(alone.output, "measured with 2 ranks, and this run has 1; measure with as many: mpirun -n 1"));
}

TEST_F(PlanMeasureTest, MistakesAreOneLine) {
  const auto refused = [&](const std::string& options, const std::string& part) {
    const auto result = run_program("plan " + options);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(contains(result.output, part));
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
  };
  refused("--measure", "--measure needs --output FILE, such as --output this-machine.yaml");
  folder_.write("mine.yaml", "a: 1\n");
  refused("--measure --output " + path("mine.yaml"), "exists and is not from trireme plan; give another name");
  refused("--quick", "--quick requires --measure");
  refused("--measure --output x --threads 0", "--threads");
}

}  // namespace
}  // namespace trireme
