// Megatron-LM itself loads what we export and finds the same logits, and we find the same in what it saves, for every layout.
// Needs TRIREME_PEER_PYTHON, a Python with torch, safetensors and einops, and TRIREME_PEER_MEGATRON, a checkout of Megatron-LM.
#include <cstdlib>

#include "convert/megatron_fixture.h"
#include "support/skip.h"

namespace trireme {
namespace {

class MegatronCheckpointPeer : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TRIREME_PEER_PYTHON") == nullptr || std::getenv("TRIREME_PEER_MEGATRON") == nullptr)
      SKIP_FOR(peer)
          << "TRIREME_PEER_PYTHON and TRIREME_PEER_MEGATRON do not name a Python with torch and a checkout of Megatron-LM";
  }

  bool run_peer(const std::string& arguments) const {
    const std::string log = (logs_ / "peer.log").string();
    const bool done =
        std::system(fmt::format("{} {}/tests/convert/megatron_peer.py {} {} >{} 2>&1", std::getenv("TRIREME_PEER_PYTHON"),
                                TRIREME_SOURCE_DIR, std::getenv("TRIREME_PEER_MEGATRON"), arguments, log)
                        .c_str()) == 0;
    if (!done) ADD_FAILURE() << read_file(log, 1 << 26);
    return done;
  }

  static double difference(const StoredCheckpoint& checkpoint, const PeerLogits& expected) {
    const std::vector<float> ours = logits_of(checkpoint, expected.tokens);
    EXPECT_EQ(ours.size(), expected.logits.size());
    double worst = 0;
    for (size_t i = 0; i < std::min(ours.size(), expected.logits.size()); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - expected.logits[i]));
    return worst;
  }

  TemporaryFolder folder_, logs_;
};

TEST_F(MegatronCheckpointPeer, SavesWhatWeImport) {
  for (const char* kind : {"gpt3", "llama", "gated"}) {
    std::map<std::string, std::vector<float>> first;
    for (const char* format : {"torch", "torch_dist"})
      for (const auto& [tensor_parallel, stages] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}}) {
        const std::string name = fmt::format("{}-{}-{}x{}", kind, format, tensor_parallel, stages);
        ASSERT_TRUE(
            run_peer(fmt::format("write {} {} {} {} {}", (folder_ / name).string(), kind, format, tensor_parallel, stages)));
        const StoredCheckpoint imported = import_megatron(folder_ / name, folder_ / (name + "-run"));
        if (stages == 1) {
          EXPECT_LE(difference(imported, PeerLogits(folder_ / name)), 1e-5) << name;
        }
        if (first.empty()) first = parameters_in(imported);
        EXPECT_EQ(parameters_in(imported), first) << name;
      }
  }
}

TEST_F(MegatronCheckpointPeer, LoadsWhatWeExport) {
  for (const char* kind : {"gpt3", "llama", "gated"}) {
    ASSERT_TRUE(run_peer(fmt::format("write {} {} torch 1 1", (folder_ / kind).string(), kind)));
    const StoredCheckpoint imported = import_megatron(folder_ / kind, folder_ / (std::string(kind) + "-run"));
    for (const int tensor_parallel : {1, 2}) {
      const std::filesystem::path exported = folder_ / fmt::format("{}-{}", kind, tensor_parallel);
      MegatronExport(imported, {.tensor_parallel = tensor_parallel, .names = MegatronNames::local}).write(exported);
      ASSERT_TRUE(run_peer(fmt::format("load {} {} {}", exported.string(), kind, tensor_parallel)));
      EXPECT_LE(difference(imported, PeerLogits(exported)), 1e-5) << exported;
    }
  }
}

// What torch.load accepts when it runs no code either.
TEST_F(MegatronCheckpointPeer, TorchLoadsItWithWeightsOnly) {
  const StoredCheckpoint made = make_checkpoint(folder_ / "run", small_settings(as_llama));
  MegatronExport(made, {.dtype = DType::bf16}).write(folder_ / "out");
  const std::string file = (folder_ / "out/release/mp_rank_00/model_optim_rng.pt").string();
  EXPECT_EQ(std::system(fmt::format("{} -c \"import torch; m = torch.load('{}', weights_only=True)['model']; "
                                    "assert m['decoder.layers.1.self_attention.linear_qkv.weight'].shape == (64, 24); "
                                    "assert m['embedding.word_embeddings.weight'].dtype == torch.bfloat16\"",
                                    std::getenv("TRIREME_PEER_PYTHON"), file)
                            .c_str()),
            0);
}

}  // namespace
}  // namespace trireme
