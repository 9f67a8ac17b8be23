// Foreign files that are damaged, hostile, or of another model than config.json says: one line each, and nothing is written.
#include <cstring>

#include "convert/convert_fixture.h"
#include "data/expect_user_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kParameters = 53 * 24 + 20 * 24 + 2 * (4 * 24 + 25 * 72 + 25 * 24 + 25 * 40 + 41 * 24) + 2 * 24;

class HfImportTest : public testing::Test {
 protected:
  HfImportTest() { copy("gpt2"); }

  // A model to spoil.
  void copy(const std::string& name) {
    fs::remove_all(model());
    fs::copy(fs::path(TRIREME_SOURCE_DIR) / "tests/convert/golden" / name, model());
    fs::remove(model() / "logits.safetensors");
  }
  fs::path model() const { return folder / "model"; }
  fs::path weights() const { return model() / "model.safetensors"; }

  void edit_config(const std::string& key, const nlohmann::json& value) const {
    auto config = nlohmann::json::parse(read_file(model() / "config.json", 1 << 20));
    config[key] = value;
    folder.write("model/config.json", config.dump());
  }

  // Writes the weights again with tensors left out, renamed, added or of other shapes.
  void edit_weights(const std::function<void(std::vector<SafetensorsTensor>&)>& edit) const {
    std::vector<SafetensorsTensor> tensors;
    {
      const File file = File::open(weights());
      tensors = read_safetensors_header(file).tensors;
    }
    edit(tensors);
    const SafetensorsHeader header = make_safetensors_header(tensors, {{"format", "pt"}});
    folder.write("model/model.safetensors",
                 header.bytes + std::string(static_cast<size_t>(header.file_bytes) - header.bytes.size(), '\0'));
  }

  static SafetensorsTensor& named(std::vector<SafetensorsTensor>& tensors, const std::string& name) {
    return *std::ranges::find_if(tensors, [&](const SafetensorsTensor& tensor) { return tensor.name == name; });
  }

  void refused(const std::vector<std::string>& words) const {
    expect_user_error([&] { import_model(model(), folder / "run"); }, words);
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
  std::string damaged() const {
    const std::string text = message_of<Failure>([&] { import_model(model(), folder / "run"); });
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_FALSE(fs::exists(folder / "run"));
    return text;
  }

  TemporaryFolder folder;
};

TEST_F(HfImportTest, MissingFiles) {
  expect_user_error([&] { HfImport(folder / "nowhere"); }, {"nowhere is not there"});
  fs::rename(weights(), model() / "pytorch_model.bin");
  refused({"pytorch_model.bin", "safetensors"});
  fs::remove(model() / "pytorch_model.bin");
  refused({"neither model.safetensors nor"});
  fs::remove(model() / "config.json");
  refused({"config.json is not there"});
}

TEST_F(HfImportTest, OneFileWithItsConfigBeside) {
  fs::rename(weights(), model() / "epoch3.safetensors");
  EXPECT_EQ(HfImport(model() / "epoch3.safetensors").parameters(), kParameters);
}

TEST_F(HfImportTest, TruncatedAnywhere) {
  const std::string whole = read_file(weights(), 1 << 20);
  for (const size_t length : {size_t{0}, size_t{5}, size_t{8}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    folder.write("model/model.safetensors", whole.substr(0, length));
    EXPECT_TRUE(contains(damaged(), "model.safetensors")) << length;
  }
  folder.write("model/model.safetensors", whole + "x");
  EXPECT_TRUE(contains(damaged(), "follow the last tensor"));
}

TEST_F(HfImportTest, HostileHeaders) {
  const auto header = [&](const std::string& json, uint64_t length) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    folder.write("model/model.safetensors", text + json);
  };
  const auto honest = [&](const std::string& json) { header(json, json.size()); };
  header("{}", uint64_t{1} << 63);
  EXPECT_TRUE(contains(damaged(), "more than"));
  header("{}", 99);
  EXPECT_TRUE(contains(damaged(), "truncated"));
  honest("[1]");
  EXPECT_TRUE(contains(damaged(), "not a JSON object"));
  honest(std::string(5000, '['));
  damaged();
  honest(R"({"a": {"dtype": "F16", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})");
  EXPECT_TRUE(contains(damaged(), "too large"));
  honest(R"({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 9223372036854775807]}})");
  EXPECT_TRUE(contains(damaged(), "data_offsets"));
  honest(R"({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}})");
  EXPECT_TRUE(contains(damaged(), "F99"));
  honest(R"({"a": {"dtype": "F16", "shape": [-2], "data_offsets": [0, 8]}})");
  damaged();
}

TEST_F(HfImportTest, AnotherModelThanConfigSays) {
  edit_config("n_layer", 3);
  refused({"transformer.h.2.ln_1.weight is missing", "GPT-2 with 3 layers"});
  edit_config("n_layer", 1);
  refused({"\"transformer.h.1.", "has no place", "1 layers"});
  edit_config("n_layer", 2);
  edit_config("n_inner", 44);
  refused({"transformer.h.0.mlp.c_fc.weight", "[24,40]", "[24,44]"});
  edit_config("n_inner", 40);
  edit_config("tie_word_embeddings", false);
  refused({"lm_head.weight is missing"});
}

TEST_F(HfImportTest, TensorsThatDoNotBelong) {
  edit_weights([](auto& tensors) { tensors.push_back({"transformer.h.0.attn.q_norm.weight", DType::f32, {8}}); });
  refused({"q_norm.weight", "has no place"});
  copy("gpt2");
  edit_weights([](auto& tensors) { named(tensors, "transformer.ln_f.weight").dtype = DType::i32; });
  refused({"transformer.ln_f.weight is I32", "F32, BF16 or F16"});
  copy("gpt2");
  edit_weights([](auto& tensors) { named(tensors, "transformer.wte.weight").shape = Shape{24, 53}; });
  refused({"transformer.wte.weight is [24,53]", "[53,24]"});
}

TEST_F(HfImportTest, MasksAndTiedHeadsArePassedOver) {
  edit_weights([](auto& tensors) {
    tensors.push_back({"transformer.h.0.attn.bias", DType::u8, {1, 1, 20, 20}});
    tensors.push_back({"transformer.h.0.attn.masked_bias", DType::f32, Shape{}});
    tensors.push_back({"lm_head.weight", DType::f32, {53, 24}});
  });
  EXPECT_EQ(HfImport(model()).parameters(), kParameters);
}

TEST_F(HfImportTest, NamesWithoutPrefix) {
  edit_weights([](auto& tensors) {
    for (SafetensorsTensor& tensor : tensors) tensor.name = tensor.name.substr(std::string("transformer.").size());
  });
  EXPECT_EQ(HfImport(model()).parameters(), kParameters);
}

TEST_F(HfImportTest, IndexesThatLie) {
  copy("llama");
  const std::string index = read_file(model() / "model.safetensors.index.json", 1 << 20);
  const auto with = [&](const std::string& tensor, const std::string& file) {
    auto parsed = nlohmann::json::parse(index);
    parsed["weight_map"][tensor] = file;
    folder.write("model/model.safetensors.index.json", parsed.dump());
  };
  with("model.norm.weight", "../model-00001-of-00003.safetensors");
  refused({"is not the name of a file beside it"});
  with("model.norm.weight", "model-00009-of-00003.safetensors");
  refused({"model-00009-of-00003.safetensors", "not there"});
  with("model.invented.weight", "model-00001-of-00003.safetensors");
  refused({"model.invented.weight", "is not in model-00001-of-00003.safetensors"});
  folder.write("model/model.safetensors.index.json", "{\"metadata\": {}}");
  refused({"weight_map"});
  folder.write("model/model.safetensors.index.json", "{");
  refused({"JSON"});
  folder.write("model/model.safetensors.index.json", index);
  fs::copy(model() / "model-00001-of-00003.safetensors", model() / "model-00004-of-00003.safetensors");
  with("model.norm.weight", "model-00004-of-00003.safetensors");
  refused({"is in", "and in"});
}

TEST_F(HfImportTest, KeepsTheTokenizer) {
  folder.write("model/vocab.json", "{\"<|endoftext|>\": 52}");
  folder.write("model/merges.txt", "#version: 0.2\n");
  const StoredCheckpoint checkpoint = import_model(model(), folder / "run");
  EXPECT_EQ(read_file(folder / "run/tokenizer/vocab.json", 100), "{\"<|endoftext|>\": 52}");
  HfExport(checkpoint, {}).write(folder / "again");
  EXPECT_EQ(read_file(folder / "again/merges.txt", 100), "#version: 0.2\n");
  EXPECT_TRUE(contains(read_file(folder / "again/config.json", 1 << 20), "\"eos_token_id\": 52"));
}

TEST_F(HfImportTest, ATokenizerOfAnotherModelIsRefused) {
  fs::copy(TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/bpe_bytes.model", model() / "tokenizer.model");
  refused({"460 tokens", "53", "do not belong together"});
}

TEST_F(HfImportTest, WeightsThatAreNotNumbersAreRefused) {
  const std::string whole = read_file(weights(), 1 << 20);
  const File file = File::open(weights());
  for (const SafetensorsTensor& tensor : read_safetensors_header(file).tensors) {
    if (tensor.name != "transformer.h.1.mlp.c_fc.weight") continue;
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      std::string spoilt = whole;
      std::memcpy(spoilt.data() + tensor.begin + 7 * sizeof(float), &bad, sizeof bad);
      folder.write("model/model.safetensors", spoilt);
      refused({"transformer.h.1.mlp.c_fc.weight", "1 values of", "NaN or infinite", "element 7"});
    }
    return;
  }
  ADD_FAILURE() << "the tensor is not there";
}

TEST_F(HfImportTest, NeverTouchesWhatIsThere) {
  folder.write("run/precious.txt", "mine");
  expect_user_error([&] { import_model(model(), folder / "run"); }, {"--output", "there already"});
  EXPECT_EQ(read_file(folder / "run/precious.txt", 100), "mine");
}

}  // namespace
}  // namespace trireme
