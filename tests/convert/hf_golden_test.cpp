// Models as transformers writes them (tests/convert/golden): imported, their logits are those that transformers computes, and
// exported again they are the same tensors.
#include "convert/convert_fixture.h"

namespace trireme {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/convert/golden" / name;
}

class HfGolden : public testing::TestWithParam<const char*> {};

TEST_P(HfGolden, LogitsAreThoseOfTransformers) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = import_model(golden(GetParam()), folder / "run");
  const ModelSettings model = settings_of(checkpoint).model;
  const PeerLogits expected(golden(GetParam()));
  ASSERT_EQ(expected.tokens, kTokens);
  expect_logits(model, logits_of(checkpoint, kTokens, BackendKind::cpu), expected.logits);
  expect_logits(model, logits_of(checkpoint, kTokens, BackendKind::reference), expected.logits);
}

TEST_P(HfGolden, ExportedAgainItIsTheSame) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = import_model(golden(GetParam()), folder / "run");
  HfExport(checkpoint, {.dtype = DType::f32}).write(folder / "again");
  EXPECT_EQ(tensors_in(folder / "again"), tensors_in(golden(GetParam())));
  const StoredCheckpoint twice = import_model(folder / "again", folder / "twice");
  EXPECT_EQ(parameters_in(twice), parameters_in(checkpoint));
  Settings first = settings_of(checkpoint), second = settings_of(twice);
  first.model.restore_from_path = second.model.restore_from_path = "";
  first.exp_manager.name = second.exp_manager.name = "";
  first.trainer.precision = second.trainer.precision;  // the first follows how the golden weights are stored
  EXPECT_EQ(to_yaml(first), to_yaml(second));
}

INSTANTIATE_TEST_SUITE_P(Families, HfGolden, testing::Values("gpt2", "gpt_neox", "llama", "llama3", "linear"),
                         [](const auto& test) { return std::string(test.param); });

// bf16 weights go through f32 masters and back without a change.
TEST(HfGoldenTypes, Bf16StaysBitForBit) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = import_model(golden("llama"), folder / "run");
  EXPECT_EQ(settings_of(checkpoint).trainer.precision, Precision::bf16);
  const HfExport exported(checkpoint, {});
  EXPECT_EQ(exported.dtype(), DType::bf16);
  exported.write(folder / "again");
  EXPECT_EQ(tensors_in(folder / "again"), tensors_in(golden("llama")));
}

}  // namespace
}  // namespace trireme
