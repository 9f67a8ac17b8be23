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

  void compare(const std::function<void(ModelSettings&)>& change) {
    make_evaluated_run(folder_.path(), change);
    const std::string run = (folder_ / "run").string(), exported = (folder_ / "hf").string(),
                      peer = (folder_ / "peer.json").string();
    for (const std::string& command : {fmt::format("{} export {} --to hf --output {}", TRIREME_BINARY, run, exported),
                                       fmt::format("{} {}/lm_eval_peer.py {} {}/data {}", std::getenv("TRIREME_PEER_PYTHON"),
                                                   kEvaluationTests.string(), exported, kEvaluationTests.string(), peer)}) {
      const ProgramResult result = run_shell(command);
      ASSERT_EQ(result.status, 0) << result.output;
    }
    for (const std::string& model : {run, exported}) {
      const std::string output = model + "-scores";
      const ProgramResult result = run_program(fmt::format("evaluate {} --data {}/data --tasks {} --output {} --threads 1", model,
                                                           kEvaluationTests.string(), kAllTasks, output));
      ASSERT_EQ(result.status, 0) << result.output;
      expect_scores(output, read_json(peer));
    }
  }

  TemporaryFolder folder_;
};

TEST_F(LmEvalPeer, ScoresGpt2) {
  compare([](ModelSettings&) {});
}
TEST_F(LmEvalPeer, ScoresLlama) { compare(as_llama); }

}  // namespace
}  // namespace trireme
