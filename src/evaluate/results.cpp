#include "evaluate/results.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>

#include "base/build_info.h"
#include "base/json.h"
#include "base/sha256.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string sha256_of(const std::string& text) {
  Sha256 digest;
  digest.add(bytes_of(text));
  return digest.finish();
}

// A metric's key: lm-eval has filters, and its tasks without one name it none.
std::string key_of(const char* metric, const char* ending = "") { return fmt::format("{}{},none", metric, ending); }

// Python's float of a number, and its bool, as lm-eval writes both into the samples.
std::string python_text(double value) { return fmt::format("{}", value); }
const char* python_text(bool value) { return value ? "True" : "False"; }

Json responses_of(const TaskResult& result, const Sample& sample) {
  Json responses = Json::array();
  if (result.task.kind == TaskKind::perplexity) {
    double sum = 0;
    for (size_t i = sample.first_request; i < sample.end_request; ++i) sum += result.scores[i].log_likelihood;
    responses.push_back(python_text(sum));
    return responses;
  }
  for (size_t i = sample.first_request; i < sample.end_request; ++i)
    responses.push_back({python_text(result.scores[i].log_likelihood), python_text(result.scores[i].is_greedy)});
  return responses;
}

Json sample_json(const TaskResult& result, size_t index) {
  const Sample& sample = result.samples[index];
  const Document& document = result.documents.documents[index];
  Json arguments, responses = responses_of(result, sample), wrapped = Json::array(), metrics = Json::array();
  for (size_t i = 0; i < sample.arguments.size(); ++i) {
    const auto& [context, continuation] = sample.arguments[i];
    Json& named = arguments[fmt::format("gen_args_{}", i)] = {{"arg_0", context}};
    if (result.task.kind != TaskKind::perplexity) named["arg_1"] = continuation;
  }
  for (const Json& response : responses) wrapped.push_back(Json::array({response}));
  for (const Metric metric : result.task.metrics) metrics.push_back(name_of(metric));
  Json json{{"doc_id", index},
            {"doc", document},
            {"target", sample.target},
            {"arguments", std::move(arguments)},
            {"resps", std::move(wrapped)},
            {"filtered_resps", std::move(responses)},
            {"filter", "none"},
            {"metrics", std::move(metrics)},
            {"doc_hash", sha256_of(json_text(document))},
            {"prompt_hash", sha256_of(sample.arguments[0].first)},
            {"target_hash", sha256_of(sample.target)}};
  const std::span scores = std::span(result.scores).subspan(sample.first_request, sample.end_request - sample.first_request);
  for (const Metric metric : result.task.metrics) {
    const MetricPart part = sample_metric(metric, sample, scores);
    const bool is_weighted = result.task.kind == TaskKind::perplexity;
    json[name_of(metric)] = is_weighted ? Json::array({part.value, static_cast<int64_t>(part.weight)}) : Json(part.value);
  }
  return json;
}

// A name that can be part of a path.
std::string sanitized(std::string name) {
  for (char& c : name)
    if (std::string_view("\"<>:/|\\?*[] ").find(c) != std::string_view::npos) c = '_';
  return name;
}

std::string date_of(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  return fmt::format("{:%Y-%m-%dT%H-%M-%S}.{:06d}", fmt::gmtime(whole),
                     static_cast<int64_t>((seconds - static_cast<double>(whole)) * 1e6));
}

}  // namespace

Json results_json(const EvaluationFacts& facts, const std::vector<TaskResult>& results) {
  Json scores, subtasks, configs, versions, shots, directions, counts;
  for (const TaskResult& result : results) {
    const std::string& name = result.task.name;
    Json& task = scores[name] = {{"alias", name}};
    for (const MetricResult& metric : result.metrics) {
      task[key_of(name_of(metric.metric))] = metric.value;
      task[key_of(name_of(metric.metric), "_stderr")] = metric.stderr_ ? Json(*metric.stderr_) : Json("N/A");
      directions[name][name_of(metric.metric)] = is_higher_better(metric.metric);
    }
    subtasks[name] = Json::array();
    configs[name] = {{"task", name},
                     {"dataset_path", result.documents.file.string()},
                     {"dataset_sha256", result.documents.digest},
                     {"output_type", name_of(result.task.kind)},
                     {"task_file", result.task.text}};
    versions[name] = nullptr;
    shots[name] = result.shots;
    counts[name] = {{"original", result.documents.documents.size()}, {"effective", result.samples.size()}};
  }
  return {{"results", scores},
          {"group_subtasks", subtasks},
          {"configs", configs},
          {"versions", versions},
          {"n-shot", shots},
          {"higher_is_better", directions},
          {"n-samples", counts},
          {"config",
           {{"model", "trireme"},
            {"model_args", fmt::format("pretrained={}", facts.model)},
            {"model_num_parameters", facts.parameters},
            {"model_dtype", facts.dtype},
            {"step", facts.step < 0 ? Json(nullptr) : Json(facts.step)},
            {"ranks", facts.ranks},
            {"batch_tokens", facts.batch_tokens},
            {"device", facts.device},
            {"limit", facts.limit == 0 ? Json(nullptr) : Json(facts.limit)},
            {"fewshot_seed", facts.fewshot_seed}}},
          {"git_hash", kCommit},
          {"date", facts.start},
          {"max_length", facts.most_tokens},
          {"model_source", "trireme"},
          {"model_name", facts.model},
          {"model_name_sanitized", sanitized(facts.model)},
          {"start_time", facts.start},
          {"end_time", facts.end},
          {"total_evaluation_time_seconds", fmt::format("{}", facts.end - facts.start)}};
}

std::string results_table(const std::vector<TaskResult>& results) {
  size_t task_width = 4;
  for (const TaskResult& result : results) task_width = std::max(task_width, result.task.name.size());
  std::string text =
      fmt::format("{:<{}}  {:<15}  {:>10}  {:>8}  {:>9}\n", "task", task_width, "metric", "value", "stderr", "documents");
  for (const TaskResult& result : results)
    for (const MetricResult& metric : result.metrics)
      text += fmt::format("{:<{}}  {:<15}  {:>10.4f}  {:>8}  {:>9}\n", result.task.name, task_width, name_of(metric.metric),
                          metric.value, metric.stderr_ ? fmt::format("{:.4f}", *metric.stderr_) : "", result.samples.size());
  return text;
}

std::filesystem::path write_results(const EvaluationRequest& request, const EvaluationFacts& facts,
                                    const std::vector<TaskResult>& results) {
  const std::string date = date_of(facts.end);
  Json json = results_json(facts, results), hashes;
  for (const TaskResult& result : results) {
    std::string lines, hashed;
    for (size_t i = 0; i < result.samples.size(); ++i) {
      const Json sample = sample_json(result, i);
      lines += json_text(sample, kOneLine) + '\n';
      for (const char* hash : {"doc_hash", "prompt_hash", "target_hash"}) hashed += sample[hash].get<std::string>();
    }
    atomic_write(request.output / fmt::format("samples_{}_{}.jsonl", result.task.name, date), bytes_of(lines));
    hashes[result.task.name] = sha256_of(hashed);
  }
  json["task_hashes"] = hashes;
  std::filesystem::path path = request.output / fmt::format("results_{}.json", date);
  atomic_write(path, bytes_of(json_text(json)));
  for (const TaskResult& result : results) std::filesystem::remove(progress_path(request, result.task));
  return path;
}

}  // namespace trireme
