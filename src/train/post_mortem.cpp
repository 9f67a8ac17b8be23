#include "train/post_mortem.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"

namespace trireme {
namespace {

constexpr size_t kMostPlaces = 12;  // rows of the table; a job may have thousands of ranks
constexpr size_t kLogLines = 8;
constexpr int64_t kLogTail = 16 << 10;

std::string where(const RankSeen& rank) {
  std::string text = rank.activity.text();
  if (rank.activity.waits) text += ", waits for others";
  if (rank.is_gone) text += ", its process is gone";
  return text;
}

std::string row_of(const RankSeen& rank) {
  std::string text = fmt::format("{}: {}", rank.name, rank.activity.place());
  if (rank.activity.waits) text += ", waits for others";
  if (rank.is_gone) text += ", its process is gone";
  if (!rank.is_gone && rank.activity.still >= 1)
    text += fmt::format(", no progress for {:.0f} s", rank.activity.still + rank.silence);
  return text + fmt::format(", heard of {:.1f} s ago", rank.silence);
}

// Ranks that were at the same place, in one row; the one that failed has its own.
std::string table_of(const std::vector<RankSeen>& ranks, int failed) {
  std::string text;
  std::map<std::string, std::vector<int>> places;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (static_cast<int>(rank) != failed) places[where(ranks[rank])].push_back(static_cast<int>(rank));
  if (failed >= 0 && failed < std::ssize(ranks)) text += "  " + row_of(ranks[static_cast<size_t>(failed)]) + "\n";
  size_t shown = 0;
  for (const auto& [place, at] : places) {
    if (shown++ == kMostPlaces) return text + fmt::format("  and {} more places\n", places.size() - kMostPlaces);
    if (at.size() == 1) {
      text += "  " + row_of(ranks[static_cast<size_t>(at.front())]) + "\n";
      continue;
    }
    const auto [least, most] =
        std::ranges::minmax(at, {}, [&](int rank) { return ranks[static_cast<size_t>(rank)].activity.calls; });
    text += fmt::format("  ranks {}: {}, collectives {} to {}\n", range_text(at), place,
                        ranks[static_cast<size_t>(least)].activity.calls, ranks[static_cast<size_t>(most)].activity.calls);
  }
  return text;
}

std::string last_lines(const std::filesystem::path& path) {
  std::string tail;
  try {
    const File file = File::open(path);
    const int64_t bytes = std::min(file.size(), kLogTail);
    tail.resize(static_cast<size_t>(bytes));
    file.read_at(file.size() - bytes, std::as_writable_bytes(std::span(tail.data(), tail.size())));
  } catch (const Failure& failure) {
    return fmt::format("  {}\n", failure.what());
  }
  std::vector<std::string> lines;
  std::istringstream stream(tail);
  for (std::string line; std::getline(stream, line);) {
    line.erase(line.find_last_not_of(" \0\n") + 1);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  std::string text;
  for (size_t i = lines.size() - std::min(lines.size(), kLogLines); i < lines.size(); ++i) text += "  " + lines[i] + "\n";
  return text.empty() ? "  none\n" : text;
}

std::string advice(const JobEnd& end) {
  const bool is_of_rank = end.rank != JobEnd::kNoRank;
  if (end.is_hang && is_of_rank)
    return fmt::format(
        "stack_globalrank-{}.txt has the rank's stack if its process could still write it.\n"
        "  If the same rank or machine hangs again: trireme validate, and leave the machine out.",
        end.rank);
  if (end.is_hang) return "All ranks waited: for each other, or for their devices. trireme validate checks links and devices.";
  if (end.line.find(" died ") != std::string::npos)
    return "Its process ended without a word. On its machine: dmesg | grep -i -e oom -e xid -e mce, and the scheduler's log.\n"
           "  If the same machine fails again: trireme validate, and leave the machine out.";
  return "The line above says what failed. Nothing that was saved is touched by it.";
}

}  // namespace

std::string PostMortem::text(const JobEnd& end, const std::vector<RankSeen>& ranks) const {
  std::string now;
  append_local_time(now, system_clock().unix_microseconds());
  std::string text = fmt::format("Post-mortem of {}, attempt {}, {}\n\n{}\n", folder.path().string(), attempt, now, end.line);
  if (end.unnoticed > 0) text += fmt::format("Without progress for {:.1f} s when the job was ended.\n", end.unnoticed);
  text += "\nWhere the ranks were, by their last heartbeats:\n" + table_of(ranks, end.rank);
  std::vector<int> quoted = {0};
  if (end.rank > 0) quoted.insert(quoted.begin(), end.rank);
  for (const int rank : quoted)
    if (rank < std::ssize(rank_logs)) {
      const std::filesystem::path log = folder.file(rank_logs[static_cast<size_t>(rank)]);
      text += fmt::format("\nLast lines of rank {}, {}:\n{}", rank, log.string(), last_lines(log));
    }
  const std::vector<int64_t> steps = checkpoint_steps(folder.checkpoints());
  text += fmt::format("\nNext:\n  {}\n  {}\n", advice(end),
                      steps.empty() ? "There is no checkpoint; the run starts over."
                                    : fmt::format("The newest checkpoint is that of step {}: {}{}", steps.back(), command,
                                                  command.ends_with(" --resume") ? "" : " --resume"));
  return text;
}

void PostMortem::write(const JobEnd& end, const std::vector<RankSeen>& ranks) const {
  try {
    File::create(path()).write(text(end, ranks));
  } catch (const Failure& failure) {
    fmt::print(stderr, "warning: {}\n", failure.what());
  }
}

}  // namespace trireme
