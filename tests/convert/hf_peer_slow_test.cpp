// transformers itself loads what we export and finds the same logits, and we find the same in what it saves. Needs a Python with
// torch, transformers and safetensors, which TRIREME_PEER_PYTHON names.
#include <fmt/ranges.h>

#include <cstdlib>

#include "convert/convert_fixture.h"
#include "support/skip.h"

namespace trireme {
namespace {

class HfPeer : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TRIREME_PEER_PYTHON") == nullptr)
      SKIP_FOR(peer) << "TRIREME_PEER_PYTHON does not name a Python with torch, transformers and safetensors";
  }

  int run_peer(const std::string& arguments) {
    const std::string log = (logs / "peer.log").string();
    const int status = std::system(fmt::format("{} {}/tests/convert/hf_peer.py {} 2>{}", std::getenv("TRIREME_PEER_PYTHON"),
                                               TRIREME_SOURCE_DIR, arguments, log)
                                       .c_str());
    if (status != 0) ADD_FAILURE() << read_file(log, 1 << 26);
    return status;
  }

  TemporaryFolder folder, logs;
};

TEST_F(HfPeer, LoadsWhatWeExport) {
  const std::map<std::string, std::function<void(ModelSettings&)>> models = {
      {"gpt2", [](ModelSettings&) {}},
      {"gpt2_untied",
       [](ModelSettings& m) { m.share_embeddings_and_output_weights = false, m.activation = MlpActivation::gelu_erf; }},
      {"gpt2_imitated",
       [](ModelSettings& m) {
         m.normalization = Normalization::layernorm1p, m.bias = false, m.position_embedding_type = PositionEmbedding::none;
       }},
      {"neox", as_neox},
      {"neox_sequential",
       [](ModelSettings& m) {
         as_neox(m);
         m.parallel_residual = false, m.share_embeddings_and_output_weights = true, m.rotary_percentage = 0.5;
         m.rotary_base = 500, m.normalization = Normalization::layernorm1p, m.bias = false;
       }},
      {"llama", as_llama},
      {"llama3",
       [](ModelSettings& m) {
         as_llama(m);
         m.scale_positional_embedding = true, m.rope_scaling.original_max_position_embeddings = 40, m.rotary_base = 50;
       }},
      {"linear",
       [](ModelSettings& m) {
         as_llama(m);
         m.seq_len_interpolation_factor = 2.5, m.rotary_base = 50;
       }},
      {"neox_linear",
       [](ModelSettings& m) {
         as_neox(m);
         m.rope_scaling.rope_type = RopeType::linear, m.rope_scaling.factor = 3;
       }},
      {"llama_bias",
       [](ModelSettings& m) {
         as_llama(m);
         m.bias = true, m.share_embeddings_and_output_weights = true, m.rotary_base = 500, m.num_query_groups = 0;
       }},
  };
  std::map<std::string, StoredCheckpoint> checkpoints;
  std::string folders;
  for (const auto& [name, change] : models) {
    const StoredCheckpoint& checkpoint =
        checkpoints.emplace(name, make_checkpoint(folder / (name + "-run"), small_settings(change))).first->second;
    HfExport(checkpoint, {.max_shard_bytes = 16000}).write(folder / name);
    folder.write(name + "/tokens.json", fmt::format("[{}]", fmt::join(kTokens, ",")));
    folders += " " + (folder / name).string();
  }
  ASSERT_EQ(run_peer("logits" + folders), 0);
  for (const auto& [name, checkpoint] : checkpoints) {
    SCOPED_TRACE(name);
    expect_logits(settings_of(checkpoint).model, logits_of(checkpoint, kTokens), PeerLogits(folder / name).logits);
  }
}

TEST_F(HfPeer, WeLoadWhatItSaves) {
  ASSERT_EQ(run_peer("models " + folder.path().string()), 0);
  const std::vector<std::filesystem::directory_entry> models(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_FALSE(models.empty());
  for (const auto& model : models) {
    const std::string name = model.path().filename().string();
    SCOPED_TRACE(name);
    const StoredCheckpoint checkpoint = import_model(model.path(), folder / (name + "-run"));
    expect_logits(settings_of(checkpoint).model, logits_of(checkpoint, kTokens), PeerLogits(model.path()).logits);
  }
}

TEST_F(HfPeer, OurBytesAreItsTokens) {
  Settings settings = small_settings([](ModelSettings& m) { m.vocab_size = 257; });
  settings.model.data.data_impl = DataImpl::text;
  HfExport(make_checkpoint(folder / "checkpoints", settings), {}).write(folder / "hf");
  const std::string out = (folder / "out.json").string();
  ASSERT_EQ(run_peer(fmt::format("text {} 'A  b, é\t€!' >{}", (folder / "hf").string(), out)), 0);
  const auto found = nlohmann::json::parse(read_file(out, 1 << 20));
  std::vector<int> bytes;
  for (const char c : std::string("A  b, é\t€!")) bytes.push_back(static_cast<unsigned char>(c));
  EXPECT_EQ(found["tokens"].get<std::vector<int>>(), bytes);
  EXPECT_EQ(found["text"], "A  b, é\t€!");
  EXPECT_EQ(found["end"], 256);
}

}  // namespace
}  // namespace trireme
