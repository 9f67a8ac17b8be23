// Every whole number that a setting accepts ends in a run or in a line for the user, never in a failed check of ours. A dry run
// is enough: it plans a whole step, shape by shape.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(SettingsLimits, NoneEndsInACheck) {
  const TemporaryFolder folder;
  const std::string recipe = folder.write("small.yaml",
                                          "trainer: {precision: 32, max_steps: 4, threads: 1}\n"
                                          "model:\n"
                                          "  micro_batch_size: 1\n  global_batch_size: 4\n  encoder_seq_length: 16\n"
                                          "  max_position_embeddings: 16\n  num_layers: 2\n  hidden_size: 32\n"
                                          "  ffn_hidden_size: 128\n  num_attention_heads: 4\n  vocab_size: 300\n"
                                          "  data: {data_impl: mock}\n");
  const auto keys = nlohmann::json::parse(run_program("config --keys --json").output);
  const std::regex range("^an integer from (-?\\d+) to (\\d+)");
  int64_t tried = 0;
  for (const auto& setting : keys) {
    const std::string key = setting.at("key"), accepts = setting.at("accepts");
    std::smatch limits;
    // As many threads as there may be would take those of everything else on the machine.
    if (!std::regex_search(accepts, limits, range) || key == "trainer.threads") continue;
    for (const std::string& value : {limits[1].str(), limits[2].str()}) {
      const auto result = run_program(fmt::format("train {} exp_manager.explicit_log_dir={} --dry-run ++{}={}", recipe,
                                                  (folder / "run").string(), key, value),
                                      "timeout 3");  // some plan for minutes, which is not what is looked at
      EXPECT_TRUE(result.output.find("bug of trireme") == std::string::npos && result.status < 128)
          << key << "=" << value << ": " << result.status << ", " << result.output;
      ++tried;
    }
  }
  EXPECT_GT(tried, 50) << "the list of keys says what they accept";
}

}  // namespace
}  // namespace trireme
