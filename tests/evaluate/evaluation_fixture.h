// A small model with a tokenizer of its own, always the same, and evaluations of it on the small files of tests/evaluate/data,
// which are in the formats of the published datasets.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "convert/convert_fixture.h"

namespace trireme {

inline const std::filesystem::path kEvaluationTests = std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/evaluate";
inline constexpr const char* kAllTasks =
    "lambada,hellaswag,piqa,winogrande,boolq,race,arc_easy,arc_challenge,wikitext2,wikitext103";

// Fewer positions than some of the texts have tokens.
constexpr int64_t kPositions = 80;

inline Settings evaluated_settings(const std::filesystem::path& tokenizer, const std::function<void(ModelSettings&)>& change) {
  return small_settings([&](ModelSettings& m) {
    m.vocab_size = 512;
    m.hidden_size = 32, m.num_attention_heads = 4, m.ffn_hidden_size = 64;
    m.encoder_seq_length = m.max_position_embeddings = kPositions;
    m.tokenizer.vocab_file = (tokenizer / "vocab.json").string();
    m.tokenizer.merge_file = (tokenizer / "merges.txt").string();
    change(m);
  });
}

// Writes FOLDER/tokenizer and FOLDER/run. The weights are smaller than those of convert_fixture.h, so that the log-likelihood of
// a long text, which is a sum in f32 on lm-eval's side, has its last digits below the tolerance.
inline void make_evaluated_run(
    const std::filesystem::path& folder, const std::function<void(ModelSettings&)>& change = [](ModelSettings&) {}) {
  const ProgramResult made =
      run_program(fmt::format("data train-tokenizer {}/recipes/demo-text/tales.txt --vocab-size 512 --output {}",
                              TRIREME_SOURCE_DIR, (folder / "tokenizer").string()));
  ASSERT_EQ(made.status, 0) << made.output;
  const auto shrink = [](const std::string& name, std::vector<float>& values) {
    if (name.ends_with("norm1.weight") || name.ends_with("norm2.weight") || name == "final_norm.weight") return;
    for (float& value : values) value *= 0.5f;
  };
  make_checkpoint(folder / "run/checkpoints", evaluated_settings(folder / "tokenizer", change), shrink);
}

inline nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path, 1 << 26)); }

inline std::filesystem::path only_file(const std::filesystem::path& folder, const std::string& beginning) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(beginning)) found.push_back(entry.path());
  EXPECT_EQ(found.size(), 1u) << beginning;
  return found.empty() ? folder : found.front();
}

// lm-eval sums log-likelihoods of tokens in f32 and takes them from logits in f32: the largest text here comes to some hundreds,
// whose last digit is 3e-5.
constexpr double kLikelihoodTolerance = 1e-4;

// Compares the files of an evaluation with what lm-eval found for the same model (lm_eval_peer.py).
inline void expect_scores(const std::filesystem::path& output, const nlohmann::json& peer) {
  const nlohmann::json results = read_json(only_file(output, "results_"));
  ASSERT_EQ(peer["tasks"].size(), results["results"].size());
  for (const auto& [task, expected] : peer["tasks"].items()) {
    SCOPED_TRACE(task);
    std::ifstream samples(only_file(output, fmt::format("samples_{}_", task)));
    size_t index = 0;
    for (std::string line; std::getline(samples, line); ++index) {
      SCOPED_TRACE(index);
      const nlohmann::json sample = nlohmann::json::parse(line), &responses = expected["responses"][index];
      ASSERT_EQ(sample["filtered_resps"].size(), responses.size());
      for (size_t i = 0; i < responses.size(); ++i) {
        const nlohmann::json& found = sample["filtered_resps"][i];
        const bool has_greedy = found.is_array();
        EXPECT_NEAR(std::stod((has_greedy ? found[0] : found).get<std::string>()), responses[i][0].get<double>(),
                    kLikelihoodTolerance);
        if (has_greedy) {
          EXPECT_EQ(found[1] == "True", responses[i][1].get<bool>());
        }
        const nlohmann::json &texts = sample["arguments"][fmt::format("gen_args_{}", i)],
                             &given = expected["arguments"][index][i];
        EXPECT_EQ(texts["arg_0"], given[0]);
        if (has_greedy) {
          EXPECT_EQ(texts["arg_1"], given[1]);
        }
      }
    }
    EXPECT_EQ(index, expected["responses"].size());
    for (const auto& [metric, value] : expected["metrics"].items()) {
      SCOPED_TRACE(metric);
      const nlohmann::json& found = results["results"][task][metric];
      if (metric.starts_with("perplexity_stderr")) continue;  // lm-eval draws samples at random for it
      const bool is_accuracy = metric.starts_with("acc");
      ASSERT_TRUE(found.is_number()) << found;
      // A perplexity moves by its own size times the error of the mean log-likelihood.
      EXPECT_NEAR(found.get<double>(), value.get<double>(), is_accuracy ? 1e-12 : kLikelihoodTolerance * value.get<double>());
    }
  }
}

}  // namespace trireme
