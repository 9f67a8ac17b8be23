// trireme report: runs as an HTML page of charts.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/report_options.h"
#include "report/page.h"
#include "report/read_run.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output = "report.html";
  std::string title;
  FactArguments facts;
  bool json = false;
};

// Only an earlier report may be replaced.
void require_place_for(const std::string& output) {
  const fs::path path = output, folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) throw UserError("--output {}: there is no folder {}", output, folder.string());
  if (!fs::exists(path, ignored)) return;
  if (!fs::is_regular_file(path, ignored)) throw UserError("--output {} is not a file; name one, such as report.html", output);
  const File file = File::open(path);
  std::string start(static_cast<size_t>(std::min<int64_t>(file.size(), 256)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start.data(), start.size())));
  if (!looks_like_report(start)) throw UserError("--output {} is there and is not a report; choose another name", output);
}

nlohmann::ordered_json facts_json(const Report& report, const std::string& output, size_t bytes) {
  nlohmann::ordered_json json{{"output", output}, {"bytes", bytes}};
  for (const Chart& chart : report.charts) json["charts"].push_back(row_of(chart.quantity).key);
  for (const ReportedRun& run : report.runs) json["runs"].push_back(to_json(run.metrics));
  return json;
}

void write_report_page(const ReportArguments& arguments) {
  const bool to_stdout = arguments.output == "-";
  if (to_stdout && arguments.json) throw UserError("--json and --output - both want stdout; give the page a file");
  if (!to_stdout) require_place_for(arguments.output);
  const Report report = make_report(read_runs(arguments.runs.empty() ? std::vector<std::string>{"runs"} : arguments.runs),
                                    arguments.facts.options(), arguments.title);
  const std::string html = html_page(report);
  if (to_stdout) {
    fmt::print("{}", html);
    return;
  }
  atomic_write(arguments.output, bytes_of(html));
  for (const ReportedRun& run : report.runs)
    for (const std::string& warning : run.metrics.facts.warnings) fmt::print(stderr, "warning: {}: {}\n", run.log.name, warning);
  if (arguments.json)
    print_json(facts_json(report, arguments.output, html.size()));
  else
    fmt::print("{}: {} run{}, {} charts, {}\n", arguments.output, report.runs.size(), report.runs.size() == 1 ? "" : "s",
               report.charts.size(), format_bytes(static_cast<int64_t>(html.size())));
}

}  // namespace

void add_report_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report",
                         "Draw runs, ours, NeMo's or LitGPT's, as one page of charts that needs no network.\n\n"
                         "examples:  trireme report runs/demo\n"
                         "           trireme report RUN OTHER_RUN --output compared.html\n"
                         "           trireme report dllogger.json --num_accelerators 256 --accelerator_type h100\n");
  command->add_option("runs", arguments->runs,
                      "folders of runs, or a dllogger.json, TensorBoard event file or metrics.csv; none: the newest in runs");
  command->add_option("-o,--output", arguments->output, "the page to write; - for stdout")->capture_default_str();
  command->add_option("--title", arguments->title, "instead of the names of the runs");
  arguments->facts.add_to(*command);
  command->add_flag("--json", arguments->json, "say what was written, and the figures, as JSON");
  command->callback([arguments, &status] {
    write_report_page(*arguments);
    status = kDone;
  });
}

}  // namespace trireme
