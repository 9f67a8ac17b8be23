// An evaluation task: a YAML file that says where its documents are, what is asked of the model for each, and what is measured.
// The keys have the names and meanings of lm-eval's task files where those have the same.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/text_template.h"

namespace trireme {

enum class TaskKind : uint8_t {
  multiple_choice,  // which of several texts is the likeliest
  last_words,       // how likely one text is after another, and whether it is what the model itself would write
  perplexity,       // how likely whole documents are, in windows as long as the model's context
};
enum class Metric : uint8_t { acc, acc_norm, acc_bytes, perplexity, word_perplexity, byte_perplexity, bits_per_byte };
const char* name_of(TaskKind kind);  // lm-eval's output_type
const char* name_of(Metric metric);
bool is_higher_better(Metric metric);

enum class DatasetFormat : uint8_t { jsonl, race, wikitext };

struct TaskDataset {
  std::string file;  // below the data folder: a file, or for race a folder
  DatasetFormat format = DatasetFormat::jsonl;
  std::string labels;  // a file with a line for each document, read as its field `label`; empty: none
  std::string from;    // where the public dataset is
  // The documents that solved examples are drawn from; empty: those of the task itself.
  std::string fewshot_file, fewshot_labels;
};

struct Task {
  std::string name;
  std::string summary;
  std::filesystem::path path;  // of its file
  std::string text;            // of its file
  TaskKind kind = TaskKind::multiple_choice;
  TaskDataset dataset;
  std::vector<Metric> metrics;

  TextTemplate context;  // doc_to_text
  TextTemplate target;   // doc_to_target
  // With several contexts the choices are what the target follows, instead of what follows the context.
  bool choices_are_contexts = false;
  std::vector<TextTemplate> choices;  // doc_to_choice as a list of templates,
  std::string choices_field;          // or the name of a field,
  std::vector<TextFilter> choice_filters;
  std::string target_delimiter = " ";
  std::string fewshot_delimiter = "\n\n";  // after each solved example
  bool fewshot_leaves_out = true;          // one example more is drawn, and the document that is asked is left out
  TextTemplate label;                      // of the right choice: its number, false or true,
  std::vector<std::string> labels;         // or one of these,
  std::string labels_field;                // or of the elements of this field
  TextTemplate counted;                    // whose words and bytes a perplexity is of
};

// Reads shipped tasks, or the paths of files. UserError in one line; `key` is where they are named.
std::vector<Task> load_tasks(const std::vector<std::string>& names_or_paths, const std::string& key);
std::vector<std::string> shipped_tasks();

}  // namespace trireme
