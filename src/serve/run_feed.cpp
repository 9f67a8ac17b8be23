#include "serve/run_feed.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 53;
constexpr size_t kReadAtOnce = size_t{2} << 20, kLargestRecord = size_t{16} << 20;

// The series that say when a step was, then those that say how many tokens or samples there had been.
constexpr size_t kTimeNames = 4;
constexpr std::array<std::string_view, 7> kAxisNames{kTimestamp,     "time/total",       "time",   "time/train",
                                                     "total_tokens", "consumed_samples", "samples"};

// What kind of log is read, in report's order of preference.
std::vector<std::string> log_paths(const RunFiles& files) {
  if (!files.dlloggers.empty()) return {files.dlloggers.front()};
  if (!files.event_files.empty()) {
    std::vector<std::string> paths = files.event_files;
    std::ranges::sort(paths);
    return paths;
  }
  if (!files.metrics.empty()) return {files.metrics.front()};
  return {};
}

std::unique_ptr<LogParser> parser_for(const RunFiles& files) {
  if (!files.dlloggers.empty()) return dllogger_parser(Timestamps::kept);
  if (!files.event_files.empty()) return event_parser(Timestamps::kept);
  return csv_parser(files.metrics.empty() ? "" : files.metrics.front());
}

int64_t modified(const std::string& path) {
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(path, failed);
  return failed ? 0 : static_cast<int64_t>(time.time_since_epoch().count());
}

// Of each series the points that the next batch may need: the last one.
void keep_last_points(RunLog& window) {
  for (Series& series : window.series)
    if (series.points.size() > 1) series.points.erase(series.points.begin(), series.points.end() - 1);
}

}  // namespace

RunFeed::RunFeed(RunFiles files, FactOptions said) : files_(std::move(files)), said_(std::move(said)) {
  read_settings();
  start();
}

void RunFeed::set_files(const RunFiles& files) {
  const bool is_new_kind = files.dlloggers.empty() != files_.dlloggers.empty() ||
                           (files.dlloggers.empty() && files.event_files.empty() != files_.event_files.empty());
  const bool has_new_settings = files.settings != files_.settings;
  files_ = files;
  if (has_new_settings) read_settings();
  const std::vector<std::string> paths = log_paths(files_);
  // A resumed run begins another event file; the names of earlier ones stay.
  const bool continues = !is_new_kind && paths.size() >= tails_.size() &&
                         std::ranges::equal(tails_, std::span(paths).first(tails_.size()), {}, &LogTail::path);
  if (!continues || has_new_settings) return start();
  for (size_t i = tails_.size(); i < paths.size(); ++i) tails_.emplace_back(paths[i]);
}

void RunFeed::read_settings() {
  settings_ = {};
  notes_.clear();
  for (const std::string& path : files_.settings) {
    try {
      settings_.parameters.merge(read_settings_file(path).parameters);
    } catch (const std::exception& error) {
      notes_.emplace_back(error.what());
    }
  }
  settings_.ranks_seen = files_.ranks;
  summary_modified_ = 0;
  read_summary_again();
}

void RunFeed::read_summary_again() {
  const int64_t now = files_.summary.empty() ? 0 : modified(files_.summary);
  if (now == std::exchange(summary_modified_, now) || now == 0) return;
  try {
    settings_.summary = read_summary_file(files_.summary);
  } catch (const std::exception& error) {
    notes_.emplace_back(error.what());
  }
  ++version_;
}

void RunFeed::start() {
  facts_ = facts_of(settings_, said_);
  parser_ = parser_for(files_);
  tails_.clear();
  for (const std::string& path : log_paths(files_)) tails_.emplace_back(path).look();
  for (Series& series : window_.series) series.points.clear();  // the names stay: they decide which series means what
  histories_ = {};
  sources_ = {};
  elapsed_ = tokens_ = {};
  first_time_.reset();
  is_unreadable_ = false;
  ++version_, ++generation_;
}

bool RunFeed::update(double seconds) {
  const int64_t before = version_;
  const Stopwatch watch;
  read_summary_again();
  for (LogTail& tail : tails_)
    if (tail.look() == LogTail::State::replaced) {
      start();
      break;
    }
  while (!is_unreadable_ && read_some() && watch.seconds() < seconds) {
  }
  return version_ != before;
}

bool RunFeed::read_some() {
  for (LogTail& tail : tails_) {
    if (tail.size() <= tail.offset()) continue;
    try {
      for (size_t most = kReadAtOnce;; most *= 4) {  // a record may be longer
        if (tail.read(most, [&](std::string_view bytes) { return parser_->read(bytes); })) {
          absorb();
          return true;
        }
        if (tail.size() - tail.offset() <= static_cast<int64_t>(most)) break;
        if (most < kLargestRecord) continue;
        notes_.push_back(
            fmt::format("{}: there is no whole record at byte {}; what comes before it was read", tail.path(), tail.offset()));
        tail.give_up();
        ++version_;
        break;
      }
    } catch (const UserError& error) {
      notes_.emplace_back(error.what());
      is_unreadable_ = true;
      ++version_;
      return false;
    }
  }
  return false;
}

void RunFeed::absorb() {
  const size_t parameters_before = settings_.parameters.size();
  settings_.parameters.merge(std::exchange(parser_->parameters, {}));
  if (settings_.parameters.size() != parameters_before) facts_ = facts_of(settings_, said_);

  if (const std::optional<int64_t> step = parser_->series.take_forgotten()) {
    for (History& history : histories_) history.forget_from(*step);
    elapsed_.forget_from(*step);
    tokens_.forget_from(*step);
    for (Series& series : window_.series) std::erase_if(series.points, [&](const Point& point) { return point.step >= *step; });
  }
  keep_last_points(window_);
  const size_t names_before = window_.series.size();
  for (Series& series : parser_->series.take()) {
    if (!is_used_for_quantities(series.name) && std::ranges::find(kAxisNames, series.name) == kAxisNames.end()) continue;
    std::erase_if(series.points, [](const Point& point) { return point.step < 0 || point.step >= kMostSteps; });
    if (series.points.empty()) continue;
    const auto known = std::ranges::find(window_.series, series.name, &Series::name);
    if (known == window_.series.end()) {
      window_.series.push_back(std::move(series));
      continue;
    }
    std::erase_if(known->points, [&](const Point& point) { return point.step >= series.points.front().step; });
    known->points.insert(known->points.end(), series.points.begin(), series.points.end());
  }
  ++version_;
  absorb_axes();
  for (size_t i = 0; i < kQuantities; ++i)
    if (!absorb_quantity(static_cast<Quantity>(i), window_.series.size() > names_before)) return start();
}

bool RunFeed::absorb_quantity(Quantity quantity, bool has_new_names) {
  const std::optional<Series> series = find_quantity(window_, facts_, quantity);
  if (!series || series->points.empty()) return true;
  std::string& source = sources_[static_cast<size_t>(quantity)];
  if (source.empty()) source = series->name;
  if (source == series->name)
    histories_[static_cast<size_t>(quantity)].add(series->points);
  else if (has_new_names)
    return false;
  return true;
}

void RunFeed::absorb_axes() {
  for (const std::string_view name : std::span(kAxisNames).first(kTimeNames)) {
    const Series* const times = window_.find(name);
    if (times == nullptr) continue;
    std::vector<Point> points = times->points;
    if (!points.empty() && !first_time_) first_time_ = points.front().value;
    for (Point& point : points) point.value -= *first_time_;
    elapsed_.add(points);
    break;
  }
  const auto sequence = static_cast<double>(facts_.sequence_length.value_or(0));
  for (const auto& [name, scale] : {std::pair{"total_tokens", 1.0}, {"consumed_samples", sequence}, {"samples", sequence}}) {
    const Series* const counts = window_.find(name);
    if (counts == nullptr || scale == 0) continue;
    std::vector<Point> points = counts->points;
    for (Point& point : points) point.value *= scale;
    return tokens_.add(points);
  }
  const std::optional<double> per_step = facts_.tokens_per_step();
  const Series* const losses = per_step && !window_.series.empty() ? &window_.series.front() : nullptr;
  if (losses == nullptr) return;
  std::vector<Point> points = losses->points;
  for (Point& point : points) point.value = static_cast<double>(point.step + 1) * *per_step;
  tokens_.add(points);
}

int64_t RunFeed::read_bytes() const {
  int64_t bytes = 0;
  for (const LogTail& tail : tails_) bytes += tail.offset();
  return bytes;
}

int64_t RunFeed::total_bytes() const {
  int64_t bytes = 0;
  for (const LogTail& tail : tails_) bytes += tail.size();
  return bytes;
}

bool RunFeed::is_whole() const { return is_unreadable_ || std::ranges::all_of(tails_, &LogTail::is_read); }

double RunFeed::share_read() const {
  if (is_whole()) return 1;
  const int64_t total = total_bytes();
  return total == 0 ? 1 : static_cast<double>(read_bytes()) / static_cast<double>(total);
}

int64_t RunFeed::bytes() const {
  int64_t bytes = elapsed_.bytes() + tokens_.bytes();
  for (const History& history : histories_) bytes += history.bytes();
  return bytes;
}

std::string RunFeed::log_path() const { return tails_.empty() ? "" : tails_.back().path(); }

std::optional<int64_t> RunFeed::planned_steps() const {
  const auto found = settings_.parameters.find("trainer.max_steps");
  const bool is_count = found != settings_.parameters.end() && found->second.is_number() && found->second.get<double>() >= 1 &&
                        found->second.get<double>() < 0x1p53;
  return is_count ? std::optional(static_cast<int64_t>(found->second.get<double>())) : std::nullopt;
}

std::optional<int64_t> RunFeed::steps_done() const {
  const History& loss = of(Quantity::loss);
  if (!loss.empty()) return loss.back().step + 1;
  return elapsed_.empty() ? std::nullopt : std::optional(elapsed_.back().step + 1);
}

}  // namespace trireme
