#include "data/prepare/prepare.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/units.h"
#include "data/prepare/assemble.h"
#include "data/prepare/estimate.h"
#include "data/prepare/input_check.h"
#include "data/prepare/memory_split.h"
#include "data/prepare/pipeline.h"
#include "data/prepare/progress_line.h"
#include "data/prepare/report.h"
#include "data/prepare/work_folder.h"

namespace trireme::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxReportBytes = int64_t{1} << 30;

int64_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return CPU_COUNT(&cores);
}

void check_settings(const PrepareSettings& settings, const Tokenizer& tokenizer) {
  if (!(settings.validation >= 0 && settings.validation < 1))
    throw UserError("--validation {} is no share; give 0 or more and less than 1", settings.validation);
  if (settings.shard_tokens < 1 || settings.shard_tokens > int64_t{1} << 30)
    throw UserError("--shard-tokens {} is out of range; give 1 to 1073741824", settings.shard_tokens);
  if (end_of_document_of(settings) != EndOfDocument::none && tokenizer.end_of_document() < 0)
    throw UserError("--tokenizer {} has no token that ends documents; give --eod none", settings.tokenizer);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Returns the nearest existing folder, to query free space before anything is created.
fs::path existing_folder(fs::path folder) {
  while (!fs::exists(folder)) folder = folder_of(folder);
  return folder;
}

// Sums the sizes of files in a folder. Other ranks may create, rename and remove files meanwhile.
int64_t bytes_in(const fs::path& folder) {
  int64_t sum = 0;
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed))
    if (const auto stamp = find_stamp(entries->path().string())) sum += stamp->bytes;
  return sum;
}

class Preparation {
 public:
  Preparation(const PrepareSettings& settings, const Tokenizer& tokenizer, const PrepareHooks& hooks)
      : settings_(settings), tokenizer_(tokenizer), hooks_(hooks) {
    check_settings(settings, tokenizer);
    if (settings_.workers == 0) settings_.workers = usable_cores();
    if (settings_.memory == 0) settings_.memory = default_memory(settings_.workers);
    type_ = token_type_of(settings.format, tokenizer.vocabulary());
    plan_ = make_plan(settings_, tokenizer, settings_.workers);
    memory_ = split_memory(settings_.memory, resident_bytes(), settings_.workers, plan_.lanes, type_);
  }

  PrepareResult run() {
    if (is_complete()) return {PrepareOutcome::complete, earlier_report_};
    if (!fs::exists(plan_.work_folder) && fs::exists(last_file(settings_)))
      throw UserError("{} is there already; remove it or choose another --output", last_file(settings_).string());
    const Estimate estimate = announce();
    if (settings_.dry_run == DryRun::yes) return {PrepareOutcome::planned, planned_report(estimate)};
    try {
      return work();
    } catch (const std::exception&) {
      // Another rank may have finished everything and removed the folder.
      if (settings_.rank.ranks == 1 || !is_complete()) throw;
      return {PrepareOutcome::complete, earlier_report_};
    }
  }

 private:
  PrepareResult work() {
    const std::set<size_t> differing = enter_work_folder(plan_);
    const FolderLock lock(plan_.work_folder / fmt::format("rank-{}.lock", settings_.rank.rank), "another process of this rank");
    if (is_complete()) return {PrepareOutcome::complete, earlier_report_};  // other ranks may have finished since the first check
    check_inputs(differing);
    if (!prepare_parts()) return {PrepareOutcome::stopped, report({})};
    return finish();
  }

  // Returns whether the output exists, is complete and was made from these inputs. If so, reports it and removes leftovers of the
  // run. UserError if its files or its inputs have changed since.
  bool is_complete() {
    const fs::path path = report_file(settings_);
    if (!fs::exists(path) || !fs::exists(last_file(settings_))) return false;
    earlier_report_ = try_parse_json(read_file(path, kMaxReportBytes));
    if (!earlier_report_.is_object()) return false;
    const json mine = parse_json(json_text(plan_.identity, kOneLine));
    if (earlier_report_.value("identity", json()) != mine) return false;
    require_output(earlier_report_);
    require_same_inputs();
    hooks_.tell(fmt::format("{} is complete, from the same inputs and options", last_file(settings_).string()));
    if (settings_.dry_run == DryRun::no) remove_folder();
    return true;
  }

  void require_same_inputs() {
    const std::set<size_t> differing = files_that_differ(plan_.files, earlier_report_.value("stamps", json()));
    if (differing.empty()) return;
    Plan made = plan_;
    made.parts.clear();
    std::vector<std::optional<PartState>> states;
    for (const json& part : earlier_report_.value("parts", json::array())) {
      const int64_t first = made.parts.empty() ? 0 : made.parts.back().end_unit;
      made.parts.push_back({.first_unit = first, .end_unit = part.at("end_unit")});
      PartState& state = states.emplace_back(PartState{}).value();
      state.finished = true;
      state.input_checksum = part.at("input_checksum");
    }
    hooks_.tell(fmt::format("{} inputs have another time or place than when they were read; comparing what is in them",
                            differing.size()));
    if (const InputFile* changed = find_changed_input(made, differing, states, pipeline_settings().reader))
      throw UserError("{}: {} was made from other contents of it; remove that or choose another --output", changed->path,
                      last_file(settings_).string());
  }

  // For an unfinished run: the inputs that its parts have read must be unchanged.
  void check_inputs(const std::set<size_t>& differing) const {
    if (differing.empty()) return;
    std::vector<std::optional<PartState>> states(plan_.parts.size());
    for (const int64_t part : plan_.parts_of(settings_.rank))
      states[static_cast<size_t>(part)] = read_part_state(PartFiles::in(plan_.work_folder, part));
    if (const InputFile* changed = find_changed_input(plan_, differing, states, pipeline_settings().reader))
      throw UserError("{}: it has changed since the unfinished run in {} read it; remove that folder to start again",
                      changed->path, plan_.work_folder.string());
  }

  void remove_folder() {
    if (!remove_work_folder(plan_.work_folder))
      hooks_.tell(fmt::format("{} cannot be removed; it is no longer needed", plan_.work_folder.string()));
  }

  PipelineSettings pipeline_settings() const {
    return {.workers = settings_.workers,
            .lanes = plan_.lanes,
            .blocks = memory_.blocks,
            .reader = {.line_bytes = memory_.line_bytes,
                       .uncut_bytes = memory_.uncut_bytes,
                       .decompressor_bytes = memory_.decompressor_bytes,
                       .cuts = &tokenizer_},
            .worker = {.key = settings_.key,
                       .type = type_,
                       .end_of_document = end_of_document_of(settings_),
                       .empty_documents = empty_documents_of(settings_.format),
                       .on_error = settings_.on_error,
                       .uncut_bytes = memory_.uncut_bytes}};
  }

  // Announces what the run will read, write and take. UserError if the disk is too small.
  Estimate announce() {
    for (const std::string& line : plan_.passed_over) hooks_.tell(line);
    Estimate estimate = estimate_work(plan_, pipeline_settings(), tokenizer_);
    const double share = 1.0 / static_cast<double>(settings_.rank.ranks);
    const auto token_bytes = static_cast<int64_t>(estimate.tokens) * size_of(type_);
    const auto documents = static_cast<int64_t>(estimate.documents);
    disk_needed_ =
        token_bytes + documents * 4 + assemble_bytes(settings_.format, token_bytes, documents, std::ssize(plan_.parts));
    disk_needed_ = std::max<int64_t>(disk_needed_ - bytes_in(plan_.work_folder), 0);
    const fs::path folder = existing_folder(folder_of(plan_.work_folder));
    disk_free_ = free_bytes(folder);
    expected_seconds_ = estimate.core_seconds * share / static_cast<double>(std::min(settings_.workers, usable_cores()));
    std::string ranks;
    if (settings_.rank.ranks > 1)
      ranks = fmt::format(", rank {} of {} (from {})", settings_.rank.rank, settings_.rank.ranks, settings_.rank.source);
    hooks_.tell(fmt::format("{} to read in {} file{}{}; {} workers, {} of memory at most", format_bytes(plan_.bytes()),
                            plan_.files.size(), plan_.files.size() == 1 ? "" : "s", ranks, settings_.workers,
                            format_bytes(settings_.memory)));
    hooks_.tell(fmt::format("about {} tokens in {} expected; {} of disk needed, {} free; about {} to go",
                            format_count(estimate.tokens), counted(estimate.documents, "document"), format_bytes(disk_needed_),
                            format_bytes(disk_free_), format_duration(expected_seconds_)));
    if (disk_needed_ > disk_free_)
      throw UserError("--output {}: about {} are needed in {}, where {} is free", settings_.output, format_bytes(disk_needed_),
                      folder.string(), format_bytes(disk_free_));
    return estimate;
  }

  json planned_report(const Estimate& estimate) const {
    return {{"outcome", "planned"},
            {"files", plan_.files.size()},
            {"bytes_to_read", plan_.bytes()},
            {"expected_input_bytes", static_cast<int64_t>(estimate.input_bytes)},
            {"expected_tokens", static_cast<int64_t>(estimate.tokens)},
            {"expected_documents", static_cast<int64_t>(estimate.documents)},
            {"expected_seconds", expected_seconds_},
            {"disk_needed_bytes", disk_needed_},
            {"disk_free_bytes", disk_free_},
            {"workers", settings_.workers},
            {"memory_bytes", settings_.memory}};
  }

  // Returns whether all parts of this rank are finished.
  bool prepare_parts() {
    const std::vector<int64_t> mine = plan_.parts_of(settings_.rank);
    int64_t bytes = 0;
    for (const int64_t part : mine) bytes += plan_.bytes_of(plan_.parts[static_cast<size_t>(part)]);
    Pipeline pipeline(plan_, pipeline_settings(), tokenizer_);
    ProgressLine line(pipeline.progress(), bytes);
    const Stopwatch watch;
    const auto finished = pipeline.run(mine, [&] {
      line.draw();
      return !hooks_.stop();
    });
    usage_.pipeline_seconds = watch.seconds();
    usage_.times = pipeline.times();
    usage_.input_bytes = pipeline.progress().input_bytes - pipeline.progress().earlier_input_bytes;
    usage_.tokens = pipeline.progress().tokens - pipeline.progress().earlier_tokens;
    usage_.bytes_read = pipeline.progress().bytes_read;
    return finished;
  }

  // Returns every part if all ranks have finished theirs.
  std::vector<FinishedPart> finished_parts() const {
    std::vector<FinishedPart> parts;
    for (int64_t number = 0; number < std::ssize(plan_.parts); ++number) {
      const PartFiles files = PartFiles::in(plan_.work_folder, number);
      const auto state = peek_part_state(files);
      if (!state || !state->finished) return {};
      parts.push_back({files, *state});
    }
    return parts;
  }

  // Checks that the parts still exist: if the work folder has been deleted, the work is gone.
  void require_own_parts() const {
    for (const int64_t part : plan_.parts_of(settings_.rank)) {
      const auto state = peek_part_state(PartFiles::in(plan_.work_folder, part));
      if (!state || !state->finished)
        throw Failure("{}: part {} is no longer there; the folder was changed while it was worked in: run again",
                      plan_.work_folder.string(), part);
    }
  }

  PrepareResult finish() {
    require_own_parts();
    const std::vector<FinishedPart> parts = finished_parts();
    if (parts.empty()) {
      hooks_.tell(fmt::format("rank {} of {} is done; the last rank to finish puts the output together", settings_.rank.rank,
                              settings_.rank.ranks));
      return {PrepareOutcome::waiting, report(parts)};
    }
    std::optional<FolderLock> lock;
    try {
      lock.emplace(plan_.work_folder / "assemble.lock", "another rank");
    } catch (const UserError&) {
      hooks_.tell("all ranks are done; another one is putting the output together");
      return {PrepareOutcome::waiting, report(parts)};
    }
    if (is_complete()) return {PrepareOutcome::complete, earlier_report_};  // by the rank that held the lock before
    const Stopwatch watch;
    const json files = assemble(
        {.prepare = settings_, .type = type_, .vocabulary = tokenizer_.vocabulary(), .memory = memory_.assemble_bytes}, parts);
    usage_.assemble_seconds = watch.seconds();
    json result = report(parts);
    result["output"] = files;
    require_output(result);
    const std::string text = json_text(result, 1) + "\n";
    atomic_write(report_file(settings_), bytes_of(text));
    remove_folder();
    return {PrepareOutcome::complete, result};
  }

  json report(const std::vector<FinishedPart>& parts) {
    usage_.wall_seconds = hooks_.since_start.seconds();
    json result = usage_report(usage_, settings_, type_);
    result["identity"] = plan_.identity;
    result["inputs"] = plan_.files.size();
    result["stamps"] = stamps_to_json(plan_.files);
    result["parts"] = json::array();
    for (size_t i = 0; i < parts.size(); ++i)
      result["parts"].push_back({{"end_unit", plan_.parts[i].end_unit}, {"input_checksum", parts[i].state.input_checksum}});
    result["lanes"] = plan_.lanes;
    add_totals(result, parts, type_);
    return result;
  }

  PrepareSettings settings_;
  const Tokenizer& tokenizer_;
  const PrepareHooks& hooks_;
  TokenType type_ = TokenType::uint16;
  Plan plan_;
  MemorySplit memory_;
  json earlier_report_;
  int64_t disk_needed_ = 0, disk_free_ = 0;
  double expected_seconds_ = 0;
  Usage usage_;
};

}  // namespace

PrepareResult prepare_data(const PrepareSettings& settings, const Tokenizer& tokenizer, const PrepareHooks& hooks) {
  return Preparation(settings, tokenizer, hooks).run();
}

}  // namespace trireme::prepare
