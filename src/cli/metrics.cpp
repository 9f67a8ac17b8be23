// trireme metrics: the speed of runs, computed from their logs.
#include "report/metrics.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/report_options.h"
#include "report/read_run.h"

namespace trireme {
namespace {

struct MetricsArguments {
  std::vector<std::string> runs;
  std::string file;
  FactArguments facts;
  StepChoice steps;
  bool json = false;
};

// Whether this is a call of gpu-recipes' training-metrics tool. Then stdout has its three lines only, the peak defaults to its
// bf16 peak, and an empty step range gives its error.
bool is_reference_call(const MetricsArguments& arguments) { return arguments.runs.empty() && !arguments.file.empty(); }

std::vector<RunMetrics> measure_all(const MetricsArguments& arguments) {
  std::vector<std::string> paths = arguments.runs;
  if (!arguments.file.empty()) paths.insert(paths.begin(), arguments.file);
  if (paths.empty()) paths.emplace_back("runs");  // the newest run
  FactOptions options = arguments.facts.options();
  StepChoice steps = arguments.steps;
  if (is_reference_call(arguments)) {
    if (!options.precision) options.precision = PeakPrecision::bf16;
    if (!steps.start_step) steps.start_step = 10;
  }
  std::vector<RunMetrics> all;
  for (const RunLog& log : read_runs(paths)) all.push_back(measure(log, options, steps));
  return all;
}

void print_notes(const std::vector<RunMetrics>& all) {
  for (const RunMetrics& run : all) {
    const std::string where = all.size() > 1 ? run.run + ": " : "";
    for (const std::string& text : run.notes) fmt::print(stderr, "note: {}{}\n", where, text);
    for (const std::string& text : run.facts.warnings) fmt::print(stderr, "warning: {}{}\n", where, text);
  }
}

void print_metrics(const MetricsArguments& arguments) {
  const std::vector<RunMetrics> all = measure_all(arguments);
  print_notes(all);
  if (arguments.json) {
    nlohmann::ordered_json json;
    for (const RunMetrics& run : all) json["runs"].push_back(to_json(run));
    print_json(json);
  } else if (is_reference_call(arguments)) {
    fmt::print("{}", reference_lines(all.front()));
  } else if (all.size() == 1) {
    fmt::print("{}\n{}", reference_lines(all.front()), details(all.front()));
  } else {
    fmt::print("{}", comparison_table(all));
  }
}

}  // namespace

void add_metrics_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<MetricsArguments>();
  CLI::App* command =
      app.add_subcommand("metrics",
                         "Step time, tokens/s, TFLOP/s and MFU of runs, from their logs: ours, NeMo's and LitGPT's.\n\n"
                         "examples:  trireme metrics runs/demo\n"
                         "           trireme metrics RUN OTHER_RUN --accelerator_type h200 --json\n"
                         "           trireme metrics --file dllogger.json --batch_size 2048 --num_accelerators 256 \\\n"
                         "                           --model_type gpt3-175b --accelerator_type h100 --precision fp8\n");
  command->add_option("runs", arguments->runs,
                      "folders of runs, or a dllogger.json, TensorBoard event file or metrics.csv; none: the newest in runs");
  command->add_option("--file", arguments->file,
                      "a log, as the training-metrics tool of gpu-recipes takes it: prints its three lines only");
  arguments->facts.add_to(*command);
  command->add_option("--start_step,--start-step", arguments->steps.start_step,
                      "average by the rule of gpu-recipes' tool, from this step on [10]; else the steady steps");
  command->add_option("--end_step,--end-step", arguments->steps.end_step, "the last step averaged by that rule, included [30]");
  command->add_option("--steps", arguments->steps.steps, "average these steps alone, by that rule: 149,169,189")->delimiter(',');
  command->add_flag("--json", arguments->json, "everything as JSON");
  command->callback([arguments, &status] {
    print_metrics(*arguments);
    status = kDone;
  });
}

}  // namespace trireme
