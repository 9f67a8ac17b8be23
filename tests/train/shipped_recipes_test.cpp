// The recipes that come with the program, against the published tables of the systems they come from.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "config/recipe.h"
#include "train/run_size.h"

namespace trireme {
namespace {

class ShippedRecipesTest : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }
};

// A row of a table in which - stands for nothing published.
using Row = std::map<std::string, std::string>;

std::vector<Row> read_table(const char* text) {
  std::istringstream lines(text);
  std::vector<std::string> titles;
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (cells.empty()) continue;
    if (titles.empty()) {
      titles = cells;
      continue;
    }
    EXPECT_EQ(cells.size(), titles.size()) << line;
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < cells.size() && i < titles.size(); ++i) row[titles[i]] = cells[i];
  }
  return rows;
}

int64_t integer(const std::string& text) { return text == "-" ? 1 : std::stoll(text); }

// What the tables of sizes and layouts have.
constexpr const char* kLayouts = R"(
recipe                L   h     ffn   heads D   Vpad  parameters   nodes GPUs TP PP VP CP DP  MBS GBS  micro
gpt3/126m             12  768   3072  12    64  50304 125262336    8     64   1  1  -  1  64  4   256  1
gpt3/400m_improved    24  1024  2688  16    64  50304 401967104    8     64   1  1  -  1  64  4   256  1
gpt3/1b_improved      24  2048  5440  16    128 50304 1411059712   8     64   1  1  -  1  64  2   512  4
gpt3/5b               24  4096  16384 32    128 50304 5047558144   16    128  1  1  -  1  128 4   2048 4
gpt3/7b_improved      32  4096  10880 32    128 50688 6841442304   16    128  4  1  -  1  32  1   512  16
gpt3/20b              44  6144  24576 48    128 50432 20257296384  64    512  2  1  -  1  256 2   2048 4
gpt3/40b              48  8192  32768 64    128 50432 39089750016  128   1024 2  4  -  1  128 2   2048 8
gpt3/40b_improved     48  8192  21824 64    128 51200 39469989888  96    768  8  2  -  1  48  1   1536 32
gpt3/175b             96  12288 49152 96    128 50688 174609555456 128   1024 4  8  6  1  32  1   2048 64
gpt3/175b_mlperf      96  12288 49152 96    128 50688 174609555456 64    512  4  8  6  1  16  2   2048 64
gpt3/mlperf           12  12288 49152 96    128 50432 22390087680  1     8    2  4  3  1  1   1   8    8
gpt3/mlperf-24n       96  12288 49152 96    128 50688 174609555456 24    192  4  6  8  1  8   1   48   6
gpt3-22.06/126m       12  768   3072  12    64  50304 125262336    8     64   1  1  -  1  64  4   256  1
gpt3-22.06/5b         24  4096  16384 32    128 50432 5048082432   20    160  2  1  -  1  80  2   1440 9
gpt3-22.06/20b        44  6144  24576 48    128 50432 20257296384  80    640  2  4  -  1  80  1   1440 18
gpt3-22.06/40b        48  8192  32768 64    128 50688 39091847168  80    640  4  4  -  1  40  1   1440 36
gpt3-22.06/175b       96  12288 49152 96    128 51200 174615846912 128   1024 8  8  -  1  16  2   1536 48
gpt3/175b-256gpus-fp8 96  12288 49152 96    128 50688 174609555456 32    256  4  8  2  1  8   1   2048 256
proxy/h200            24  12288 49152 96    128 50688 44138422272  1     8    4  2  6  1  1   1   64   64
proxy/h100            16  12288 49152 96    128 50688 29641629696  1     8    4  2  4  1  1   1   64   64
proxy/smol            24  6144  24576 48    128 50432 11196002304  1     4    2  2  6  1  1   1   64   64
transformer-100b      55  12288 49152 96    128 50304 100901744640 5     40   8  5  -  1  1   6   240  40
transformer-175b      96  12288 49152 96    128 50304 175197806592 8     64   8  8  -  1  1   6   384  64
)";

TEST_F(ShippedRecipesTest, HaveTheSizesAndLayoutsOfTheTables) {
  for (const Row& row : read_table(kLayouts)) {
    SCOPED_TRACE(row.at("recipe"));
    const Settings settings = resolve_recipe(row.at("recipe"), {}).settings;
    const ModelSettings& model = settings.model;
    const RunSize size = run_size(settings);
    const std::map<std::string, int64_t> got = {{"L", model.num_layers},
                                                {"h", model.hidden_size},
                                                {"ffn", model.ffn_hidden_size},
                                                {"heads", model.num_attention_heads},
                                                {"D", model.head_width()},
                                                {"Vpad", model.padded_vocabulary()},
                                                {"parameters", size.parameters},
                                                {"nodes", settings.trainer.num_nodes},
                                                {"GPUs", settings.ranks()},
                                                {"TP", model.tensor_model_parallel_size},
                                                {"PP", model.pipeline_model_parallel_size},
                                                {"VP", model.virtual_pipeline_model_parallel_size},
                                                {"CP", model.context_parallel_size},
                                                {"DP", settings.data_parallel_size()},
                                                {"MBS", model.micro_batch_size},
                                                {"GBS", model.global_batch_size},
                                                {"micro", size.micro_batches}};
    for (const auto& [title, value] : got) EXPECT_EQ(value, integer(row.at(title))) << title;
  }
}

// What the tables of training settings have. dropout is that of hidden states; attention has the same or nothing published.
constexpr const char* kTraining = R"(
recipe                steps  lr      min_lr  warmup const  init     dropout SP    recompute ub    p2p   optimizer               bucket time_limit  validation
gpt3/126m             600000 6e-4    6e-5    636    100000 0.023    0.2     false null      false false mcore_distributed_optim 200    1-00:00:00  50
gpt3/400m_improved    600000 0.00025 2.5e-05 500    0      0.02     0.0     false null      false false mcore_distributed_optim -      1-00:00:00  50
gpt3/1b_improved      300000 2e-4    2e-5    500    0      0.014    0.0     false null      false false mcore_distributed_optim -      1-00:00:00  50
gpt3/5b               75000  0.00016 1.6e-05 115    12500  0.01     0.1     false null      false false mcore_distributed_optim 400    6-00:00:00  50
gpt3/7b_improved      300000 1e-4    1e-5    500    0      0.01     0.0     false null      false false mcore_distributed_optim -      1-00:00:00  50
gpt3/20b              75000  0.00014 1.4e-05 115    12500  0.008165 0.1     true  null      true  false mcore_distributed_optim 220    7-00:00:00  50
gpt3/40b              75000  0.00011 1.1e-05 115    12500  0.007    0.1     true  null      true  true  mcore_distributed_optim 200    6-12:00:00  20
gpt3/40b_improved     100000 9e-5    9e-5    500    0      0.007    0.0     false null      false false mcore_distributed_optim -      1-00:00:00  20
gpt3/175b             75000  9e-05   9e-06   115    12500  0.006    0.1     true  null      false true  mcore_distributed_optim 220    26-00:00:00 20
gpt3/175b_mlperf      75000  9e-05   9e-06   115    12500  0.006    0.0     true  null      true  true  mcore_distributed_optim 125    26-00:00:00 20
gpt3/mlperf           100    2e-05   2e-06   132.5  0      0.006    0.0     true  null      true  true  mcore_distributed_optim 200    00:30:00    1.0
gpt3/mlperf-24n       200    2e-05   2e-06   132.5  0      0.006    0.0     true  null      true  true  mcore_distributed_optim 200    00:30:00    1.0
gpt3-22.06/126m       600000 6e-4    6e-5    636    100000 0.023    0.1     false full      -     -     fused_adam              -      1-12:00:00  50
gpt3-22.06/5b         105000 0.00012 1.2e-05 190    20000  0.01     0.1     false full      -     -     fused_adam              -      7-00:00:00  50
gpt3-22.06/20b        105000 1e-4    1e-5    190    20000  0.008165 0.1     true  selective -     -     fused_adam              -      8-00:00:00  50
gpt3-22.06/40b        105000 8e-05   8e-06   190    20000  0.007    0.1     true  selective -     -     fused_adam              -      12-12:00:00 20
gpt3-22.06/175b       100000 6e-05   6e-06   265    20000  0.006    0.1     true  selective -     -     fused_adam              -      35-00:00:00 20
gpt3/175b-256gpus-fp8 50     9e-5    9e-6    115    12500  0.006    0.1     true  null      false true  distributed_fused_adam  220    26-00:00:00 20
proxy/h200            50     9e-5    9e-6    115    12500  0.006    0.1     true  null      true  true  distributed_fused_adam  220    -           2
proxy/h100            50     9e-5    9e-6    115    12500  0.006    0.1     true  null      true  true  distributed_fused_adam  220    -           2
proxy/smol            50     9e-5    9e-6    115    12500  0.006    0.1     true  null      true  true  distributed_fused_adam  220    -           2
)";

TEST_F(ShippedRecipesTest, HaveTheTrainingSettingsOfTheTables) {
  for (const Row& row : read_table(kTraining)) {
    SCOPED_TRACE(row.at("recipe"));
    const Tree recipe = resolve_recipe(row.at("recipe"), {}).tree;
    const std::pair<const char*, const char*> keys[] = {{"steps", "trainer.max_steps"},
                                                        {"lr", "model.optim.lr"},
                                                        {"min_lr", "model.optim.sched.min_lr"},
                                                        {"warmup", "model.optim.sched.warmup_steps"},
                                                        {"const", "model.optim.sched.constant_steps"},
                                                        {"init", "model.init_method_std"},
                                                        {"dropout", "model.hidden_dropout"},
                                                        {"dropout", "model.attention_dropout"},
                                                        {"SP", "model.sequence_parallel"},
                                                        {"recompute", "model.activations_checkpoint_granularity"},
                                                        {"ub", "model.ub_tp_comm_overlap"},
                                                        {"p2p", "model.overlap_p2p_comm"},
                                                        {"optimizer", "model.optim.name"},
                                                        {"bucket", "model.optim.bucket_cap_mb"},
                                                        {"time_limit", "run.time_limit"},
                                                        {"validation", "trainer.limit_val_batches"}};
    for (const auto& [title, key] : keys) {
      const std::string& published = row.at(title);
      if (published == "-") continue;
      const Tree* value = recipe.find(key);
      ASSERT_NE(value, nullptr) << key;
      // Numbers are compared as numbers, with their kind: a limit of 1.0 is a share, a limit of 1 a batch.
      if (value->kind() == Tree::Kind::real)
        EXPECT_EQ(value->real(), std::stod(published)) << key;
      else
        EXPECT_EQ(value->text(), published) << key;
    }
  }
}

// FP8 runs, and what they keep in FP8.
TEST_F(ShippedRecipesTest, UseFp8WhereThePublishedRunsDid) {
  std::set<std::string> fp8, fp8_params;
  for (const ShippedRecipe& recipe : shipped_recipes()) {
    const ModelSettings model = resolve_recipe(recipe.name, {}).settings.model;
    if (model.fp8.enabled) fp8.insert(recipe.name);
    if (model.fp8.params) fp8_params.insert(recipe.name);
  }
  const std::set<std::string> params = {"gpt3/175b_mlperf", "gpt3/mlperf", "gpt3/mlperf-24n",
                                        "proxy/h100",       "proxy/h200",  "proxy/smol"};
  EXPECT_EQ(fp8_params, params);
  std::set<std::string> all = params;
  all.insert("gpt3/175b-256gpus-fp8");
  EXPECT_EQ(fp8, all);
}

// Sequences longer than 2048.
constexpr const char* kLong = R"(
recipe        base      tokens GPUs TP PP VP CP
gpt3/5b_16k   gpt3/5b   16384  16   4  1  -  1
gpt3/5b_32k   gpt3/5b   32768  16   8  1  -  1
gpt3/5b_64k   gpt3/5b   65536  32   8  1  -  4
gpt3/40b_16k  gpt3/40b  16384  128  8  4  12 1
gpt3/40b_32k  gpt3/40b  32768  128  8  4  12 2
gpt3/40b_64k  gpt3/40b  65536  128  8  4  12 4
gpt3/175b_16k gpt3/175b 16384  512  8  8  12 8
gpt3/175b_32k gpt3/175b 32768  512  8  4  24 16
)";

// What changes with them, and the larger table of positions in the count.
TEST_F(ShippedRecipesTest, LongContextsAreTheSameModelsOnLongerSequences) {
  for (const Row& row : read_table(kLong)) {
    SCOPED_TRACE(row.at("recipe"));
    const Settings settings = resolve_recipe(row.at("recipe"), {}).settings, base = resolve_recipe(row.at("base"), {}).settings;
    const ModelSettings& model = settings.model;
    EXPECT_EQ(model.encoder_seq_length, integer(row.at("tokens")));
    EXPECT_EQ(settings.ranks(), integer(row.at("GPUs")));
    EXPECT_EQ(model.tensor_model_parallel_size, integer(row.at("TP")));
    EXPECT_EQ(model.pipeline_model_parallel_size, integer(row.at("PP")));
    EXPECT_EQ(model.virtual_pipeline_model_parallel_size, integer(row.at("VP")));
    EXPECT_EQ(model.context_parallel_size, integer(row.at("CP")));
    EXPECT_EQ(model.global_batch_size, 32);
    EXPECT_EQ(model.micro_batch_size, 1);
    EXPECT_EQ(settings.trainer.max_steps, 100);
    EXPECT_EQ(model.optim.lr, base.model.optim.lr);
    const int64_t more_rows = model.encoder_seq_length - 2048 + model.padded_vocabulary() - base.model.padded_vocabulary();
    EXPECT_EQ(run_size(settings).parameters, run_size(base).parameters + more_rows * model.hidden_size);
  }
}

// Counts that others publish for the models themselves: the weights of EleutherAI's and Meta's releases. Pythia's releases have
// the padded vocabulary, Llama's needs no padding; so the counts must be equal although the layouts here are not theirs.
constexpr std::pair<const char*, int64_t> kReleased[] = {
    {"pythia/70m", 70'426'624},     {"pythia/160m", 162'322'944},   {"pythia/410m", 405'334'016},
    {"pythia/1b", 1'011'781'632},   {"pythia/1.4b", 1'414'647'808}, {"pythia/2.8b", 2'775'208'960},
    {"pythia/6.9b", 6'857'302'016}, {"pythia/12b", 11'846'072'320}, {"llama2/7b", 6'738'415'616},
    {"llama2/13b", 13'015'864'320}, {"llama2/70b", 68'976'648'192},
};

TEST_F(ShippedRecipesTest, CountParametersLikeTheReleasedModels) {
  for (const auto& [name, count] : kReleased) EXPECT_EQ(run_size(resolve_recipe(name, {}).settings).parameters, count) << name;
}

// Those without a published count, by the formula of a GPT-3: L (12 h^2 + 13 h) + (V + P) h + 2 h.
TEST_F(ShippedRecipesTest, CountParametersByTheFormula) {
  const auto formula = [](int64_t L, int64_t h, int64_t V, int64_t P) { return L * (12 * h * h + 13 * h) + (V + P) * h + 2 * h; };
  EXPECT_EQ(run_size(resolve_recipe("gpt3/530b", {}).settings).parameters, formula(105, 20480, 51200, 2048));
  EXPECT_EQ(run_size(resolve_recipe("proxy/h200x1", {}).settings).parameters, formula(2, 12288, 50304, 2048));
  EXPECT_EQ(run_size(resolve_recipe("gpt3/175b", {}).settings).parameters, formula(96, 12288, 50688, 2048));
}

// Published FLOPs of a sample, to their digits. They all count a vocabulary of 51200, whatever the layout pads it to.
TEST_F(ShippedRecipesTest, CountFlopsLikeThePublishedFigures) {
  const struct {
    const char* recipe;
    double full, causal, unit;  // unit: of the last digit
  } published[] = {
      {"proxy/h200", 5.5694e14, 5.4952e14, 1e10},       {"proxy/h100", 3.7387e14, 3.6892e14, 1e10},
      {"proxy/smol", 1.4488e14, 1.4117e14, 1e10},       {"gpt3/175b", 2.2046e15, 2.1749e15, 1e11},
      {"gpt3/175b_mlperf", 2.2046e15, 2.1749e15, 1e11},
  };
  for (const auto& row : published) {
    ModelDimensions dimensions = flops_dimensions(resolve_recipe(row.recipe, {}).settings.model);
    dimensions.vocabulary = 51200;
    EXPECT_NEAR(model_flops_per_sample(dimensions, FlopsFormula::full), row.full, 0.51 * row.unit) << row.recipe;
    EXPECT_NEAR(model_flops_per_sample(dimensions, FlopsFormula::causal), row.causal, 0.51 * row.unit) << row.recipe;
  }
  const Settings settings = resolve_recipe("gpt3/5b", {}).settings;
  ModelDimensions dimensions = flops_dimensions(settings.model);
  // Without that, the padded vocabulary of the layout counts.
  EXPECT_EQ(run_size(settings).flops_full, model_flops_per_sample(dimensions, FlopsFormula::full));
  EXPECT_EQ(run_size(settings).flops_causal, model_flops_per_sample(dimensions, FlopsFormula::causal));
  EXPECT_EQ(dimensions.vocabulary, 50304);
  dimensions.vocabulary = 51200;
  EXPECT_NEAR(model_flops_per_sample(dimensions, FlopsFormula::full), 6.690e13, 0.51e10);
}

TEST_F(ShippedRecipesTest, AreAllInATableAbove) {
  std::set<std::string> known = {"demo", "gpt3/530b", "proxy/h200x1"}, shipped;
  for (const char* table : {kLayouts, kLong})
    for (const Row& row : read_table(table)) known.insert(row.at("recipe"));
  for (const auto& [name, count] : kReleased) known.insert(name);
  for (const ShippedRecipe& recipe : shipped_recipes()) shipped.insert(recipe.name);
  EXPECT_EQ(shipped, known);
}

TEST_F(ShippedRecipesTest, ResolveAndKeepTheirRunsApart) {
  std::set<std::string> names;
  for (const ShippedRecipe& recipe : shipped_recipes()) {
    EXPECT_FALSE(recipe.summary.empty()) << recipe.name;
    const Settings settings = resolve_recipe(recipe.name, {}).settings;
    EXPECT_GT(run_size(settings).micro_batches, 0) << recipe.name;
    EXPECT_TRUE(names.insert(settings.exp_manager.name).second) << recipe.name << " shares the folder of its runs with another";
  }
}

TEST_F(ShippedRecipesTest, LayoutInWords) {
  EXPECT_EQ(layout_text(resolve_recipe("gpt3/175b", {}).settings), "TP 4, PP 8, VP 6, DP 32");
  EXPECT_EQ(layout_text(resolve_recipe("gpt3/175b_32k", {}).settings), "TP 8, PP 4, VP 24, CP 16");
  EXPECT_EQ(layout_text(resolve_recipe("demo", {}).settings), "1 rank");
}

}  // namespace
}  // namespace trireme
