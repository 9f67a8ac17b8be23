// The memory of every shipped recipe, and of the benchmark's, against a table made when tensors were still placed by hand:
// placing them by their lifetimes must not take more. TRIREME_WRITE_GOLDEN=1 writes the table of today instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "backend/cost/cost_gpu.h"
#include "backend/cpu/cpu_backend.h"
#include "config/recipe.h"
#include "train/memory_plan.h"
#include "train/run_size.h"

namespace trireme {
namespace {

const std::string kGolden = TRIREME_SOURCE_DIR "/tests/data/golden/recipe_peaks.txt";

struct Peaks {
  int64_t gpu = 0, cpu = 0;  // bytes of the rank that needs most; 0 where the recipe cannot run
};

// Of the first, second and last stage: those in between hold what the second does, for fewer micro-batches.
int64_t peak_of(const Settings& settings, const Backend& target) {
  const ModelSettings& model = settings.model;
  const MeshShape shape{.tp = narrow<int>(model.tensor_model_parallel_size),
                        .cp = narrow<int>(model.context_parallel_size),
                        .dp = narrow<int>(settings.data_parallel_size()),
                        .pp = narrow<int>(model.pipeline_model_parallel_size)};
  const EngineSettings engine{
      .model = model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
  int64_t most = 0;
  for (const int stage : {0, std::min(1, shape.pp - 1), shape.pp - 1})
    most = std::max(
        most,
        plan_memory(engine, target, run_size(settings).micro_batches, {shape, stage * shape.tp * shape.cp * shape.dp}).total());
  return most;
}

struct Case {
  std::string name;  // recipe and overrides, as on a command line
  std::string recipe;
  std::vector<std::string> overrides;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const ShippedRecipe& recipe : shipped_recipes()) all.push_back({recipe.name, recipe.name, {}});
  for (const char* name : {"126m", "1.3b", "5b", "175b-2layers"})
    for (const char* option : {"model.fp8=false", "model.fp8=true", "model.activations_checkpoint_granularity=selective",
                               "model.activations_checkpoint_granularity=full"}) {
      const std::string file = fmt::format("bench/gpu/recipes/{}.yaml", name);
      all.push_back({fmt::format("{} {}", file, option), fmt::format("{}/{}", TRIREME_SOURCE_DIR, file), {option}});
    }
  return all;
}

Peaks measure(const Case& which) {
  const Settings settings = resolve_recipe(which.recipe, which.overrides).settings;
  const bool runs_on_cpus = !settings.model.fp8.enabled;
  return {.gpu = peak_of(settings, CostGpu()), .cpu = runs_on_cpus ? peak_of(settings, CpuBackend(1, cpu::Isa::baseline)) : 0};
}

std::map<std::string, Peaks> read_golden() {
  std::map<std::string, Peaks> table;
  std::ifstream file(kGolden);
  Peaks peaks;
  for (std::string name; file >> peaks.gpu >> peaks.cpu >> std::ws && std::getline(file, name);) table[name] = peaks;
  return table;
}

TEST(RecipePeaksSlow, AreNotAboveThoseOfTensorsPlacedByHand) {
  setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1);
  const std::vector<Case> all = cases();
  if (std::getenv("TRIREME_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(kGolden);
    for (const Case& each : all) {
      const Peaks peaks = measure(each);
      file << fmt::format("{} {} {}\n", peaks.gpu, peaks.cpu, each.name);
    }
    return;
  }
  const std::map<std::string, Peaks> golden = read_golden();
  ASSERT_EQ(golden.size(), all.size());
  for (const Case& each : all) {
    ASSERT_TRUE(golden.contains(each.name)) << each.name;
    const Peaks before = golden.at(each.name), now = measure(each);
    EXPECT_LE(now.gpu, before.gpu) << each.name;
    EXPECT_LE(now.cpu, before.cpu) << each.name;
  }
}

}  // namespace
}  // namespace trireme
