// trireme data fetch and push: download and upload data files.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/data_commands.h"
#include "fetch/fetch.h"
#include "fetch/progress_bar.h"
#include "fetch/push.h"
#include "train/stop_signal.h"

namespace trireme {
namespace {

struct TransferArguments {
  DownloadOptions options;
  std::string via = "auto";
  int64_t chunk_mib = 64;
  bool dry_run = false, json = false;
};

void add_transfer_options(CLI::App& command, TransferArguments& arguments, const std::string& via_help) {
  command.add_option("--parallel", arguments.options.parallel, "transfers at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command.add_option("--retries", arguments.options.retries, "of a transfer that brings nothing, before its place is given up")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command.add_option("--timeout", arguments.options.timeout_seconds, "seconds to connect, and without a byte")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86400.0));
  command.add_option("--via", arguments.via, via_help)->capture_default_str();
  command.add_flag("--dry-run", arguments.dry_run, "say what would be copied, and stop");
  command.add_flag("--json", arguments.json, "print what was copied as JSON");
}

void require_via(const std::string& via) {
  if (via != "https" && !is_store_tool(via)) throw UserError("--via {}: expected auto, https, s5cmd, aws, gcloud or azcopy", via);
}

// Runs transfers until they end or a signal stops them.
template <class Plan>
FetchReport transfer(const Plan& plan, TransferArguments& arguments) {
  const StopSignal signal;
  std::atomic<bool> stop = false;
  arguments.options.stop = &stop;
  ProgressBar bar(STDERR_FILENO);
  return carry_out(plan, arguments.options, [&](const FetchProgress& progress) {
    if (signal.received() != nullptr) stop = true;
    bar.show(progress);
  });
}

int finish(const FetchReport& report, const TransferArguments& arguments, const char* verb) {
  using Outcome = FetchedFile::Outcome;
  std::set<std::string> said;  // an unreachable host fails many files with the same message
  for (const FetchedFile& file : report.files)
    if (file.outcome == Outcome::failed && said.insert(file.error).second)
      fmt::print(stderr, "trireme: {}{}\n", file.error,
                 file.error.starts_with("cannot reach") ? "; --mirror names another place" : "");
  if (arguments.json) {
    print_json(to_json(report));
  } else {
    const double rate = report.seconds > 0 ? static_cast<double>(report.bytes_brought) / report.seconds / 1e6 : 0;
    fmt::print("{} {} in {} ({:.1f} MB/s): {} {}, {} unchanged, {} failed{}\n", verb, format_bytes(report.bytes_brought),
               format_duration(report.seconds), rate, plural(report.count(Outcome::fetched), "file"), verb,
               report.count(Outcome::unchanged), report.count(Outcome::failed),
               report.count(Outcome::stopped) > 0 ? "; stopped: run again to continue" : "");
  }
  if (report.count(Outcome::failed) > 0) return kFailed;
  return report.count(Outcome::stopped) > 0 ? kStoppedAfterSaving : kDone;
}

int show_plan(const FetchPlan& plan, const TransferArguments& arguments) {
  if (arguments.json) {
    print_json(to_json(plan));
    return kDone;
  }
  for (const FetchEntry& entry : plan.entries) {
    const char* what = entry.action == FetchEntry::Action::unchanged ? "unchanged"
                       : entry.action == FetchEntry::Action::failed  ? "failed"
                       : entry.bytes_there > 0                       ? "resume"
                                                                     : "fetch";
    const std::string size = entry.file.remote.size < 0 ? "?" : format_bytes(entry.file.remote.size);
    fmt::print("{:<9} {:>10}  {} -> {}\n", what, size, entry.error.empty() ? entry.url : entry.error, entry.file.target.string());
  }
  fmt::print("{}, {} to fetch, {} free in {}\n", plural(plan.files_to_fetch(), "file"), format_bytes(plan.bytes_to_write()),
             format_bytes(free_bytes(existing_folder(plan.output))), existing_folder(plan.output).string());
  return kDone;
}

int fetch(const FetchRequest& asked, TransferArguments& arguments) {
  require_via(arguments.via);
  FetchRequest request = asked;
  request.via = arguments.via;
  arguments.options.chunk_bytes = arguments.chunk_mib << 20;
  request.download = arguments.options;
  const FetchPlan plan = plan_fetch(request);
  if (arguments.dry_run) return show_plan(plan, arguments);
  return finish(transfer(plan, arguments), arguments, "fetched");
}

int push(PushRequest request, TransferArguments& arguments) {
  require_via(arguments.via);
  request.via = arguments.via;
  request.transfer = arguments.options;
  if (const Location to = parse_location(request.destination); to.scheme == Scheme::file) {
    const FetchPlan plan = plan_fetch(as_fetch(request, to));
    return arguments.dry_run ? show_plan(plan, arguments) : finish(transfer(plan, arguments), arguments, "pushed");
  }
  const PushPlan plan = plan_push(request);
  if (!arguments.dry_run) return finish(transfer(plan, arguments), arguments, "pushed");
  if (arguments.json) {
    print_json(to_json(plan));
    return kDone;
  }
  for (const PushEntry& entry : plan.entries)
    fmt::print("{:<9} {:>10}  {} -> {}\n", entry.action == PushEntry::Action::push ? "push" : "unchanged",
               format_bytes(entry.bytes), entry.path, shown(entry.to));
  fmt::print("{} to push with {}\n", format_bytes(plan.bytes_to_push()), name_of(plan.tool.kind));
  return kDone;
}

}  // namespace

void add_data_fetch_command(CLI::App& data, int& status) {
  struct Arguments : TransferArguments {
    std::vector<std::string> urls, mirrors;
    std::string output, sha256;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = data.add_subcommand(
      "fetch",
      "Copy files from the web, from s3://, gs:// and az://, or from folders.\n"
      "What is there already is not copied again; what was cut off continues where it stopped.\n\n"
      "examples:  trireme data fetch /usr/share/common-licenses/GPL-3 --output texts\n"
      "           trireme data fetch https://huggingface.co/gpt2/resolve/main/vocab.json --output bpe\n"
      "           trireme data fetch 's3://bucket/pile/*.jsonl.zst' --output pile --sha256 SHA256SUMS --parallel 16\n");
  command->add_option("url", arguments->urls, "files, folders that end with /, and globs with * ** ? [a-z]")->required();
  command->add_option("--output", arguments->output, "the folder to put them in")->required();
  command->add_option("--sha256", arguments->sha256, "the checksum of one file, or a file of them as sha256sum writes it");
  command->add_option("--mirror", arguments->mirrors, "folders with the same files, tried in order when a file cannot be had")
      ->allow_extra_args(false);  // one value per --mirror, so that a URL may follow
  command->add_option("--chunk", arguments->chunk_mib, "MiB of a large file that one connection takes at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  add_transfer_options(*command, *arguments, "how to read s3, gs and az: auto, https, s5cmd, aws, gcloud or azcopy");
  command->callback([arguments, &status] {
    FetchRequest request{.urls = arguments->urls, .output = arguments->output, .mirrors = arguments->mirrors};
    if (!arguments->sha256.empty()) request.checksums = Checksums::read(arguments->sha256);
    status = fetch(request, *arguments);
  });
}

void add_data_push_command(CLI::App& data, int& status) {
  struct Arguments : TransferArguments {
    std::vector<std::string> paths;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      data.add_subcommand("push",
                          "Copy files to s3://, gs:// or az:// with the tool that is installed for it, or to a folder.\n"
                          "What is there already is not copied again.\n\n"
                          "examples:  trireme data push /usr/share/common-licenses/GPL-3 texts\n"
                          "           trireme data push tokens/ s3://bucket/pile-tokens/ --dry-run\n");
  command->add_option("path", arguments->paths, "files, folders and globs, and last of all where to put them")
      ->required()
      ->expected(2, 1 << 20);
  add_transfer_options(*command, *arguments, "the tool to use: auto, s5cmd, aws, gcloud or azcopy");
  command->callback([arguments, &status] {
    PushRequest request{.paths = arguments->paths};
    request.destination = request.paths.back();
    request.paths.pop_back();
    status = push(std::move(request), *arguments);
  });
}

}  // namespace trireme
