// Export of models that have no equal among transformers' but an exact imitation, of large models, and what is refused.
#include "convert/convert_fixture.h"
#include "data/expect_user_error.h"
#include "data/tokenizer/byte_tokenizer.h"

namespace trireme {
namespace {

struct Variant {
  const char* name;
  std::function<void(ModelSettings&)> change;
  const char* family;
  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

const std::vector<Variant> kVariants = {
    {"gpt2", [](ModelSettings&) {}, "GPT-2"},
    {"gpt2_untied_erf",
     [](ModelSettings& m) { m.share_embeddings_and_output_weights = false, m.activation = MlpActivation::gelu_erf; }, "GPT-2"},
    {"gpt2_layernorm1p", [](ModelSettings& m) { m.normalization = Normalization::layernorm1p; }, "GPT-2"},
    {"gpt2_without_bias", [](ModelSettings& m) { m.bias = false; }, "GPT-2"},
    {"gpt2_without_positions", [](ModelSettings& m) { m.position_embedding_type = PositionEmbedding::none; }, "GPT-2"},
    {"neox", as_neox, "GPT-NeoX"},
    {"neox_sequential_tied_layernorm1p",
     [](ModelSettings& m) {
       as_neox(m);
       m.parallel_residual = false;
       m.share_embeddings_and_output_weights = true;
       m.normalization = Normalization::layernorm1p;
       m.bias = false;
     },
     "GPT-NeoX"},
    {"llama", as_llama, "Llama"},
    {"llama_bias_tied",
     [](ModelSettings& m) {
       as_llama(m);
       m.bias = true;
       m.share_embeddings_and_output_weights = true;
       m.rotary_base = 500;
     },
     "Llama"},
};

class HfExportVariant : public testing::TestWithParam<Variant> {};

// The way through their files and back changes no logit by a bit, whatever had to be imitated.
TEST_P(HfExportVariant, RoundTripKeepsTheLogits) {
  const TemporaryFolder folder;
  const StoredCheckpoint original = make_checkpoint(folder / "checkpoints", small_settings(GetParam().change));
  const HfExport exported(original, {});
  EXPECT_STREQ(exported.model().family->name, GetParam().family);
  exported.write(folder / "hf");
  const StoredCheckpoint back = import_model(folder / "hf", folder / "back");
  EXPECT_EQ(logits_of(back, kTokens), logits_of(original, kTokens));
  if (exported.folded().empty()) {
    EXPECT_EQ(parameters_in(back), parameters_in(original));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HfExportVariant, testing::ValuesIn(kVariants),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HfExport, SaysWhatItImitates) {
  const TemporaryFolder folder;
  const Settings settings =
      small_settings([](ModelSettings& m) { m.normalization = Normalization::layernorm1p, m.bias = false; });
  const HfExport exported(make_checkpoint(folder.path(), settings), {});
  EXPECT_EQ(exported.folded(),
            (std::vector<std::string>{"model.normalization=layernorm1p is written as layernorm of the same effect",
                                      "model.bias=false is written as true of the same effect"}));
}

TEST(HfExport, LargeModelsAreCutIntoFiles) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = make_checkpoint(folder / "checkpoints", small_settings(as_llama));
  HfExport(checkpoint, {}).write(folder / "one");
  const HfExport cut(checkpoint, {.max_shard_bytes = 8000});
  cut.write(folder / "many");
  EXPECT_GT(cut.files().size(), 3u);
  EXPECT_EQ(cut.files().front(), fmt::format("model-00001-of-{:05}.safetensors", cut.files().size()));
  EXPECT_FALSE(std::filesystem::exists(folder / "many" / "model.safetensors"));
  for (const std::string& file : cut.files()) EXPECT_LE(std::filesystem::file_size(folder / "many" / file), 12000u) << file;
  EXPECT_EQ(tensors_in(folder / "many"), tensors_in(folder / "one"));
}

TEST(HfExport, Bf16RoundsToNearest) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = make_checkpoint(folder / "checkpoints", small_settings());
  HfExport(checkpoint, {.dtype = DType::f32}).write(folder / "f32");
  HfExport(checkpoint, {.dtype = DType::bf16}).write(folder / "bf16");
  auto expected = tensors_in(folder / "f32");
  for (auto& [name, values] : expected)
    for (float& value : values) value = to_float(to_bf16(value));
  EXPECT_EQ(tensors_in(folder / "bf16"), expected);
  EXPECT_LT(std::filesystem::file_size(folder / "bf16" / "model.safetensors"),
            std::filesystem::file_size(folder / "f32" / "model.safetensors"));
}

TEST(HfExport, TheVocabularyHasNoPadding) {
  const TemporaryFolder folder;
  HfExport(make_checkpoint(folder / "checkpoints", small_settings()), {}).write(folder / "hf");
  EXPECT_EQ(tensors_in(folder / "hf").at("transformer.wte.weight").size(), 53u * 24);
  EXPECT_TRUE(contains(read_file(folder / "hf" / "config.json", 1 << 20), "\"vocab_size\": 53"));
}

TEST(HfExport, NeverTouchesWhatIsThere) {
  const TemporaryFolder folder;
  const HfExport exported(make_checkpoint(folder / "checkpoints", small_settings()), {});
  folder.write("there/precious.txt", "mine");
  expect_user_error([&] { exported.write(folder / "there"); }, {"--output", "there already"});
  expect_user_error([&] { exported.write(folder / "there/precious.txt"); }, {"--output", "there already"});
  EXPECT_EQ(read_file(folder / "there/precious.txt", 100), "mine");
}

TEST(HfExport, AFailedExportLeavesNothing) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint = make_checkpoint(folder / "checkpoints", small_settings());
  const HfExport exported(checkpoint, {});
  // One byte of the weights changes between opening the checkpoint and reading it.
  const auto shard = checkpoint.folder / "rank-00000.safetensors";
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('?');
  EXPECT_TRUE(contains(message_of<Failure>([&] { exported.write(folder / "hf"); }), "is damaged"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.push_back(entry.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{"checkpoints"});
}

TEST(HfExport, RefusesWhatNoFamilyHasInOneLine) {
  const TemporaryFolder folder;
  int64_t number = 0;
  const auto refused = [&](const std::function<void(ModelSettings&)>& change, const std::vector<std::string>& words) {
    const StoredCheckpoint checkpoint = make_checkpoint(folder / std::to_string(number++), small_settings(change));
    expect_user_error([&] { HfExport(checkpoint, {}); }, words);
  };
  refused([](ModelSettings& m) { m.activation = MlpActivation::swiglu; }, {"model.activation=fast-swiglu", "GPT-2", "gelu"});
  refused([](ModelSettings& m) { m.parallel_residual = true; }, {"model.parallel_residual=true", "GPT-2", "false"});
  refused([](ModelSettings& m) { m.num_query_groups = 1; }, {"model.num_query_groups=1", "GPT-2", "num_attention_heads=3"});
  refused([](ModelSettings& m) { m.kv_channels = 4; }, {"model.kv_channels=4", "GPT-2", "hidden_size=24"});
  // The heads have a width of their own, but transformers wants their number to divide that of the model all the same.
  refused([](ModelSettings& m) { as_llama(m), m.num_attention_heads = 5, m.num_query_groups = 5, m.kv_channels = 8; },
          {"model.num_attention_heads=5", "Llama", "divides model.hidden_size=24"});
  refused([](ModelSettings& m) { as_neox(m), m.shared_attention_norm = true; },
          {"model.shared_attention_norm=true", "GPT-NeoX", "false"});
  refused([](ModelSettings& m) { as_neox(m), m.activation = MlpActivation::swiglu; },
          {"model.activation=fast-swiglu", "GPT-NeoX"});
  refused([](ModelSettings& m) { as_llama(m), m.activation = MlpActivation::gelu; },
          {"model.activation=gelu", "Llama", "swiglu"});
  refused([](ModelSettings& m) { as_llama(m), m.rotary_percentage = 0.5; }, {"model.rotary_percentage=0.5", "Llama", "1.0"});
  refused([](ModelSettings& m) { as_llama(m), m.position_embedding_type = PositionEmbedding::none; },
          {"model.position_embedding_type=none", "Llama", "rope"});
}

TEST(HfExport, WeightsThatAreNotNumbersAreRefused) {
  const TemporaryFolder folder;
  const StoredCheckpoint checkpoint =
      make_checkpoint(folder / "checkpoints", small_settings(), [](const std::string& name, std::vector<float>& values) {
        if (name == "blocks.1.mlp.up.weight") values[3] = std::nanf("");
      });
  expect_user_error([&] { HfExport(checkpoint, {}).write(folder / "hf"); },
                    {"blocks.1.mlp.up.weight", "NaN or infinite", "earlier checkpoint"});
  EXPECT_FALSE(std::filesystem::exists(folder / "hf"));
}

TEST(HfExport, ATokenizerOfAnotherModelIsRefused) {
  const TemporaryFolder folder;
  Settings settings = small_settings();
  settings.model.tokenizer.library = TokenizerLibrary::sentencepiece;
  settings.model.tokenizer.model = TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/bpe_bytes.model";  // of 460 tokens
  expect_user_error([&] { HfExport(make_checkpoint(folder / "checkpoints", settings), {}); },
                    {"model.vocab_size=53", "bpe_bytes.model", "460"});
}

TEST(HfExport, BytesBringTheirTokenizer) {
  const TemporaryFolder folder;
  Settings settings = small_settings([](ModelSettings& m) { m.vocab_size = 257; });
  settings.model.data.data_impl = DataImpl::text;
  HfExport(make_checkpoint(folder / "checkpoints", settings), {}).write(folder / "hf");
  EXPECT_EQ(read_file(folder / "hf" / "tokenizer.json", 1 << 20), byte_tokenizer_json());
  EXPECT_TRUE(contains(read_file(folder / "hf" / "config.json", 1 << 20), "\"eos_token_id\": 256"));
  EXPECT_EQ(settings_of(import_model(folder / "hf", folder / "back")).model.data.data_impl, DataImpl::text);
}

}  // namespace
}  // namespace trireme
