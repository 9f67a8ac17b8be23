// How texts become requests, and requests batches.
#include "evaluate/samples.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/tokenizer/load_tokenizer.h"
#include "evaluate/batches.h"
#include "evaluate/metrics.h"

namespace trireme {
namespace {

using Tokens = std::vector<int32_t>;

class Samples : public testing::Test {
 protected:
  const std::unique_ptr<Tokenizer> bytes_ = load_tokenizer("bytes");
  const ScoringText text_{.tokenizer = *bytes_, .prefix = 256, .most_tokens = 8};
};

TEST_F(Samples, WhiteSpaceAtTheEndOfTheContextIsTheContinuations) {
  const TokenPair pair = encode_pair(text_, "ab  ", "c");
  EXPECT_EQ(pair.context, (Tokens{'a', 'b'}));
  EXPECT_EQ(pair.continuation, (Tokens{' ', ' ', 'c'}));
}

TEST_F(Samples, ATextWithoutContextFollowsThePrefix) {
  EXPECT_EQ(encode_pair(text_, "", "ab").context, Tokens{256});
  EXPECT_EQ(encode_pair(text_, "", "ab").continuation, (Tokens{'a', 'b'}));
}

TEST_F(Samples, ATokenizerMayBeginEveryText) {
  ScoringText text = text_;
  text.begin = 7;
  EXPECT_EQ(encode_pair(text, "ab", "c").context, (Tokens{7, 'a', 'b'}));
  EXPECT_EQ(encode_pair(text, "ab", "c").continuation, Tokens{'c'});
  EXPECT_EQ(encode_pair(text, "", "c").continuation, Tokens{'c'}) << "after the prefix";
}

class FewShots : public Samples {
 protected:
  static TaskDocuments documents(int count) {
    TaskDocuments found{.file = "examples.jsonl"};
    for (int i = 0; i < count; ++i) {
      found.documents.push_back({{"q", fmt::format("q{}", i)}, {"a", {"yes", "no"}}, {"right", i % 2}});
      found.places.push_back(fmt::format("line {}", i + 1));
    }
    return found;
  }
  static Task task() {
    Task task{.name = "questions"};
    task.context = TextTemplate("t", "{{q}}?");
    task.choices_field = "a";
    task.label = TextTemplate("t", "{{right}}");
    return task;
  }
  std::vector<std::string> contexts(const Task& task, const TaskDocuments& examples) const {
    const ScoringText text{.tokenizer = *bytes_, .prefix = 256, .most_tokens = 1000};
    std::vector<std::string> found;
    for (const Sample& sample : make_samples(task, documents(2), text, {.count = 2}, examples).samples)
      found.push_back(sample.arguments[0].first);
    return found;
  }
};

// random.Random(1234).sample(range(10), 2) is [7, 1], and then [0, 1].
TEST_F(FewShots, AreDrawnAnewForEachDocument) {
  Task plain = task();
  plain.fewshot_leaves_out = false;
  EXPECT_EQ(contexts(plain, documents(10)), (std::vector<std::string>{"q7? no\n\nq1? no\n\nq0?", "q0? yes\n\nq1? no\n\nq1?"}));
  plain.fewshot_delimiter = "|";
  EXPECT_EQ(contexts(plain, documents(10))[0], "q7? no|q1? no|q0?");
}

// One more is drawn: [7, 1, 0], of which 0 is asked itself, and then [1, 0, 9], of which 1 is.
TEST_F(FewShots, LeaveOutTheDocumentItself) {
  EXPECT_EQ(contexts(task(), documents(10)), (std::vector<std::string>{"q7? no\n\nq1? no\n\nq0?", "q0? yes\n\nq9? no\n\nq1?"}));
}

TEST_F(FewShots, TooFewAreAUsersError) {
  EXPECT_THROW(contexts(task(), documents(2)), UserError);
  TaskDocuments alike = documents(1);  // all are the document that is asked first
  for (int i = 0; i < 3; ++i) alike.documents.push_back(alike.documents[0]), alike.places.push_back("line 1");
  EXPECT_THROW(contexts(task(), alike), UserError);
}

// The windows of lm_eval.utils.get_rolling_token_windows with make_disjoint_window, for tokens 0 to 9 and a model that reads 4.
TEST_F(Samples, WindowsScoreEachTokenOnce) {
  const std::vector<TokenPair> windows = rolling_windows(Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 100, 4);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].context, Tokens{100});
  EXPECT_EQ(windows[0].continuation, (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(windows[1].context, Tokens{3});
  EXPECT_EQ(windows[1].continuation, (Tokens{4, 5, 6, 7}));
  EXPECT_EQ(windows[2].context, (Tokens{5, 6, 7}));
  EXPECT_EQ(windows[2].continuation, (Tokens{8, 9}));
  EXPECT_TRUE(rolling_windows({}, 100, 4).empty());
}

ScoringRequest request(Tokens tokens, Tokens targets) { return {.tokens = std::move(tokens), .targets = std::move(targets)}; }

TEST(Batches, RequestsThatReadTheSameShareASequence) {
  const std::vector<ScoringRequest> requests = {request({1, 2, 3}, {7}), request({4, 5}, {5, 8}), request({1, 2, 3}, {9}),
                                                request(Tokens(20, 6), {1})};
  const std::vector<RequestBatch> batches = plan_batches(requests, {0, 1, 2, 3}, {.tokens = 64, .length = 64});
  ASSERT_EQ(batches.size(), 2u) << "the long one leaves room for one of the others only";
  EXPECT_EQ(batches[0].requests, (std::vector<size_t>{3, 0, 2}));
  EXPECT_EQ(batches[0].sequences, (std::vector<size_t>{0, 1, 1}));
  EXPECT_EQ(batches[0].shape, (ScoringShape{.B = 2, .T = 32, .M = 3}));
  const ScoringBatch batch = make_batch(requests, batches[0]);
  EXPECT_EQ(batch.rows, (Tokens{19, 34, 34}));
  EXPECT_EQ(batch.targets, (Tokens{1, 7, 9}));
  EXPECT_EQ(batch.tokens[34], 3);
  EXPECT_EQ(batch.tokens[35], 0);
  const std::vector<TokenScore> rows = {{-1, true}, {-2, false}, {-3, true}};
  const std::vector<RequestScore> scores = request_scores(requests, batches[0], rows);
  EXPECT_EQ(scores[1].log_likelihood, -2);
  EXPECT_FALSE(scores[1].is_greedy);
  EXPECT_TRUE(scores[2].is_greedy);
}

TEST(Batches, ASequenceLongerThanABatchIsAloneInIt) {
  const std::vector<ScoringRequest> requests = {request(Tokens(30, 1), {1}), request(Tokens(30, 2), {1})};
  const std::vector<RequestBatch> batches = plan_batches(requests, {0, 1}, {.tokens = 1, .length = 31});
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].shape.T, 31) << "never longer than what the model reads";
}

// numpy's argmax takes the first of equal values; lengths are characters, and bytes for acc_bytes.
TEST(Metrics, TheLikeliestPerCharacterCounts) {
  const Sample sample{.label = 1, .characters = {2, 4}, .bytes = {2, 8}};
  const std::vector<RequestScore> scores = {{.log_likelihood = -2}, {.log_likelihood = -3}};
  EXPECT_EQ(sample_metric(Metric::acc, sample, scores).value, 0);
  EXPECT_EQ(sample_metric(Metric::acc_norm, sample, scores).value, 1);
  const std::vector<RequestScore> equal = {{.log_likelihood = -1}, {.log_likelihood = -2}};
  EXPECT_EQ(sample_metric(Metric::acc_norm, sample, equal).value, 0) << "-1/2 twice";
  EXPECT_EQ(sample_metric(Metric::acc_bytes, sample, equal).value, 1);
}

TEST(Metrics, OneDocumentHasNoStandardError) {
  EXPECT_FALSE(aggregate(Metric::acc, std::vector<MetricPart>{{.value = 1}}).stderr_.has_value());
  const MetricResult words = aggregate(Metric::word_perplexity, std::vector<MetricPart>{{-4, 2}, {-2, 1}});
  EXPECT_DOUBLE_EQ(words.value, std::exp(2.0));
}

}  // namespace
}  // namespace trireme
