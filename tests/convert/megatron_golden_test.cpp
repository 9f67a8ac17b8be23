// Checkpoints as Megatron-LM's own code writes them (tests/convert/golden/megatron): imported, their logits are those that
// Megatron computes.
#include "config/yaml.h"
#include "convert/megatron_fixture.h"

namespace trireme {
namespace {

std::filesystem::path golden(const std::string& name) { return megatron_golden(name); }

// Both sides are f32, so each has an error of its own.
void expect_megatron_logits(const StoredCheckpoint& checkpoint, const PeerLogits& expected) {
  const std::vector<float> ours = logits_of(checkpoint, expected.tokens, BackendKind::reference);
  ASSERT_EQ(ours.size(), expected.logits.size());
  const double tolerance = 2 * logit_tolerance(settings_of(checkpoint).model, expected.logits);
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - expected.logits[i]));
  EXPECT_LE(worst, tolerance);
  EXPECT_LE(worst, 1e-5);
}

class MegatronGolden : public testing::TestWithParam<const char*> {};

TEST_P(MegatronGolden, LogitsAreThoseOfMegatron) {
  const TemporaryFolder folder;
  expect_megatron_logits(import_megatron(golden(GetParam()), folder / "run"), PeerLogits(golden(GetParam())));
}

// gpt3-torch: mp_rank files of 2 x 2 ranks. llama-dist: torch_dist of 2 ranks, with query groups and a gated MLP. gated-torch: 2
// ranks with gate and up of each. gpt3-optimizer: torch_dist after one step.
INSTANTIATE_TEST_SUITE_P(Formats, MegatronGolden, testing::Values("gpt3-torch", "llama-dist", "gated-torch", "gpt3-optimizer"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(MegatronGoldenFiles, SaysWhatTheyAre) {
  const MegatronImport torch(golden("gpt3-torch"), {});
  EXPECT_STREQ(torch.files().format(), "torch");
  EXPECT_EQ(torch.files().tensor_parallel(), 2);
  EXPECT_EQ(torch.files().pipeline_stages(), 2);
  EXPECT_EQ(torch.files().iteration(), 7);
  EXPECT_EQ(torch.files().version(), 3);
  EXPECT_EQ(torch.model().vocab_size, 32);
  EXPECT_FALSE(torch.has_optimizer());
  EXPECT_STREQ(torch.stored_as(), "float32");
  const MegatronImport dist(golden("llama-dist"), {.vocabulary = 30});
  EXPECT_STREQ(dist.files().format(), "torch_dist");
  EXPECT_EQ(dist.model().vocab_size, 30);
  EXPECT_EQ(dist.model().groups(), 2);
  EXPECT_FALSE(dist.model().bias);
  EXPECT_EQ(dist.model().rotary_base, 5000);
}

// The file of one rank stands for its checkpoint, and so does the folder of the iteration.
TEST(MegatronGoldenFiles, AreFoundFromAnyPartOfThem) {
  const MegatronImport whole(golden("gpt3-torch"), {});
  for (const char* part : {"gpt3-torch/iter_0000007", "gpt3-torch/iter_0000007/mp_rank_01_001/model_optim_rng.pt"}) {
    ASSERT_TRUE(MegatronFiles::is_checkpoint(golden(part))) << part;
    EXPECT_EQ(MegatronImport(golden(part), {}).parameters(), whole.parameters());
  }
  EXPECT_FALSE(MegatronFiles::is_checkpoint(golden("../gpt2")));
}

// An archive of NeMo before Megatron Core: names of its own, a configuration in place of arguments, a tokenizer.
TEST(MegatronGoldenFiles, ReadsAnArchiveOfNemo) {
  const TemporaryFolder folder;
  const StoredCheckpoint nemo = import_megatron(golden("gpt3.nemo"), folder / "nemo", {.vocabulary = 32});
  const StoredCheckpoint torch = import_megatron(golden("gpt3-torch"), folder / "torch");
  EXPECT_EQ(parameters_in(nemo), parameters_in(torch));
  expect_megatron_logits(nemo, PeerLogits(golden("gpt3-torch")));
  // Without --vocab-size the padding goes by the tokenizer.
  const MegatronImport with_tokenizer(golden("gpt3.nemo"), {});
  EXPECT_EQ(with_tokenizer.model().vocab_size, 30);
  EXPECT_EQ(with_tokenizer.rows_of_vocabulary(), 32);
  with_tokenizer.write(folder / "tokens");
  EXPECT_TRUE(std::filesystem::exists(folder / "tokens/tokenizer/vocab.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "tokens/tokenizer/merges.txt"));
  const Tree recipe = read_yaml_file((folder / "tokens/recipe.yaml").string());
  EXPECT_EQ(recipe.find("model.tokenizer.vocab_file")->text(), (folder / "tokens/tokenizer/vocab.json").string());
}

TEST(MegatronGoldenFiles, KeepsTheStateOfTheOptimizer) {
  const TemporaryFolder folder;
  const MegatronImport imported(golden("gpt3-optimizer"), {});
  ASSERT_TRUE(imported.has_optimizer());
  imported.write(folder / "run");
  const StoredCheckpoint checkpoint = open_checkpoint(folder / "run/checkpoints/step-00000007");
  EXPECT_EQ(checkpoint.manifest.info.state["updates"], 1);
  EXPECT_EQ(checkpoint.manifest.info.consumed_samples, 28);
  EXPECT_FALSE(checkpoint.manifest.info.state.contains(kWeightsOnly));
  // After one step of Adam from zero, m = 0.1 g and v = 0.05 g^2 or 0.001 g^2: the second moment follows from the first.
  std::vector<float> first(16 * 24), second(16 * 24);
  const Shape shape{24, 16};
  const auto state = [&](const char* name, std::vector<float>& to) {
    const Tensor tensor{.data = to.data(), .dtype = DType::f32, .shape = shape, .device = Device::host};
    load_checkpoint(checkpoint, std::vector<CheckpointTensor>{{name, TensorSlice::whole(shape), tensor}});
  };
  state("first_moment.blocks.1.mlp.up.weight", first);
  state("second_moment.blocks.1.mlp.up.weight", second);
  for (size_t i = 0; i < first.size(); ++i) {
    const double gradient = first[i] / 0.1;
    EXPECT_NE(gradient, 0);
    EXPECT_NEAR(second[i], 0.001 * gradient * gradient, 1e-5 * 0.001 * gradient * gradient);
  }
}

}  // namespace
}  // namespace trireme
