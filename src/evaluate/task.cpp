#include "evaluate/task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "config/catalogue.h"
#include "config/suggestions.h"
#include "config/yaml.h"

namespace trireme {
namespace {

constexpr const char* kCatalogue = "tasks";
constexpr int64_t kLargestTask = 1 << 20;

constexpr std::array<std::pair<const char*, TaskKind>, 3> kKinds{{{"multiple_choice", TaskKind::multiple_choice},
                                                                  {"loglikelihood", TaskKind::last_words},
                                                                  {"loglikelihood_rolling", TaskKind::perplexity}}};

struct MetricRow {
  const char* name;
  Metric metric;
  TaskKind kind;
  bool also_of_last_words = false;
};
constexpr std::array<MetricRow, 7> kMetrics{{{"acc", Metric::acc, TaskKind::multiple_choice, true},
                                             {"acc_norm", Metric::acc_norm, TaskKind::multiple_choice},
                                             {"acc_bytes", Metric::acc_bytes, TaskKind::multiple_choice},
                                             {"perplexity", Metric::perplexity, TaskKind::last_words},
                                             {"word_perplexity", Metric::word_perplexity, TaskKind::perplexity},
                                             {"byte_perplexity", Metric::byte_perplexity, TaskKind::perplexity},
                                             {"bits_per_byte", Metric::bits_per_byte, TaskKind::perplexity}}};

constexpr std::array<std::pair<const char*, DatasetFormat>, 3> kFormats{
    {{"jsonl", DatasetFormat::jsonl}, {"race", DatasetFormat::race}, {"wikitext", DatasetFormat::wikitext}}};

const std::vector<std::string> kKeys = {
    "task",  "summary", "output_type", "dataset", "doc_to_text", "doc_to_target", "doc_to_choice",     "target_delimiter",
    "label", "labels",  "counted",     "filters", "metric_list", "metadata",      "fewshot_delimiter", "fewshot_leaves_out"};
const std::vector<std::string> kDatasetKeys = {"file", "format", "labels", "from", "fewshot_file", "fewshot_labels"};

// Reads the keys of one file.
class TaskReader {
 public:
  explicit TaskReader(const std::filesystem::path& path) : file_(path.string()), tree_(read_yaml_file(path.string())) {
    if (!tree_.is_map()) throw UserError("{}: a task has keys, such as task and output_type", file_);
    task_.path = path;
    task_.text = read_file(path, kLargestTask);
    require_known(tree_, kKeys, "");
  }

  Task read() {
    task_.name = text("task", path_stem());
    task_.summary = text("summary", "");
    task_.kind = one_of("output_type", kKinds);
    read_dataset();
    read_metrics();
    task_.target_delimiter = text("target_delimiter", " ");
    task_.fewshot_delimiter = text("fewshot_delimiter", "\n\n");
    task_.fewshot_leaves_out = truth("fewshot_leaves_out", true);
    switch (task_.kind) {
      case TaskKind::multiple_choice:
        read_choices();
        break;
      case TaskKind::last_words:
        require_only("doc_to_text", "doc_to_target");
        task_.context = whole("doc_to_text"), task_.target = whole("doc_to_target");
        break;
      case TaskKind::perplexity:
        require_only("doc_to_target", "counted");
        task_.target = whole("doc_to_target");
        task_.counted = tree_.find("counted") != nullptr ? whole("counted") : task_.target;
    }
    return std::move(task_);
  }

 private:
  std::string where(const std::string& key) const { return fmt::format("{}: {}", file_, key); }
  std::string path_stem() const { return task_.path.stem().string(); }

  void require_known(const Tree& map, const std::vector<std::string>& keys, const std::string& prefix) const {
    for (const Tree::Entry& entry : map.map())
      if (std::ranges::find(keys, entry.key) == keys.end())
        throw UserError("{}: {}{} is not a key of a task{}; use {}", file_, prefix, entry.key, did_you_mean(entry.key, keys),
                        fmt::join(keys, ", "));
  }

  const Tree& required(const std::string& key) const {
    const Tree* value = tree_.find(key);
    if (value == nullptr || value->is_null())
      throw UserError("{}: {} is missing{}", file_, key,
                      key == "output_type" ? "; use multiple_choice, loglikelihood or loglikelihood_rolling" : "");
    return *value;
  }

  std::string text(const std::string& key, const std::string& otherwise) const {
    const Tree* value = tree_.find(key);
    if (value == nullptr || value->is_null()) return otherwise;
    if (value->is_list() || value->is_map()) throw UserError("{}: expected a text", where(key));
    return value->text();
  }

  bool truth(const std::string& key, bool otherwise) const {
    const std::string given = text(key, otherwise ? "true" : "false");
    if (given != "true" && given != "false") throw UserError("{}: expected true or false, not {}", where(key), given);
    return given == "true";
  }

  template <class Value, size_t count>
  Value one_of(const std::string& key, const std::array<std::pair<const char*, Value>, count>& names) const {
    const std::string given = required(key).text();
    std::vector<std::string> known;
    for (const auto& [name, value] : names) {
      if (given == name) return value;
      known.emplace_back(name);
    }
    throw UserError("{}: {} is not known{}; use {}", where(key), given, did_you_mean(given, known), fmt::join(known, ", "));
  }

  void read_dataset() {
    const Tree& dataset = required("dataset");
    if (!dataset.is_map()) throw UserError("{}: expected {{file: NAME}}", where("dataset"));
    require_known(dataset, kDatasetKeys, "dataset.");
    task_.dataset = {.file = required("dataset.file").text(),
                     .labels = text("dataset.labels", ""),
                     .from = text("dataset.from", ""),
                     .fewshot_file = text("dataset.fewshot_file", ""),
                     .fewshot_labels = text("dataset.fewshot_labels", "")};
    if (tree_.find("dataset.format") != nullptr) task_.dataset.format = one_of("dataset.format", kFormats);
    if (!task_.dataset.labels.empty() && task_.dataset.format != DatasetFormat::jsonl)
      throw UserError("{}: only format jsonl has a file of labels", where("dataset.labels"));
  }

  // Names, or lm-eval's {metric: name, ...}.
  void read_metrics() {
    const Tree& list = required("metric_list");
    if (!list.is_list() || list.list().empty()) throw UserError("{}: expected a list of metrics", where("metric_list"));
    for (const Tree& entry : list.list()) {
      const Tree* named = entry.is_map() ? entry.find("metric") : &entry;
      task_.metrics.push_back(metric_named(named == nullptr ? "" : named->text()));
    }
  }

  Metric metric_named(const std::string& name) const {
    std::vector<std::string> fitting;
    for (const MetricRow& row : kMetrics) {
      if (row.kind != task_.kind && !(row.also_of_last_words && task_.kind == TaskKind::last_words)) continue;
      if (name == row.name) return row.metric;
      fitting.emplace_back(row.name);
    }
    throw UserError("{}: {} is not a metric of {}; use {}", where("metric_list"), name, name_of(task_.kind),
                    fmt::join(fitting, ", "));
  }

  std::vector<TextFilter> filters_of(const std::string& key) const {
    const Tree* filters = tree_.find("filters." + key);
    return filters == nullptr ? std::vector<TextFilter>{} : read_filters(where("filters." + key), *filters);
  }

  // A name without braces is a field, as in lm-eval.
  TextTemplate whole(const std::string& key) const {
    const Tree& value = required(key);
    if (value.is_list() || value.is_map()) throw UserError("{}: expected a text with {{{{fields}}}}", where(key));
    return {where(key), value.text(), filters_of(key)};
  }

  void read_choices() {
    task_.choices_are_contexts = tree_.find("doc_to_target") != nullptr;
    if (task_.choices_are_contexts)
      task_.target = whole("doc_to_target");
    else
      task_.context = whole("doc_to_text");
    if (task_.choices_are_contexts && tree_.find("doc_to_text") != nullptr)
      throw UserError(
          "{}: doc_to_text and doc_to_target are both given; with doc_to_target the choices are the contexts, and the "
          "right one is given by label",
          file_);
    const Tree& choices = required("doc_to_choice");
    if (choices.is_list())
      for (const Tree& choice : choices.list()) task_.choices.emplace_back(where("doc_to_choice"), choice.text());
    else
      task_.choices_field = choices.text();
    if (!choices.is_list() && task_.choices_field.find_first_of("{} ") != std::string::npos)
      throw UserError("{}: expected a list of templates, or the name of a field that is a list", where("doc_to_choice"));
    task_.choice_filters = filters_of("doc_to_choice");
    task_.label = whole("label");
    if (const Tree* labels = tree_.find("labels"); labels != nullptr && labels->is_list())
      for (const Tree& label : labels->list()) task_.labels.push_back(label.text());
    else
      task_.labels_field = text("labels", "");
    require_only("", "");
  }

  // Of the keys that only some kinds of tasks have.
  void require_only(const std::string& first, const std::string& second) const {
    if (task_.kind == TaskKind::multiple_choice) {
      if (tree_.find("counted") != nullptr) throw UserError("{} is only for loglikelihood_rolling", where("counted"));
      return;
    }
    for (const char* key : {"doc_to_text", "doc_to_target", "doc_to_choice", "label", "labels", "counted"})
      if (tree_.find(key) != nullptr && key != first && key != second && !text(key, "").empty())
        throw UserError("{} is not a key of {} tasks; they have {} and {}", where(key), name_of(task_.kind), first, second);
  }

  std::string file_;
  Tree tree_;
  Task task_;
};

Task load_task(const std::string& name_or_path, const std::string& key) {
  if (const std::vector<std::string> known = shipped_tasks();
      !name_or_path.ends_with(".yaml") && !name_or_path.ends_with(".yml") && name_or_path.find('/') == std::string::npos &&
      std::ranges::find(known, name_or_path) == known.end())
    throw UserError("task {} is not known{}; use {}, or the path of a YAML file like those in {}", name_or_path,
                    did_you_mean(name_or_path, known), fmt::join(known, ", "), kCatalogue);
  return TaskReader(find_in_catalogue(kCatalogue, name_or_path, key)).read();
}

}  // namespace

const char* name_of(TaskKind kind) { return std::ranges::find(kKinds, kind, &std::pair<const char*, TaskKind>::second)->first; }

const char* name_of(Metric metric) { return std::ranges::find(kMetrics, metric, &MetricRow::metric)->name; }

bool is_higher_better(Metric metric) {
  return metric == Metric::acc || metric == Metric::acc_norm || metric == Metric::acc_bytes;
}

std::vector<Task> load_tasks(const std::vector<std::string>& names_or_paths, const std::string& key) {
  std::vector<Task> tasks;
  for (const std::string& name : names_or_paths) {
    tasks.push_back(load_task(name, key));
    const auto same = [&](const Task& task) { return task.name == tasks.back().name; };
    if (std::ranges::count_if(tasks, same) > 1) throw UserError("{}: {} is there twice", key, tasks.back().name);
  }
  return tasks;
}

std::vector<std::string> shipped_tasks() { return catalogue_names(kCatalogue); }

}  // namespace trireme
