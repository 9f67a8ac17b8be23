#include "evaluate/evaluation.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/units.h"
#include "comm/control.h"
#include "evaluate/batches.h"
#include "evaluate/progress_file.h"

namespace trireme {
namespace {

// Of everything that the scores of a task depend on.
std::string fingerprint_of(const std::string& identity, const TaskSamples& samples) {
  Sha256 digest;
  digest.add(bytes_of(identity));
  for (const ScoringRequest& request : samples.requests)
    for (const std::vector<int32_t>* tokens : {&request.tokens, &request.targets}) {
      const size_t count = tokens->size();
      digest.add(std::as_bytes(std::span(&count, 1)));
      digest.add(std::as_bytes(std::span(*tokens)));
    }
  return digest.finish();
}

// Scores one task on all ranks.
class TaskRun {
 public:
  TaskRun(const EvaluationRequest& request, const Task& task, const std::vector<ScoringRequest>& requests, ScoringModel& model,
          World& world, const EvaluationHooks& hooks)
      : request_(request),
        task_(task),
        requests_(requests),
        model_(model),
        world_(world),
        hooks_(hooks),
        scores_(requests.size()) {}

  // Rank 0 knows what an earlier run has scored, and tells the others.
  int64_t restore(const std::string& fingerprint) {
    if (is_first() && !request_.output.empty()) {
      progress_.emplace(progress_path(request_, task_), fingerprint, scores_);
      if (progress_->is_of_other_work())
        hooks_.tell(fmt::format("{}: scores of an earlier evaluation of something else are dropped", task_.name));
    }
    std::string is_done(requests_.size(), '0');
    for (size_t i = 0; i < scores_.size(); ++i)
      if (scores_[i]) is_done[i] = '1';
    is_done = world_.control().share("scored", is_done);
    for (size_t i = 0; i < requests_.size(); ++i)
      if (is_done[i] == '0') pending_.push_back(i);
    return std::ssize(requests_) - std::ssize(pending_);
  }

  void run() {
    const std::vector<RequestBatch> batches =
        plan_batches(requests_, pending_, {.tokens = request_.batch_tokens, .length = request_.most_tokens});
    std::vector<ScoringShape> shapes;
    for (const RequestBatch& batch : batches) shapes.push_back(batch.shape);
    model_.prepare(shapes);
    // Copies of the model take turns, and rank 0 collects their scores now and then.
    const size_t copies = static_cast<size_t>(model_.copies()), own = static_cast<size_t>(model_.copy());
    const size_t together = copies * (world_.size() == 1 ? 1 : 8);
    for (size_t begin = 0; begin < batches.size(); begin += together) {
      std::string lines;
      for (size_t i = begin + own; i < std::min(batches.size(), begin + together); i += copies) lines += score(batches[i]);
      collect(lines);
    }
  }

  std::vector<RequestScore> scores() const {
    std::vector<RequestScore> all;
    for (const std::optional<RequestScore>& score : scores_) {
      CHECK(score.has_value());
      all.push_back(*score);
    }
    return all;
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  std::string score(const RequestBatch& planned) {
    const std::span<const TokenScore> rows = model_.score(make_batch(requests_, planned));
    std::string lines;
    if (!model_.reports()) return lines;
    const std::vector<RequestScore> scores = request_scores(requests_, planned, rows);
    for (size_t i = 0; i < scores.size(); ++i) lines += line_of(planned.requests[i], scores[i]);
    return lines;
  }

  void collect(const std::string& lines) {
    for (const std::string& of_rank : world_.control().gather("scores", lines)) {
      CHECK(read_lines(of_rank, scores_));
      done_ += std::ranges::count(of_rank, '\n');
      if (progress_) progress_->append(of_rank);
    }
    if (is_first()) hooks_.progress(task_.name, done_, std::ssize(pending_));
  }

  const EvaluationRequest& request_;
  const Task& task_;
  const std::vector<ScoringRequest>& requests_;
  ScoringModel& model_;
  World& world_;
  const EvaluationHooks& hooks_;
  ScoreTable scores_;  // on rank 0
  std::vector<size_t> pending_;
  std::optional<ProgressFile> progress_;
  int64_t done_ = 0;
};

std::vector<MetricResult> metrics_of(const Task& task, const TaskSamples& samples, std::span<const RequestScore> scores) {
  std::vector<MetricResult> results;
  for (const Metric metric : task.metrics) {
    std::vector<MetricPart> parts;
    for (const Sample& sample : samples.samples)
      parts.push_back(
          sample_metric(metric, sample, scores.subspan(sample.first_request, sample.end_request - sample.first_request)));
    results.push_back(aggregate(metric, parts));
  }
  return results;
}

// A score that is not a number would be written as one that cannot be read.
void require_finite(const Task& task, std::span<const RequestScore> scores) {
  const auto is_bad = [](const RequestScore& score) { return !std::isfinite(score.log_likelihood); };
  if (const int64_t bad = std::ranges::count_if(scores, is_bad); bad > 0)
    throw Failure("task {}: {} of {} log-likelihoods are not finite; the model's weights or their precision are at fault",
                  task.name, bad, scores.size());
}

}  // namespace

void require_files(const EvaluationRequest& request) {
  for (const Task& task : request.tasks)
    for (const Documents which : {Documents::asked, Documents::examples})
      if (which == Documents::asked || request.shots_of(task).count > 0)
        if (const std::string missing = missing_files(task, request.data, which); !missing.empty())
          throw UserError("{}", missing);
}

TaskWork prepare_task(const EvaluationRequest& request, const Task& task, const Tokenizer& tokenizer) {
  const ScoringText text{
      .tokenizer = tokenizer, .prefix = request.prefix, .most_tokens = request.most_tokens, .begin = request.begin};
  const FewShot shots = request.shots_of(task);
  const TaskDocuments examples = shots.count > 0 ? read_documents(task, request.data, 0, Documents::examples) : TaskDocuments{};
  TaskWork work{.documents = read_documents(task, request.data, request.limit), .samples = {}};
  work.samples = make_samples(task, work.documents, text, shots, examples);
  return work;
}

std::filesystem::path progress_path(const EvaluationRequest& request, const Task& task) {
  return request.output / fmt::format("progress_{}.jsonl", task.name);
}

std::vector<TaskResult> run_evaluation(const EvaluationRequest& request, const Tokenizer& tokenizer, const std::string& identity,
                                       ScoringModel& model, World& world, const EvaluationHooks& hooks) {
  const bool is_first = world.rank() == 0;
  if (is_first && !request.output.empty()) create_folders(request.output);
  std::vector<TaskResult> results;
  for (const Task& task : request.tasks) {
    const Stopwatch watch;
    auto [documents, samples] = prepare_task(request, task, tokenizer);
    TaskRun run(request, task, samples.requests, model, world, hooks);
    const int64_t before = run.restore(fingerprint_of(identity, samples));
    if (is_first && before > 0)
      hooks.tell(fmt::format("{}: {} of {} requests were scored before", task.name, before, samples.requests.size()));
    run.run();
    if (!is_first) continue;
    std::vector<RequestScore> scores = run.scores();
    require_finite(task, scores);
    std::vector<MetricResult> metrics = metrics_of(task, samples, scores);
    results.push_back({.task = task,
                       .documents = std::move(documents),
                       .samples = std::move(samples.samples),
                       .scores = std::move(scores),
                       .metrics = std::move(metrics),
                       .scored_before = before,
                       .shots = request.shots_of(task).count,
                       .seconds = watch.seconds()});
  }
  return results;
}

}  // namespace trireme
