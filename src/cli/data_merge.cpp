// trireme data merge and split: make datasets from datasets.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/data_commands.h"
#include "cli/data_progress.h"
#include "data/indexed/indexed_dataset.h"
#include "data/indexed/indexed_tools.h"
#include "train/stop_signal.h"

namespace trireme {
namespace {

struct CopyArguments {
  std::vector<std::string> inputs;
  std::string output;
  std::string splits = "98,1,1";
  bool overwrite = false;
  bool dry_run = false;
  bool json = false;

  Replace replace() const { return overwrite ? Replace::yes : Replace::no; }
};

nlohmann::ordered_json json_of(const std::string& output, const CopyTotals& totals) {
  return {{"output", output}, {"documents", totals.documents}, {"sequences", totals.sequences}, {"tokens", totals.tokens}};
}

void report(const CopyArguments& arguments, const nlohmann::ordered_json& outputs) {
  if (arguments.json) {
    print_json(outputs);
    return;
  }
  for (const auto& output : outputs)
    fmt::print("{}{}: {}, {}\n", arguments.dry_run ? "would write " : "", output["output"].get<std::string>(),
               plural(output["documents"].get<int64_t>(), "document"), plural(output["tokens"].get<int64_t>(), "token"));
}

// Shows progress. A signal ends the copy, which then leaves no files.
class StoppableProgress {
 public:
  StoppableProgress(const std::string& what, int64_t bytes) : progress_(what, bytes) {}
  std::function<void(int64_t)> hook() const {
    return [this](int64_t done) {
      if (const char* name = signal_.received()) throw Failure("stopped by {}; nothing was written", name);
      progress_(done);
    };
  }

 private:
  StopSignal signal_;
  mutable DataProgress progress_;
};

int merge(const CopyArguments& arguments) {
  int64_t bytes = 0;
  CopyTotals planned;
  for (const std::string& prefix : arguments.inputs) {
    const IndexedDataset input(prefix);
    bytes += input.bin_bytes();
    planned.documents += input.documents();
    planned.sequences += input.sequences();
    planned.tokens += input.tokens();
  }
  if (!arguments.dry_run) {
    const StoppableProgress progress("merging", bytes);
    planned = merge_datasets(arguments.inputs, arguments.output, arguments.replace(), progress.hook());
  }
  report(arguments, nlohmann::ordered_json::array({json_of(arguments.output, planned)}));
  return kDone;
}

int split(const CopyArguments& arguments) {
  const IndexedDataset input(arguments.inputs.front());
  SplitFractions fractions;
  try {
    fractions = parse_splits(arguments.splits);
  } catch (const UserError&) {
    throw UserError("--splits {} is not one to three weights of train, validation and test, such as 98,1,1", arguments.splits);
  }
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  for (const Split part : kAllSplits) {
    const Range documents = split_range(fractions, part, input.documents());
    if (documents.count() == 0) continue;
    const std::string output = fmt::format("{}_{}", arguments.output, name_of(part));
    const Range sequences{input.document_start(documents.begin), input.document_start(documents.end)};
    CopyTotals totals{.sequences = sequences.count(), .documents = documents.count(), .tokens = input.tokens(sequences)};
    if (!arguments.dry_run) {
      const StoppableProgress progress(output, totals.tokens * size_of(input.type()));
      totals = copy_documents(input.prefix(), documents, output, arguments.replace(), progress.hook());
    }
    outputs.push_back(json_of(output, totals));
  }
  report(arguments, outputs);
  return kDone;
}

void add_copy_options(CLI::App& command, CopyArguments& arguments, const char* output_help) {
  command.add_option("-o,--output", arguments.output, output_help)->required();
  command.add_flag("--overwrite", arguments.overwrite, "replace what is there");
  command.add_flag("--dry-run", arguments.dry_run, "say what would be written");
  command.add_flag("--json", arguments.json, "print JSON");
}

}  // namespace

void add_data_merge_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<CopyArguments>();
  CLI::App* command =
      data.add_subcommand("merge",
                          "Join Megatron datasets into one, in the order given, as Megatron's own tool does.\n\n"
                          "examples:  trireme data merge --output all_text_document part_0_text_document part_1_text_document\n");
  command->add_option("inputs", arguments->inputs, "datasets: their names without .bin and .idx, or with one of them")
      ->required();
  add_copy_options(*command, *arguments, "the new dataset, without .bin and .idx");
  command->callback([arguments, &status] { status = merge(*arguments); });
}

void add_data_split_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<CopyArguments>();
  CLI::App* command =
      data.add_subcommand("split",
                          "Cut a Megatron dataset into datasets for training, validation and test, at document boundaries.\n"
                          "(Training does not need this: model.data.splits_string divides a dataset in place.)\n\n"
                          "examples:  trireme data split my_text_document --output parts/my --splits 98,1,1\n"
                          "           gives parts/my_train, parts/my_validation and parts/my_test\n");
  command->add_option("prefix", arguments->inputs, "a dataset: its name without .bin and .idx")->required()->expected(1);
  command->add_option("--splits", arguments->splits, "shares of training, validation and test documents")->capture_default_str();
  add_copy_options(*command, *arguments, "what the names of the new datasets begin with");
  command->callback([arguments, &status] { status = split(*arguments); });
}

}  // namespace trireme
