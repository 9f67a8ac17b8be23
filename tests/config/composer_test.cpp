#include "config/composer.h"

#include "config/recipe.h"
#include "config/recipe_files.h"
#include "config/user_error.h"

namespace trireme {
namespace {

class DefaultsList : public RecipeFiles {
 protected:
  Composition compose_file(const std::string& name, const std::vector<std::string>& texts = {}) const {
    std::vector<Override> changes;
    for (const std::string& text : texts) changes.push_back(parse_override(text));
    return compose((folder_ / name).string(), std::move(changes), [](const std::string&) { return std::string{}; });
  }
  std::string composed(const std::string& name, const std::vector<std::string>& changes = {}) const {
    return compose_file(name, changes).tree.text();
  }
  std::string error(const std::string& name, const std::vector<std::string>& changes = {}) const {
    return user_error_of([&] { compose_file(name, changes); });
  }
};

TEST_F(DefaultsList, PutsGroupsUnderTheirName) {
  write("size/small.yaml", "layers: 2\nwidth: 8\n");
  write("size/deep/large.yaml", "layers: 96\n");
  write("top.yaml", "defaults:\n  - size: small\nsize: {width: 16}\n");
  EXPECT_EQ(composed("top.yaml"), "{size:{layers:2,width:16}}");
  EXPECT_EQ(composed("top.yaml", {"size=deep/large"}), "{size:{layers:96,width:16}}");
  EXPECT_EQ(composed("top.yaml", {"size=null"}), "{size:{width:16}}");
  EXPECT_EQ(composed("top.yaml", {"~size"}), "{size:{width:16}}");
  EXPECT_EQ(composed("top.yaml", {"size=[small,deep/large]"}), "{size:{layers:96,width:16}}");
  const Composition large = compose_file("top.yaml", {"size=deep/large", "a=1"});
  EXPECT_EQ(large.choice("size"), "deep/large");
  EXPECT_EQ(large.choice("shape"), "");
  ASSERT_EQ(large.changes.size(), 1U);
  EXPECT_EQ(large.changes[0].key, "a");
}

TEST_F(DefaultsList, SelfStandsWhereItSays) {
  write("g/one.yaml", "x: group\n");
  write("first.yaml", "defaults: [_self_, {g: one}]\ng: {x: own}\n");
  write("last.yaml", "defaults: [{g: one}, _self_]\ng: {x: own}\n");
  EXPECT_EQ(composed("first.yaml"), "{g:{x:group}}");
  EXPECT_EQ(composed("last.yaml"), "{g:{x:own}}");
}

TEST_F(DefaultsList, PackagesFilesAndNesting) {
  write("other.yaml", "a: 1\n");
  write("g/inner/leaf.yaml", "v: 3\n");
  write("g/one.yaml", "defaults:\n  - inner@p.q: leaf\n  - optional nothing: here\n  - two\nx: 1\n");
  write("g/two.yaml", "y: 2\n");
  write("everywhere/e.yaml", "# @package _global_\nz: 5\n");
  write("top.yaml", "defaults: [other, {g: one}, {g@h: two}, {g@_global_: two}, {everywhere: e}]\nown: 0\n");
  EXPECT_EQ(composed("top.yaml"), "{a:1,g:{p:{q:{v:3}},y:2,x:1},h:{y:2},y:2,z:5,own:0}");
  EXPECT_EQ(composed("top.yaml", {"g@h=null"}), "{a:1,g:{p:{q:{v:3}},y:2,x:1},y:2,z:5,own:0}");
}

// Hydra's key of an item in the defaults list of a file that is itself in a group.
TEST_F(DefaultsList, NestedGroupsAreChosenByTheirFullName) {
  write("training/overlap/a.yaml", "method: ring\n");
  write("training/gpt3/5b.yaml", "defaults:\n  - _self_\n  - optional overlap@model.cfg:\nmodel: {x: 1}\n");
  write("top.yaml", "defaults: [{training: gpt3/5b}]\n");
  EXPECT_EQ(composed("top.yaml"), "{training:{model:{x:1}}}");
  EXPECT_EQ(composed("top.yaml", {"training/overlap@training.model.cfg=a"}), "{training:{model:{x:1,cfg:{method:ring}}}}");
}

TEST_F(DefaultsList, OverridesAndAdditions) {
  write("g/one.yaml", "x: 1\n");
  write("g/two.yaml", "x: 2\n");
  write("h/three.yaml", "x: 3\n");
  write("base.yaml", "defaults: [{g: one}]\n");
  write("top.yaml", "defaults: [base, {override g: two}, {override hydra/job_logging: stdout}]\n");
  EXPECT_EQ(composed("top.yaml"), "{g:{x:2}}");
  EXPECT_EQ(composed("top.yaml", {"g=one"}), "{g:{x:1}}");
  EXPECT_EQ(composed("top.yaml", {"+h=three"}), "{g:{x:2},h:{x:3}}");
}

TEST_F(DefaultsList, SearchPath) {
  write("elsewhere/g/one.yaml", "x: 1\n");
  write("top.yaml", fmt::format("defaults: [{{g: one}}]\nhydra: {{searchpath: ['file://{}', 'pkg://unknown']}}\n",
                                (folder_ / "elsewhere").string()));
  EXPECT_EQ(compose_file("top.yaml").tree.find("g.x")->integer(), 1);
}

TEST_F(DefaultsList, Mistakes) {
  write("g/one.yaml", "x: 1\n");
  const std::string top = write("top.yaml", "defaults:\n  - g: ona\n");
  EXPECT_EQ(error("top.yaml"),
            fmt::format("{}:2: defaults: there is no g/ona.yaml in {}; did you mean g/one?", top, folder_.string()));
  EXPECT_EQ(error("top.yaml", {"g=won"}),
            fmt::format("{}:2: defaults: there is no g/won.yaml in {}; did you mean g/one?", top, folder_.string()));
  EXPECT_EQ(error("top.yaml", {"g={a: 1}"}), "g={a: 1}: g is a choice of files; give a name such as g=ona");
  const std::string expected = ": expected _self_, the name of a file, or group: name";
  const std::string word = write("word.yaml", "defaults: one\n");
  EXPECT_EQ(error("word.yaml"), word + ":1: defaults=one: expected a list");
  const std::string number = write("number.yaml", "defaults: [3]\n");
  EXPECT_EQ(error("number.yaml"), number + ":1: defaults: 3" + expected);
  const std::string two = write("two.yaml", "defaults: [{a: b, c: d}]\n");
  EXPECT_EQ(error("two.yaml"), two + ":1: defaults: {a:b,c:d}" + expected);
  const std::string map = write("map.yaml", "defaults: [{a: {b: c}}]\n");
  EXPECT_EQ(error("map.yaml"), map + ":1: defaults: {a:{b:c}}" + expected);
  const std::string twice = write("twice.yaml", "defaults: [_self_, _self_]\n");
  EXPECT_EQ(error("twice.yaml"), twice + ":1: defaults: _self_ is given twice");
}

TEST_F(DefaultsList, CyclesAreNamed) {
  const std::string itself = write("itself.yaml", "defaults: [itself]\n");
  const std::string canonical = std::filesystem::canonical(itself).string();
  EXPECT_EQ(error("itself.yaml"), fmt::format("{}:1: is built on itself: {} -> {}", itself, canonical, canonical));
  write("ping.yaml", "defaults: [pong]\n");
  write("pong.yaml", "extends: ping\n");
  EXPECT_NE(error("ping.yaml").find("ping.yaml -> "), std::string::npos);
}

// The launcher's tree, with the keys that its files refer to.
class LauncherTree : public RecipeFiles {
 protected:
  void SetUp() override {
    RecipeFiles::SetUp();
    write("conf/config.yaml",
          "defaults: [_self_, {cluster: bcm}, {training: gpt3/tiny}, {conversion: gpt3/convert}, "
          "{override hydra/job_logging: stdout}]\n"
          "stages: [training]\nlauncher_scripts_path: ???\ndata_dir: ${launcher_scripts_path}/data\n"
          "base_results_dir: ${launcher_scripts_path}/results\ntraining_config: ${hydra:runtime.choices.training}\n"
          "conversion_config: ${hydra:runtime.choices.conversion}\n");
    const std::string recipe =
        "defaults: [_self_, {optional tp_overlap@model.ub_tp_comm_overlap_cfg: plan}]\n"
        "run: {name: tiny, results_dir: '${base_results_dir}/${.name}'}\n"
        "trainer: {max_steps: 5}\n"
        "exp_manager: {explicit_log_dir: '${training.run.results_dir}/results'}\n"
        "model: {vocab_size: 64, hidden_size: 32, num_attention_heads: 4, encoder_seq_length: 16,\n"
        "  max_position_embeddings: '${.encoder_seq_length}', data: {data_impl: mmap, data_prefix: [1.0, '${data_dir}/a']}}\n";
    file_ = write("conf/training/gpt3/tiny.yaml", recipe);
    alone_ = write("alone.yaml", recipe);
    write("conf/training/gpt3/other.yaml", "trainer: {max_steps: 6}\nmodel: {vocab_size: 64}\n");
    write("conf/training/tp_overlap/plan.yaml", "qkv_fprop: {method: ring_exchange}\n");
    conf_ = (folder_ / "conf").string();
  }

  std::string conf_, file_, alone_;
};

TEST_F(LauncherTree, IsARecipeAsAFolderAFileAndOneOfItsParts) {
  for (const std::string& name : {conf_, conf_ + "/config.yaml", file_}) {
    const ResolvedRecipe recipe = resolve_recipe(name, {"launcher_scripts_path=/l", "training.trainer.max_steps=7"});
    EXPECT_EQ(recipe.settings.trainer.max_steps, 7) << name;
    EXPECT_EQ(recipe.settings.exp_manager.explicit_log_dir, "/l/results/tiny/results") << name;
    EXPECT_EQ(recipe.settings.model.data.data_prefix, (std::vector<std::string>{"1.0", "/l/data/a"})) << name;
    EXPECT_EQ(recipe.tree.find("model.ub_tp_comm_overlap_cfg.qkv_fprop.method")->text(), "ring_exchange") << name;
  }
  EXPECT_EQ(resolve_recipe(conf_, {"training=gpt3/other"}).settings.trainer.max_steps, 6);
}

TEST_F(LauncherTree, TakesTheLaunchersOverridesAndOurs) {
  const ResolvedRecipe recipe = resolve_recipe(
      conf_, {"data_dir=/data", "base_results_dir=/results", "stages=[training]", "cluster.partition=x", "conversion.run.name=y",
              "trainer.devices=1", "++model.bias=false", "training.run.name=mine", "+training.model.seed=3"});
  EXPECT_EQ(recipe.settings.exp_manager.explicit_log_dir, "/results/mine/results");
  EXPECT_FALSE(recipe.settings.model.bias);
  EXPECT_EQ(recipe.settings.model.seed, 3U);
}

TEST_F(LauncherTree, SaysWhatMustBeGiven) {
  const std::string config = conf_ + "/config.yaml";
  EXPECT_EQ(user_error_of([&] { resolve_recipe(config, {}); }),
            fmt::format("launcher_scripts_path: must be given, because base_results_dir refers to it ({}:3)", config));
  EXPECT_EQ(user_error_of([&] { resolve_recipe(alone_, {}); }),
            fmt::format("run.results_dir=${{base_results_dir}}/${{.name}}: base_results_dir must be given; add for example "
                        "base_results_dir=/path/to/it ({}:2)",
                        alone_));
  EXPECT_EQ(resolve_recipe(alone_, {"data_dir=/d", "base_results_dir=/r"}).settings.exp_manager.explicit_log_dir,
            "/r/tiny/results");
  EXPECT_EQ(user_error_of([&] { resolve_recipe(config, {"training.trainer.max_step=3"}); }),
            "trainer.max_step: unknown key; did you mean trainer.max_steps?");
}

TEST_F(LauncherTree, NamesShippedRecipesByTrainingToo) {
  write("gpt3/small.yaml", "trainer: {max_steps: 9}\nmodel: {vocab_size: 64}\n");
  EXPECT_EQ(resolve_recipe("training=gpt3/small", {}).settings.trainer.max_steps, 9);
  EXPECT_EQ(resolve_recipe("training=gpt3/small", {"training.trainer.max_steps=200"}).settings.trainer.max_steps, 200);
  EXPECT_EQ(resolve_recipe("stages=[training]", {"training=gpt3/small", "training.model.bias=false"}).settings.model.bias, false);
  const std::string which = "which recipe? give its name first, or training=NAME; trireme recipes lists them";
  EXPECT_EQ(user_error_of([] { resolve_recipe("stages=[training]", {}); }), which);
  EXPECT_EQ(user_error_of([] { resolve_recipe("training=", {}); }), which);
  const std::string mine = write("mine.yaml", "extends: gpt3/small\nmodel: {bias: false}\n");
  EXPECT_EQ(resolve_recipe(mine, {}).settings.trainer.max_steps, 9);
}

// LitGPT's recipes take their batch from the environment.
TEST_F(LauncherTree, LitgptBatchesFromTheEnvironmentAndTheCommandLine) {
  write("lit.yaml",
        "batch_size: ${oc.env:BATCH_SIZE,125}\nmicro_batch_size: ${oc.env:MICRO_BATCH_SIZE,5}\nmodel: {vocab_size: 64}\n");
  const auto batches = [](const std::vector<std::string>& changes) {
    const ModelSettings model = resolve_recipe("lit", changes).settings.model;
    return std::pair(model.global_batch_size, model.micro_batch_size);
  };
  EXPECT_EQ(batches({}), std::pair(int64_t{125}, int64_t{5}));
  EXPECT_EQ(batches({"trainer.devices=8"}), std::pair(int64_t{1000}, int64_t{5}));
  EXPECT_EQ(batches({"batch_size=6", "micro_batch_size=6"}), std::pair(int64_t{6}, int64_t{6}));
  EXPECT_EQ(batches({"model.global_batch_size=20"}), std::pair(int64_t{20}, int64_t{5}));
  EXPECT_EQ(batches({"model.global_batch_size=8", "model.micro_batch_size=2"}), std::pair(int64_t{8}, int64_t{2}));
  setenv("BATCH_SIZE", "5", 1);
  setenv("MICRO_BATCH_SIZE", "125", 1);
  EXPECT_EQ(user_error_of([&] { batches({}); }),
            "micro_batch_size=125 is larger than batch_size=5, which leaves 0 micro-batches to accumulate; they are swapped: use "
            "batch_size=125 micro_batch_size=5");
  setenv("BATCH_SIZE", "six", 1);
  EXPECT_TRUE(user_error_of([&] { batches({}); }).starts_with("batch_size=six: expected an integer from 0 to 1048576 or null"));
  unsetenv("BATCH_SIZE");
  unsetenv("MICRO_BATCH_SIZE");
}

}  // namespace
}  // namespace trireme
