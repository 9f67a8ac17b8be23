// Times that were measured on a machine: of the shapes that were measured, of others, and as a file.
#include "plan/measured_machine.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/recipe.h"
#include "config/yaml.h"
#include "plan/run_plan.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

PlanCall gemm(int64_t rows, int64_t columns, int64_t depth) {
  const auto count = [](int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  return {.kind = CallKind::gemm,
          .name = "linear_forward",
          .flops = 2 * count(rows, columns) * static_cast<double>(depth),
          .bytes = 4 * (count(rows, depth) + count(columns, depth) + count(rows, columns)),
          .rows = rows,
          .columns = columns,
          .depth = depth};
}

// A machine whose GEMMs take exactly this.
double law(const PlanCall& call) { return 2e-6 + call.flops / 3e11 + call.bytes / 4e10; }

std::vector<MeasuredCall> measured_by(const std::function<double(const PlanCall&)>& seconds) {
  std::vector<MeasuredCall> calls;
  for (const int64_t rows : {256, 1024})
    for (const int64_t columns : {256, 768, 2048})
      for (const int64_t depth : {128, 512, 2048})
        calls.push_back({gemm(rows, columns, depth), seconds(gemm(rows, columns, depth))});
  return calls;
}

TEST(OpTimes, AShapeThatWasMeasuredHasItsTime) {
  const auto rough = [](const PlanCall& call) { return law(call) * (1 + 0.2 * static_cast<double>(call.rows % 7)); };
  const auto calls = measured_by(rough);
  const OpTimes times(calls);
  for (const MeasuredCall& one : calls) EXPECT_EQ(times.seconds(one.call), one.seconds);
}

TEST(OpTimes, FindTheLawBehindTheTimes) {
  const OpTimes times(measured_by(law));
  for (const PlanCall& call : {gemm(512, 1536, 384), gemm(4096, 50304, 1024), gemm(64, 64, 64)})
    EXPECT_NEAR(times.seconds(call) / law(call), 1, 1e-3);  // costs that take less off the errors are left out
}

// Narrow GEMMs take twice what the law says: so do their neighbours, and wide ones do not.
TEST(OpTimes, AnErrorOfTheLawIsThatOfTheNeighbours) {
  const auto bent = [](const PlanCall& call) { return law(call) * (call.columns < 512 ? 2 : 1); };
  const OpTimes times(measured_by(bent));
  const PlanCall narrow = gemm(1024, 240, 512), wide = gemm(1024, 1900, 512);
  EXPECT_NEAR(times.seconds(narrow) / law(narrow), 2, 0.15);
  EXPECT_NEAR(times.seconds(wide) / law(wide), 1, 0.1);
}

TEST(OpTimes, AMachineThatIsSlowerByAFactorIsSoForEveryShape) {
  std::vector<MeasuredCall> calls = measured_by([](const PlanCall& call) { return law(call) * (call.depth > 200 ? 1.3 : 1); });
  const OpTimes fast(calls);
  for (MeasuredCall& one : calls) one.seconds *= 1000;
  const OpTimes slow(calls);
  for (const PlanCall& call : {gemm(512, 1536, 384), gemm(4096, 50304, 1024), gemm(64, 64, 64)})
    EXPECT_NEAR(slow.seconds(call) / fast.seconds(call), 1000, 1e-3);
}

TEST(OpTimes, OneMeasuredShapeIsEnough) {
  const OpTimes times({{gemm(256, 256, 256), 1e-3}});
  EXPECT_EQ(times.seconds(gemm(256, 256, 256)), 1e-3);
  EXPECT_GT(times.seconds(gemm(2048, 2048, 2048)), 0);
}

TEST(CollectiveTimes, LieOnTheLinesBetweenTheMeasuredOnes) {
  const CollectiveTimes times({{1000, 1e-5}, {3000, 3e-5}, {9000, 6e-5}});
  EXPECT_EQ(times.seconds(10), 1e-5);
  EXPECT_NEAR(times.seconds(2000), 2e-5, 1e-12);
  EXPECT_NEAR(times.seconds(6000), 4.5e-5, 1e-12);
  EXPECT_NEAR(times.seconds(18000), 12e-5, 1e-12);
}

MeasuredMachine machine_of(int64_t ranks) {
  MeasuredMachine machine{.device = RecordedDevice::cpu, .ranks = ranks, .threads = 2, .overlap_cost = 0.5};
  MeasuredCalls calls;
  calls["linear_forward"] = measured_by(law);
  machine.formats.emplace("f32", MeasuredOps(std::move(calls)));
  machine.step_seconds = 1e-3, machine.op_seconds = -1e-6;
  if (ranks > 1) machine.collectives.emplace("all_reduce", CollectiveTimes({{1024, 1e-5}, {1048576, 1e-3}}));
  return machine;
}

TEST(MeasuredFile, ReadsBackAsItWasWritten) {
  const Tree tree = read_yaml(write_yaml(to_tree(machine_of(2))), "file");
  const MeasuredMachine machine = read_measured(tree, "file");
  EXPECT_EQ(machine.device, RecordedDevice::cpu);
  EXPECT_EQ(machine.ranks, 2);
  EXPECT_EQ(machine.threads, 2);
  EXPECT_NEAR(machine.step_seconds, 1e-3, 1e-9);
  EXPECT_NEAR(machine.op_seconds, -1e-6, 1e-12);
  EXPECT_EQ(machine.overlap_cost, 0.5);
  EXPECT_NEAR(machine.collectives.at("all_reduce").seconds(1048576), 1e-3, 1e-9);
  const PlanCall call = gemm(1024, 768, 512);
  EXPECT_NEAR(machine.formats.at("f32").seconds(call).value() / law(call), 1, 1e-3) << "four digits are kept";
  EXPECT_FALSE(machine.formats.at("f32").seconds({.name = "adamw"}));
  EXPECT_EQ(write_yaml(to_tree(machine)), write_yaml(tree));
}

TEST(MeasuredFile, MistakesAreNamed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      read_measured(read_yaml(text, "f.yaml"), "f.yaml");
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string head = "{ranks: 1, threads: 1, step_us: 0, op_us: 0, overlap_cost: 0, ";
  EXPECT_EQ(error_of(head + "f32: {linear_forward: [[1, 2, 3]]}}"),
            "linear_forward: [1,2,3]: expected [rows, columns, depth, batches, flops, bytes, draws, microseconds] (f.yaml:1)");
  EXPECT_EQ(error_of(head + "f32: {fill: [[1, 1, 1, 1, 1, 1, 1, 0]]}}"), "fill: [1,1,1,1,1,1,1,0]: the time is 0 (f.yaml:1)");
  EXPECT_EQ(error_of(head + "collectives: {all_reduce: [[8, 1], [8, 2]]}}"), "all_reduce: the bytes must grow (f.yaml:1)");
  EXPECT_EQ(error_of(head + "f16: 1}").substr(0, 29), "f16 is not a key here (f.yaml");
  EXPECT_EQ(error_of("{ranks: 0, threads: 1, step_us: 0, op_us: 0, overlap_cost: 0}"),
            "f.yaml: ranks=0; give the number of ranks that were measured");
  EXPECT_EQ(error_of("[1]"), "f.yaml: measured: expected a map, as trireme plan --measure writes it");
}

Platform platform_with(int64_t ranks) {
  return {.name = "here",
          .summary = "",
          .gpu = {.name = "cpu", .f32_tflops = 1, .memory_gib = 8, .memory_bandwidth = 10, .multiprocessors = 1},
          .measured = std::make_shared<const MeasuredMachine>(machine_of(ranks))};
}

// Ranks share the cores of a machine, so a plan is for as many as were measured.
TEST(MeasuredPlatform, IsForTheRanksAndFormatsThatWereMeasured) {
  const auto error_of = [](int64_t measured, const std::vector<std::string>& overrides) -> std::string {
    const PlanRequest request{.settings = resolve_recipe("demo", overrides, Validation::by_the_caller).settings,
                              .platform = platform_with(measured),
                              .software = load_software_profile("trireme")};
    try {
      require_timed(request);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(1, {}), "");
  EXPECT_EQ(error_of(2, {"trainer.devices=2"}), "");
  EXPECT_EQ(error_of(1, {"trainer.precision=bf16"}),
            "--cluster here: bf16 was not measured there; measure it again with this version, or change trainer.precision");
  EXPECT_EQ(error_of(1, {"trainer.devices=2"}),
            "--cluster here: measured with 1 rank, and this run has 2; measure with as many: mpirun -n 2 trireme plan --measure");
  EXPECT_NE(error_of(2, {}), "");
}

// What the call times of a plan are made of: the measured time, and the gap to the next op.
TEST(MeasuredPlatform, ItsOpsTakeWhatTheyTookThere) {
  const Platform platform = platform_with(2);
  const SoftwareProfile software = load_software_profile("trireme");
  const CallTimes times(platform, software, &platform.measured->formats.at("f32"));
  const PlanCall call = gemm(1024, 768, 512);
  EXPECT_NEAR(times.seconds(call), law(call) - 1e-6, 1e-12);
  EXPECT_NEAR(times.collective_seconds("all_reduce", 2 * 1048576, 2, {.size = 2, .stride = 1}), 2e-3, 1e-9);
}

}  // namespace
}  // namespace trireme
