// What export writes for any layout, import joins again; and the layouts of older files of Megatron are undone.
#include "convert/megatron_fixture.h"

namespace trireme {
namespace {

void as_improved(ModelSettings& m) {
  m.position_embedding_type = PositionEmbedding::rope;
  m.normalization = Normalization::layernorm1p;
  m.activation = MlpActivation::swiglu;
  m.num_attention_heads = 4;
  m.bias = false;
  m.share_embeddings_and_output_weights = false;
}

struct Layout {
  const char* name;
  void (*change)(ModelSettings&);
  int64_t tensor_parallel, stages;
  MegatronNames names;
};

class MegatronThereAndBack : public testing::TestWithParam<Layout> {};

TEST_P(MegatronThereAndBack, KeepsEveryBit) {
  const TemporaryFolder folder;
  const Layout& layout = GetParam();
  const StoredCheckpoint made = make_checkpoint(folder / "run", small_settings([&](ModelSettings& m) {
                                                  m.num_attention_heads = 4;
                                                  layout.change(m);
                                                }));
  MegatronExport(made, {.tensor_parallel = layout.tensor_parallel, .stages = layout.stages, .names = layout.names})
      .write(folder / "out");
  const StoredCheckpoint back = import_megatron(folder / "out", folder / "back");
  EXPECT_EQ(parameters_in(back), parameters_in(made));
  Settings before = settings_of(made), after = settings_of(back);
  EXPECT_EQ(after.model.activation, before.model.activation);
  EXPECT_EQ(after.model.normalization, before.model.normalization);
  EXPECT_EQ(after.model.position_embedding_type, before.model.position_embedding_type);
  EXPECT_EQ(after.model.groups(), before.model.groups());
  EXPECT_EQ(after.model.vocab_size, before.model.vocab_size);
  EXPECT_EQ(after.model.bias, before.model.bias);
  EXPECT_EQ(after.model.rotary_base, before.model.rotary_base);
  EXPECT_EQ(logits_of(back, kTokens), logits_of(made, kTokens));
}

constexpr auto kTransformerEngine = MegatronNames::transformer_engine;
INSTANTIATE_TEST_SUITE_P(Layouts, MegatronThereAndBack,
                         testing::Values(Layout{"gpt3", [](ModelSettings&) {}, 1, 1, kTransformerEngine},
                                         Layout{"gpt3_tp2_pp2", [](ModelSettings&) {}, 2, 2, MegatronNames::local},
                                         Layout{"gpt3_tp4", [](ModelSettings&) {}, 4, 1, kTransformerEngine},
                                         Layout{"llama_tp2", as_llama, 2, 1, kTransformerEngine},
                                         Layout{"llama_tp2_pp2", as_llama, 2, 2, MegatronNames::local},
                                         Layout{"improved_tp2_pp2", as_improved, 2, 2, kTransformerEngine}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(MegatronExport, RefusesWhatMegatronDoesNotHave) {
  const TemporaryFolder folder;
  const auto error_of = [&](const std::function<void(ModelSettings&)>& change, const MegatronExportOptions& options) {
    const TemporaryFolder run;
    try {
      MegatronExport(make_checkpoint(run / "run", small_settings(change)), options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(error_of(as_neox, {}), "model.parallel_residual=true"));
  EXPECT_TRUE(has(error_of([](ModelSettings&) {}, {.tensor_parallel = 2}),
                  "--tensor-parallel 2 does not divide model.num_attention_heads=3"));
  EXPECT_TRUE(has(error_of([](ModelSettings&) {}, {.stages = 4}), "--pipeline-parallel 4 does not divide model.num_layers=2"));
  EXPECT_TRUE(has(error_of(as_llama, {.tensor_parallel = 4}), "model.num_query_groups=2"));
}

// Files of Megatron before version 2, with its names of then, for one layer of 2 heads of width 3 and 2 tensor parallel ranks.
// The element at (part, head, row, column) is a number of these four.
class MegatronVersions : public testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kHeads = 4, kWidth = 2, kColumns = 8, kRanks = 2;
  static float element(int64_t part, int64_t head, int64_t row, int64_t column) {
    return static_cast<float>(1000 * part + 100 * head + 10 * row + column);
  }
  static std::vector<float> numbers(int64_t count, float from) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = (from += 0.25f);
    return values;
  }

  // The rows of q, k and v that rank r has, in the order of the version.
  static std::vector<float> qkv_of_rank(int version, int64_t rank) {
    const int64_t heads = kHeads / kRanks;
    std::vector<float> values;
    const auto put = [&](int64_t part, int64_t head, int64_t row) {
      for (int64_t column = 0; column < kColumns; ++column) values.push_back(element(part, rank * heads + head, row, column));
    };
    if (version == 0)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t head = 0; head < heads; ++head)
          for (int64_t row = 0; row < kWidth; ++row) put(part, head, row);
    if (version == 1)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t row = 0; row < kWidth; ++row)
          for (int64_t part = 0; part < 3; ++part) put(part, head, row);
    if (version >= 2)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t part = 0; part < 3; ++part)
          for (int64_t row = 0; row < kWidth; ++row) put(part, head, row);
    return values;
  }
};

TEST_P(MegatronVersions, QueryKeyValueIsPutInOrder) {
  const TemporaryFolder folder;
  constexpr int64_t kVocabulary = 8, kFfn = 4, kLength = 4;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const std::string layer = "language_model.transformer.layers.0.";
    std::vector<TensorToWrite> tensors;
    const auto add = [&](const std::string& name, const Shape& shape) {
      tensors.push_back({name, shape, numbers(shape.count(), 1)});
    };
    add("language_model.embedding.word_embeddings.weight", {kVocabulary / kRanks, kColumns});
    add("language_model.embedding.position_embeddings.weight", {kLength, kColumns});
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      for (const char* what : {".weight", ".bias"}) add(layer + norm + what, {kColumns});
    const std::vector<float> qkv = qkv_of_rank(GetParam(), rank);
    tensors.push_back({layer + "attention.query_key_value.weight", {3 * kHeads / kRanks * kWidth, kColumns}, qkv});
    std::vector<float> bias;
    for (size_t i = 0; i < qkv.size(); i += kColumns) bias.push_back(qkv[i]);
    tensors.push_back({layer + "attention.query_key_value.bias", {3 * kHeads / kRanks * kWidth}, bias});
    add(layer + "attention.dense.weight", {kColumns, kHeads * kWidth / kRanks});
    add(layer + "attention.dense.bias", {kColumns});
    add(layer + "mlp.dense_h_to_4h.weight", {kFfn / kRanks, kColumns});
    add(layer + "mlp.dense_h_to_4h.bias", {kFfn / kRanks});
    add(layer + "mlp.dense_4h_to_h.weight", {kColumns, kFfn / kRanks});
    add(layer + "mlp.dense_4h_to_h.bias", {kColumns});
    for (const char* what : {"weight", "bias"})
      add(std::string("language_model.transformer.final_layernorm.") + what, {kColumns});
    write_torch(folder / fmt::format("old/mp_rank_0{}/model_optim_rng.pt", rank), tensors,
                {{"num_layers", "1"},
                 {"hidden_size", "8"},
                 {"num_attention_heads", "4"},
                 {"ffn_hidden_size", "4"},
                 {"max_position_embeddings", "4"},
                 {"seq_length", "4"},
                 {"make_vocab_size_divisible_by", "4"}},
                GetParam());
  }
  const auto parameters = parameters_in(import_megatron(folder / "old", folder / "run"));
  const std::vector<float>&qkv = parameters.at("blocks.0.attention.qkv.weight"),
        &bias = parameters.at("blocks.0.attention.qkv.bias");
  size_t at = 0;
  for (int64_t part = 0; part < 3; ++part)
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t row = 0; row < kWidth; ++row) {
        EXPECT_EQ(bias[at / kColumns], element(part, head, row, 0));
        for (int64_t column = 0; column < kColumns; ++column) EXPECT_EQ(qkv[at++], element(part, head, row, column));
      }
}

INSTANTIATE_TEST_SUITE_P(Versions, MegatronVersions, testing::Values(0, 1, 2, 3));

class MegatronMistakes : public testing::Test {
 protected:
  MegatronMistakes() {
    std::filesystem::copy(megatron_golden("gpt3-torch"), folder_ / "torch", std::filesystem::copy_options::recursive);
    std::filesystem::copy(megatron_golden("llama-dist"), folder_ / "dist", std::filesystem::copy_options::recursive);
  }
  void refused(const std::string& name, const std::string& part, const MegatronImportOptions& options = {}) const {
    try {
      MegatronImport(folder_ / name, options);
      ADD_FAILURE() << name << " was read";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  TemporaryFolder folder_;
};

TEST_F(MegatronMistakes, AreNamed) {
  refused("nowhere", "is not there");
  refused("torch", "--vocab-size 33 is more than the 32 rows", {.vocabulary = 33});
  folder_.write("other.yaml",
                "num_layers: 3\nhidden_size: 16\nnum_attention_heads: 4\nffn_hidden_size: 24\nencoder_seq_length: 12\n"
                "max_position_embeddings: 12\n");
  refused("torch", "blocks.2.", {.config = (folder_ / "other.yaml").string()});
  folder_.write("moe.yaml", "num_layers: 2\nnum_moe_experts: 8\n");
  refused("torch", "num_moe_experts=8", {.config = (folder_ / "moe.yaml").string()});
  std::filesystem::remove_all(folder_ / "torch/iter_0000007/mp_rank_01_000");
  refused("torch", "tensor parallel rank 1 of stage 0 is missing");
  std::filesystem::remove(folder_ / "dist/iter_0000007/__1_0.distcp");
  refused("dist", "__1_0.distcp is not there");
  folder_.write("torch/latest_checkpointed_iteration.txt", "9");
  refused("torch", "iter_0000009, which is not there");
}

TEST_F(MegatronMistakes, FlippedBitsOfWeightsAreFound) {
  const std::filesystem::path file = folder_ / "torch/iter_0000007/mp_rank_00_000/model_optim_rng.pt";
  std::string bytes = read_file(file, 1 << 20);
  const ZipArchive archive({std::as_bytes(std::span(bytes)), "file"});
  const std::span<const std::byte> word = archive.find("model_optim_rng/data/0")->bytes;
  bytes[static_cast<size_t>(reinterpret_cast<const char*>(word.data()) - bytes.data()) + 9] ^= 1;
  atomic_write(file, bytes_of(bytes));
  EXPECT_THROW(MegatronImport(folder_ / "torch", {}).write(folder_ / "run"), Failure);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace trireme
