#include "train/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <sstream>

#include "base/file.h"
#include "comm/control.h"

namespace trireme {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

// Names in the folder; none if it is not there.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Failure("cannot read the folder {}: {}", folder.string(), error.message());
  return names;
}

void check_shard(const std::filesystem::path& folder, const StoredShard& shard) {
  std::error_code error;
  const auto found = std::filesystem::file_size(folder / shard.file, error);
  if (error) throw Failure("shard {} cannot be read: {}", shard.file, error.message());
  if (narrow<int64_t>(found) < shard.bytes)
    throw Failure("shard {} is truncated ({} of {} bytes)", shard.file, found, shard.bytes);
  if (narrow<int64_t>(found) > shard.bytes)
    throw Failure("shard {} has {} bytes where {} were expected", shard.file, found, shard.bytes);
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = -1;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || step < 0 || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::vector<int64_t> checkpoint_steps(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

StoredCheckpoint open_checkpoint(const std::filesystem::path& folder, ShardsExpected expected) {
  StoredCheckpoint checkpoint{folder, parse_manifest(read_file(folder / kManifestName, kMaxManifestBytes), kManifestName)};
  for (const StoredShard& shard : checkpoint.manifest.shards)
    if (expected == ShardsExpected::all || std::filesystem::exists(folder / shard.file)) check_shard(folder, shard);
  return checkpoint;
}

namespace {

// The steps that rank 0 sees; another machine may see them a moment later.
std::vector<int64_t> steps_of_rank_0(const std::filesystem::path& folder, Control* ranks) {
  if (ranks == nullptr) return checkpoint_steps(folder);
  std::istringstream words(ranks->share("checkpoints", fmt::format("{}", fmt::join(checkpoint_steps(folder), " "))));
  return {std::istream_iterator<int64_t>(words), {}};
}

}  // namespace

NewestCheckpoint find_latest(const std::filesystem::path& folder, const std::function<void(const StoredCheckpoint&)>& accept,
                             Control* ranks) {
  NewestCheckpoint newest;
  std::vector<int64_t> steps = steps_of_rank_0(folder, ranks);
  for (; !steps.empty(); steps.pop_back()) {
    const std::string name = checkpoint_name(steps.back());
    StoredCheckpoint candidate;
    std::string trouble;
    try {
      candidate = open_checkpoint(folder / name);
      accept(candidate);
    } catch (const CheckpointMismatch&) {
      throw;
    } catch (const JobEnded&) {
      throw;
    } catch (const Failure& failure) {
      trouble = failure.what();
    } catch (const UserError& error) {
      throw UserError("{}: {}", (folder / name).string(), error.what());
    }
    if (ranks != nullptr) trouble = ranks->first_of("checkpoint", trouble);
    if (trouble.empty()) {
      newest.checkpoint = std::move(candidate);
      for (std::string& line : newest.skipped) line += "; using " + name;
      return newest;
    }
    newest.skipped.push_back(fmt::format("{}: {}", name, trouble));
  }
  if (!newest.skipped.empty())
    throw Failure("no checkpoint in {} can be used: {}", folder.string(), fmt::join(newest.skipped, "; "));
  return newest;
}

std::vector<int64_t> steps_to_remove(std::span<const CheckpointSummary> checkpoints, int64_t newest, const Retention& retention) {
  if (retention.keep_best < 0) return {};
  std::vector<CheckpointSummary> by_step(checkpoints.begin(), checkpoints.end());
  std::ranges::sort(by_step, std::ranges::greater{}, &CheckpointSummary::step);
  std::vector<CheckpointSummary> by_loss;
  std::ranges::copy_if(by_step, std::back_inserter(by_loss),
                       [](const auto& checkpoint) { return checkpoint.validation_loss.has_value(); });
  std::ranges::stable_sort(by_loss, {},
                           [](const auto& checkpoint) { return *checkpoint.validation_loss; });  // of equals the later

  std::set<int64_t> kept = {newest};
  const auto keep = [&](const std::vector<CheckpointSummary>& best_first, int64_t count) {
    for (const CheckpointSummary& checkpoint :
         std::span(best_first).first(std::min(best_first.size(), static_cast<size_t>(count))))
      kept.insert(checkpoint.step);
  };
  keep(by_step, retention.keep_last);
  keep(by_loss, retention.keep_best);

  std::vector<int64_t> removed;
  for (const CheckpointSummary& checkpoint : by_step)
    if (!kept.contains(checkpoint.step)) removed.push_back(checkpoint.step);
  return removed;
}

void remove_old_checkpoints(const std::filesystem::path& folder, int64_t newest, const Retention& retention) {
  std::vector<CheckpointSummary> checkpoints;
  for (const int64_t step : checkpoint_steps(folder)) {
    try {
      const CheckpointManifest manifest = open_checkpoint(folder / checkpoint_name(step)).manifest;
      checkpoints.push_back({step, manifest.info.validation_loss});
    } catch (const std::runtime_error&) {
      continue;  // damaged or of a newer version: not for us to remove
    }
  }
  for (const int64_t step : steps_to_remove(checkpoints, newest, retention)) {
    // Renamed first, so that a kill half way leaves a temporary folder, not a damaged checkpoint.
    const std::filesystem::path removing = folder / (checkpoint_name(step) + kRemovingSuffix);
    rename_or_exchange(folder / checkpoint_name(step), removing);
    remove_tree(removing);
  }
}

void remove_temporary_folders(const std::filesystem::path& folder) {
  for (const std::string& name : names_in(folder)) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos || !step_of(name.substr(0, dot))) continue;
    const std::string_view suffix = std::string_view(name).substr(dot);
    if (suffix.starts_with(kWritingSuffix) || suffix.starts_with(kRemovingSuffix)) remove_tree(folder / name);
  }
}

}  // namespace trireme
