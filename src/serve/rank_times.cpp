#include "serve/rank_times.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "report/run_files.h"
#include "serve/log_tail.h"

namespace trireme {
namespace {

constexpr size_t kMostRanks = 1024, kMostReads = 40'000, kBlock = 4096, kWholeFile = size_t{1} << 20;

// Reads the text log of a rank at any place. Its lines are in the order of their steps, so a step is found by bisection.
class RankLog {
 public:
  explicit RankLog(std::string path) : path_(std::move(path)) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(path_, failed);
    size_ = failed ? 0 : static_cast<int64_t>(size);
  }

  int64_t size() const { return size_; }

  template <class Each>
  void for_each(int64_t offset, size_t size, const Each& each) const {
    const std::string bytes = read_part(path_, offset, size);
    std::string_view rest(bytes);
    if (offset > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      if (end == rest.npos) return;
      if (const StepTime time = step_time_in(rest.substr(0, end)); time.step >= 0) each(time);
      rest.remove_prefix(end + 1);
    }
  }

  // The step of the first line after `offset` that has one; the largest number at the end.
  int64_t step_after(int64_t offset) const {
    for (; offset < size_; offset += kBlock) {
      int64_t found = -1;
      for_each(offset, 2 * kBlock, [&](const StepTime& time) { found = found < 0 ? time.step : found; });
      if (found >= 0) return found;
    }
    return std::numeric_limits<int64_t>::max();
  }

  // An offset from which the lines have `step` and later ones.
  int64_t offset_of(int64_t step) const {
    int64_t low = 0, high = size_;
    while (high - low > static_cast<int64_t>(kBlock)) {
      const int64_t middle = low + (high - low) / 2;
      (step_after(middle) < step ? low : high) = middle;
    }
    return low;
  }

 private:
  std::string path_;
  int64_t size_ = 0;
};

int64_t last_step_of(const RankLog& log) {
  int64_t last = -1;
  for (int64_t back = kBlock; last < 0; back *= 4) {
    const int64_t offset = std::max<int64_t>(log.size() - back, 0);
    log.for_each(offset, static_cast<size_t>(log.size() - offset),
                 [&](const StepTime& time) { last = std::max(last, time.step); });
    if (offset == 0) break;
  }
  return last;
}

void fill_row(const RankLog& log, const RankTimes& times, int64_t first, int64_t last, bool is_sampled, std::vector<float>& row) {
  const auto columns = static_cast<int64_t>(times.steps.size());
  const auto take = [&](const StepTime& time) {
    if (time.step < first || time.step > last) return;
    const auto after = std::ranges::upper_bound(times.steps, time.step);
    float& cell = row[static_cast<size_t>(after - times.steps.begin()) - 1];
    cell = std::isnan(cell) ? static_cast<float>(time.seconds) : std::max(cell, static_cast<float>(time.seconds));
  };
  const int64_t begin = log.offset_of(first),
                end = std::min(log.offset_of(last + 1) + 2 * static_cast<int64_t>(kBlock), log.size());
  if (!is_sampled) return log.for_each(begin, static_cast<size_t>(end - begin), take);
  for (int64_t column = 0; column < columns; ++column) log.for_each(begin + (end - begin) / columns * column, kBlock, take);
}

}  // namespace

StepTime step_time_in(std::string_view line) {
  constexpr std::string_view kMarker = "] step ";
  const size_t marker = line.find(kMarker);
  if (!line.starts_with("[NeMo ") || marker == line.npos) return {};
  StepTime time;
  std::string_view rest = line.substr(marker + kMarker.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto [slash, error] = std::from_chars(rest.data(), rest.data() + rest.size(), time.step);
  if (error != std::errc{} || slash == rest.data() + rest.size() || *slash != '/') return {};
  // The first number that a unit of time follows.
  for (size_t at = rest.find("s "); at != rest.npos; at = rest.find("s ", at + 1)) {
    double scale = 1;
    size_t end = at;
    if (end > 0 && rest[end - 1] == 'm')
      scale = 1e-3, --end;
    else if (end > 0 && rest[end - 1] == 'u')
      scale = 1e-6, --end;
    if (end == 0 || rest[end - 1] != ' ') continue;
    const size_t begin = rest.find_last_of(' ', end - 2) + 1;
    double value = 0;
    if (std::from_chars(rest.data() + begin, rest.data() + end - 1, value).ec != std::errc{}) continue;
    return {.step = time.step - 1, .seconds = value * scale};
  }
  return {};
}

RankTimes read_rank_times(const std::vector<std::string>& logs, int64_t first, int64_t last) {
  RankTimes times;
  std::vector<RankLog> files;
  for (const std::string& path : logs) {
    if (files.size() == kMostRanks) break;
    const auto rank = rank_of_text_log(std::filesystem::path(path).filename().string());
    times.ranks.push_back(rank.value_or(std::ssize(times.ranks)));
    files.emplace_back(path);
  }
  if (files.empty()) return times;
  const int64_t begins = files.front().step_after(0), ends = last_step_of(files.front());
  first = std::max(first, begins);
  last = std::min(last, ends);
  if (ends < 0 || last < first) return times;

  const int64_t most_columns = std::clamp<int64_t>(static_cast<int64_t>(kMostReads / files.size()), 16, 160);
  const int64_t width = (last - first) / most_columns + 1;
  for (int64_t step = first; step <= last; step += width) times.steps.push_back(step);
  const int64_t bytes = files.front().offset_of(last + 1) - files.front().offset_of(first);
  times.is_sampled = bytes > static_cast<int64_t>(std::min(kWholeFile, kMostReads * kBlock / files.size()));
  for (const RankLog& file : files) {
    times.seconds.emplace_back(times.steps.size(), std::numeric_limits<float>::quiet_NaN());
    fill_row(file, times, first, last, times.is_sampled, times.seconds.back());
  }
  return times;
}

}  // namespace trireme
