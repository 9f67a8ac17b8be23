#include "train/target_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/cost/cost_gpu.h"
#include "base/error.h"
#include "config/recipe.h"
#include "config/user_error.h"
#include "train/memory_plan.h"
#include "train/run_size.h"

namespace trireme {
namespace {

class TargetPlanTest : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }

  static Settings small(const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"model.num_layers=8",          "model.hidden_size=64",  "model.num_attention_heads=4",
                                    "model.encoder_seq_length=32", "model.vocab_size=1000", "model.micro_batch_size=1"};
    all.insert(all.end(), changes.begin(), changes.end());
    return resolve_recipe("gpt3/126m", all).settings;
  }
};

// The rank that is named takes as much as any of all ranks.
TEST_F(TargetPlanTest, TheLargestRankIsTheLargestOfAll) {
  const std::vector<std::string> layouts[] = {
      {"trainer.num_nodes=1", "trainer.devices=4", "model.pipeline_model_parallel_size=4", "model.global_batch_size=16"},
      {"trainer.num_nodes=1", "trainer.devices=8", "model.pipeline_model_parallel_size=4", "model.global_batch_size=16",
       "model.virtual_pipeline_model_parallel_size=2"},
      {"trainer.num_nodes=1", "trainer.devices=8", "model.pipeline_model_parallel_size=4", "model.global_batch_size=16",
       "model.tensor_model_parallel_size=2", "model.pipeline_schedule=zb-h1", "model.vocab_size=20"},
      {"trainer.num_nodes=1", "trainer.devices=4", "model.pipeline_model_parallel_size=4", "model.global_batch_size=4",
       "model.num_layers=10", "model.num_layers_in_last_pipeline_stage=4", "model.vocab_size=20"},
  };
  for (const auto& layout : layouts) {
    const Settings settings = small(layout);
    const TargetPlan run = plan_for_target(settings, find_gpu("h100"));
    const ModelSettings& model = settings.model;
    const MeshShape shape{.tp = static_cast<int>(model.tensor_model_parallel_size),
                          .cp = 1,
                          .dp = static_cast<int>(settings.data_parallel_size()),
                          .pp = static_cast<int>(model.pipeline_model_parallel_size)};
    int64_t most = 0;
    for (int rank = 0; rank < shape.size(); ++rank) {
      const EngineSettings engine{.model = model, .precision = settings.trainer.precision, .gradient_clip = 1};
      most = std::max(most, plan_memory(engine, CostGpu(), run_size(settings).micro_batches, {shape, rank}).total());
    }
    EXPECT_EQ(run.total, most + run.rows.back().second) << run.rank;
  }
}

// What runs announced on an H200, in bench/gpu/reports/2026-11-17-1427.md, rounded to a tenth. Parameters, gradients, masters,
// states and activations follow from the same recording; only the workspaces of libraries are estimates, so 2% of the whole are
// allowed.
TEST_F(TargetPlanTest, AgreesWithWhatAnH200Took) {
  const struct {
    const char* recipe;
    std::vector<std::string> changes;
    double parameters, activations, total;  // GiB
  } cases[] = {
      {"126m", {"model.micro_batch_size=1", "model.global_batch_size=8"}, 238.9 / 1024, 583.6 / 1024, 3.4},
      {"126m", {"model.micro_batch_size=4", "model.global_batch_size=16"}, 238.9 / 1024, 2.3, 5.4},
      {"1.3b", {"model.micro_batch_size=8", "model.global_batch_size=32"}, 2.5, 24.2, 47.7},
      {"1.3b", {"model.micro_batch_size=8", "model.global_batch_size=32", "model.fp8=true"}, 4.7, 15.2, 41.1},
      {"5b", {"model.micro_batch_size=4", "model.global_batch_size=16"}, 9.4, 24.2, 110.3},
      {"175b-2layers", {"model.micro_batch_size=2", "model.global_batch_size=16"}, 7.9, 3.2, 76.8},
      {"175b-2layers", {"model.micro_batch_size=2", "model.global_batch_size=16", "model.fp8=true"}, 14.7, 2.1, 82.5},
  };
  for (const auto& c : cases) {
    const std::string recipe = fmt::format("{}/bench/gpu/recipes/{}.yaml", TRIREME_SOURCE_DIR, c.recipe);
    const TargetPlan run = plan_for_target(resolve_recipe(recipe, c.changes).settings, find_gpu("h200"));
    const auto gibibytes = [&](const std::string& label) {
      for (const auto& [name, bytes] : run.rows)
        if (name == label) return static_cast<double>(bytes) / (1 << 30);
      return 0.0;
    };
    EXPECT_NEAR(gibibytes("parameters"), c.parameters, 0.051) << c.recipe;
    EXPECT_NEAR(gibibytes("activations"), c.activations, 0.051) << c.recipe;
    EXPECT_NEAR(static_cast<double>(run.total) / (1 << 30), c.total, 0.02 * c.total) << c.recipe;
    EXPECT_GT(run.left(), 0) << c.recipe;
  }
}

TEST_F(TargetPlanTest, SaysWhetherItFitsAndByHowMuch) {
  const TargetPlan run{.rank = 3,
                       .holdings = "layers 0-3",
                       .rows = {{"parameters", int64_t{70} << 30}, {"communication", 0}},
                       .total = int64_t{70} << 30,
                       .gpu = {"h100-80", int64_t{80} << 30}};
  Settings settings;
  settings.trainer.devices = 8;
  EXPECT_EQ(text_of(run, settings),
            "memory  rank 3 of 8 takes most (layers 0-3): parameters 70.0 GiB  = 70.0 GiB\n"
            "gpu     h100-80 has 80.0 GiB: fits, 10.0 GiB left");
  TargetPlan large = run;
  large.gpu.memory = int64_t{40} << 30;
  EXPECT_NE(text_of(large, settings).find("does not fit, 30.0 GiB too much"), std::string::npos);
  EXPECT_EQ(json_of(large)["fits"], false);
  EXPECT_EQ(json_of(large)["left"], -(int64_t{30} << 30));
}

TEST_F(TargetPlanTest, GpusAreKnownByNameAndFromTheRecipe) {
  EXPECT_EQ(find_gpu("H100").name, "h100-80");
  EXPECT_EQ(find_gpu("a100-40").name, "a100-40");
  EXPECT_EQ(gpu_of_recipe("proxy/h200").name, "h200-141");
  EXPECT_EQ(gpu_of_recipe("training/a3ultra/H200-llama.yaml").name, "h200-141");
  EXPECT_EQ(gpu_of_recipe("nemo-configs/llama3-1-70b-256gpus-a4-fp8.yaml").name, "b200-180");
  EXPECT_EQ(gpu_of_recipe("proxy/h200x1").name, "h200-141");
  EXPECT_EQ(gpu_of_recipe("gpt3/175b").name, "h100-80");
  EXPECT_EQ(gpu_of_recipe("mine/a1000").name, "h100-80") << "it is not an a100";
  EXPECT_TRUE(user_error_of([] { find_gpu("h1000"); }).starts_with("--gpu h1000: not known; use h100-80, "));
}

TEST(CostGpu, AttentionWithinDocumentsHasABias) {
  constexpr int64_t B = 3, T = 128, H = 4, D = 16;
  const Tensor out{nullptr, DType::bf16, {B, T, H, D}}, lse{nullptr, DType::f32, {B, H, T}};
  AttentionForward forward{.key_length = T, .out = out, .lse = lse};
  AttentionBackward backward{.key_length = T, .lse = lse, .d_out = out};
  const int64_t before = CostGpu().scratch_bytes(backward);
  EXPECT_EQ(CostGpu().scratch_bytes(forward), 0);
  forward.document_starts = backward.document_starts = {nullptr, DType::i32, {B * T}};
  EXPECT_EQ(CostGpu().scratch_bytes(forward), 2 * B * T * T);
  EXPECT_EQ(CostGpu().scratch_bytes(backward), before + 2 * B * T * T);
}

}  // namespace
}  // namespace trireme
