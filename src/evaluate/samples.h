// What a task asks of the model: for every document, which tokens are scored after which others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "evaluate/dataset.h"

namespace trireme {

// One sequence to score: the model reads `tokens`, and the last of them are followed by `targets`.
struct ScoringRequest {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;

  size_t first_row() const { return tokens.size() - targets.size(); }  // the row that predicts the first target
};

struct RequestScore {
  double log_likelihood = 0;  // of all targets
  bool is_greedy = false;     // each is the likeliest token
};

struct Sample {
  std::vector<std::pair<std::string, std::string>> arguments;  // context and continuation; a whole text has one of them
  size_t first_request = 0, end_request = 0;
  std::string target;                      // as the samples file shows it
  int64_t label = -1;                      // of multiple choice
  std::vector<int64_t> characters, bytes;  // of each choice
  int64_t counted_words = 0, counted_bytes = 0;
};

struct TaskSamples {
  std::vector<Sample> samples;  // by document
  std::vector<ScoringRequest> requests;
};

// How texts become tokens.
struct ScoringText {
  const Tokenizer& tokenizer;
  int32_t prefix = 0;                 // the token that comes before a text without a context
  int64_t most_tokens = 0;            // that the model reads at once
  std::optional<int32_t> begin = {};  // the token that the tokenizer puts before every text

  std::vector<int32_t> encode(std::string_view text) const;  // with it
};

// Solved examples before each question.
struct FewShot {
  int64_t count = 0;
  uint64_t seed = 1234;  // lm-eval's
};

// UserError, naming the file and the place, for a document that lacks what the task reads.
TaskSamples make_samples(const Task& task, const TaskDocuments& documents, const ScoringText& text);
// The same with solved examples, which lm-eval's generator draws anew for each document. UserError if there are too few.
TaskSamples make_samples(const Task& task, const TaskDocuments& documents, const ScoringText& text, const FewShot& shots,
                         const TaskDocuments& examples);

// The tokens of a continuation and what comes before them, as lm-eval divides them: the tokens of both together, after as many as
// the context alone has. White space at the end of the context counts as the continuation's.
struct TokenPair {
  std::vector<int32_t> context, continuation;
};
TokenPair encode_pair(const ScoringText& text, std::string_view context, std::string_view continuation);

// Windows over a long text, each token scored once: the first window begins with the prefix, and later ones are as long as the
// model's context.
std::vector<TokenPair> rolling_windows(std::span<const int32_t> tokens, int32_t prefix, int64_t most_tokens);

}  // namespace trireme
