// transformers and PEFT fine-tune the models that we export, and come to our losses; adapters go from PEFT to us and back. Needs
// a Python with torch, transformers and peft, which TRIREME_PEER_PYTHON names. finetune/golden.json and finetune/adapter are what
// it wrote for the first model.
#include "support/skip.h"
#include "train/finetune_fixture.h"

namespace trireme {
namespace {

class FinetunePeer : public testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("TRIREME_PEER_PYTHON");
    if (python == nullptr || run_shell(fmt::format("{} -c 'import peft, transformers'", python)).status != 0)
      SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python with peft, torch and transformers";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void must(const std::string& command) {
    const ProgramResult result = run_shell(command);
    ASSERT_EQ(result.status, 0) << command << "\n" << result.output;
  }
  void peer(const std::string& arguments) {
    must(fmt::format("{} {}/tests/train/finetune_peer.py {}", std::getenv("TRIREME_PEER_PYTHON"), TRIREME_SOURCE_DIR, arguments));
  }

  void compare(const std::function<void(ModelSettings&)>& change, const std::string& targets) {
    make_evaluated_run(folder_.path(), change);
    const std::string chats = (kFinetuneTests / "chats.jsonl").string(), program = TRIREME_BINARY;
    must(program + " export " + path("run") + " --to hf --output " + path("hf"));
    peer("full " + path("hf") + " " + chats + " " + path("full.json"));
    must(program + " " + finetune_arguments(path("run"), path("full")));
    expect_losses(losses_of(folder_ / "full"), read_json(path("full.json"))["losses"].get<std::vector<double>>());

    peer("adapter " + path("hf") + " " + path("adapter") + " " + targets);
    peer("lora " + path("hf") + " " + chats + " " + path("lora.json") + " " + path("adapter"));
    must(program + " " + finetune_arguments(path("run"), path("lora"), lora_arguments(path("adapter"))));
    const nlohmann::json expected = read_json(path("lora.json"));
    expect_losses(losses_of(folder_ / "lora"), expected["losses"].get<std::vector<double>>());

    // Our adapters after the last step are PEFT's, and what PEFT computes with ours is what the merged model computes here.
    must(program + " export " + path("lora") + " --to peft --output " + path("ours"));
    peer("logits " + path("hf") + " " + path("logits.json") + " " + path("ours"));
    const nlohmann::json with_ours = read_json(path("logits.json"));
    const std::vector<int32_t> tokens = with_ours["tokens"].get<std::vector<int32_t>>();
    const std::vector<float> merged = logits_of(*open_named_checkpoint(folder_ / "lora").checkpoint, tokens);
    ASSERT_EQ(merged.size(), with_ours["logits"].size());
    for (size_t i = 0; i < merged.size(); ++i) ASSERT_NEAR(merged[i], with_ours["logits"][i].get<double>(), 1e-4) << i;
  }

  TemporaryFolder folder_;
};

TEST_F(FinetunePeer, Gpt2) {
  compare([](ModelSettings&) {}, "attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj");
}
TEST_F(FinetunePeer, Llama) { compare(as_llama, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"); }
TEST_F(FinetunePeer, GptNeoX) {
  compare(as_neox, "attention.query_key_value,attention.dense,mlp.dense_h_to_4h,mlp.dense_4h_to_h");
}

}  // namespace
}  // namespace trireme
