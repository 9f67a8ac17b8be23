// EleutherAI's lm-eval scores the models that we export, and finds what trireme evaluate finds. Needs a Python with lm_eval,
// torch and transformers, which TRIREME_PEER_PYTHON names. tests/evaluate/golden.json is what it wrote for the first model.
#include "evaluate/evaluation_fixture.h"
#include "support/skip.h"

namespace trireme {
namespace {

class LmEvalPeer : public testing::Test {
 protected:
  void SetUp() override {
    const char* python = std::getenv("TRIREME_PEER_PYTHON");
    if (python == nullptr || run_shell(fmt::format("{} -c 'import lm_eval'", python)).status != 0)
      SKIP_FOR(peer) << "set TRIREME_PEER_PYTHON to a Python with lm_eval, torch and transformers";
  }

  void must(const std::string& command) {
    const ProgramResult result = run_shell(command);
    ASSERT_EQ(result.status, 0) << command << "\n" << result.output;
  }
  void peer(const std::string& arguments) {
    must(fmt::format("{} {}/lm_eval_peer.py {}", std::getenv("TRIREME_PEER_PYTHON"), kEvaluationTests.string(), arguments));
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void export_model(const std::function<void(ModelSettings&)>& change) {
    make_evaluated_run(folder_.path(), change);
    must(fmt::format("{} export {} --to hf --output {}", TRIREME_BINARY, path("run"), path("hf")));
  }
  void compare(const std::string& model, int shots = 0) {
    const std::string output = fmt::format("{}-{}-shots", model, shots), found = path(fmt::format("{}.json", shots)),
                      more = fmt::format("--num-fewshot {}", shots);
    if (!std::filesystem::exists(found))
      peer(fmt::format("{} {}/data {} {}", path(model == "run" ? "hf" : model), kEvaluationTests.string(), found, more));
    must(fmt::format("{} evaluate {} --data {}/data --tasks {} --output {} --threads 1 {}", TRIREME_BINARY, path(model),
                     kEvaluationTests.string(), kAllTasks, path(output), more));
    expect_scores(path(output), read_json(found));
  }

  TemporaryFolder folder_;
};

TEST_F(LmEvalPeer, ScoresGpt2) {
  export_model([](ModelSettings&) {});
  compare("run");
  compare("hf");
  compare("run", 2);
}
TEST_F(LmEvalPeer, ScoresLlama) {
  export_model(as_llama);
  compare("run");
  compare("hf", 1);
}
// A token of the tokenizer's own comes before every text.
TEST_F(LmEvalPeer, ScoresAfterABeginToken) {
  export_model(as_llama);
  peer(fmt::format("--with-begin-token {} {}", path("hf"), path("begins")));
  compare("begins");
  compare("begins", 1);
}

}  // namespace
}  // namespace trireme
