#include "telemetry/goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr std::array<const char*, kTimeUses> kNames{"step",  "data",      "validation", "checkpoint", "start-up",
                                                    "other", "lost work", "detection",  "restart",    "stopped"};
// What is done again if it comes after the checkpoint that the next attempt loads.
constexpr std::array kRepeated{TimeUse::step, TimeUse::data, TimeUse::validation, TimeUse::checkpoint};

// Half a page, so that no line crosses pages: the kernel copies a write page by page, and SIGKILL can come in between.
constexpr int64_t kLineBytes = 2048;
constexpr int64_t kLargestFile = int64_t{1} << 30;

nlohmann::json json_of(const TimeByUse& times) { return times.microseconds; }

TimeByUse times_of(const nlohmann::json& json) {
  TimeByUse times;
  for (size_t i = 0; i < kTimeUses; ++i) times.microseconds[i] = json.at(i);
  return times;
}

std::string line_of_attempt(const RunAttempt& attempt) {
  nlohmann::ordered_json json{{"attempt", attempt.number},        {"started", attempt.started},
                              {"ranks", attempt.ranks},           {"first_step", attempt.first_step},
                              {"steps_done", attempt.steps_done}, {"microseconds", json_of(attempt.times)},
                              {"saved", nlohmann::json::array()}};
  for (const WorkMark& mark : attempt.marks) json["saved"].push_back({mark.step, json_of(mark.times)});
  const auto room = [&] { return kLineBytes - std::ssize(json_text(json, kOneLine)) - 1; };
  if (attempt.ending) {
    const AttemptEnding& ending = *attempt.ending;
    json["ended"] = {{"at", ending.at}, {"status", ending.status}, {"unnoticed", ending.unnoticed}, {"reason", ""}};
    constexpr int64_t kMostEscaped = 6;  // bytes for one
    json["ended"]["reason"] = ending.reason.substr(0, static_cast<size_t>(std::max<int64_t>(room() / kMostEscaped, 0)));
  }
  std::string line = json_text(json, kOneLine);
  CHECK(std::ssize(line) < kLineBytes);
  line.resize(kLineBytes - 1, ' ');
  return line + "\n";
}

RunAttempt attempt_of(const nlohmann::json& json) {
  RunAttempt attempt{.number = json.at("attempt"),
                     .started = json.at("started"),
                     .ranks = json.at("ranks"),
                     .first_step = json.at("first_step"),
                     .steps_done = json.at("steps_done"),
                     .times = times_of(json.at("microseconds")),
                     .marks = {},
                     .ending = {}};
  for (const nlohmann::json& mark : json.at("saved")) attempt.marks.push_back({mark.at(0), times_of(mark.at(1))});
  if (json.contains("ended")) {
    const nlohmann::json& ended = json.at("ended");
    attempt.ending = {
        .at = ended.at("at"), .status = ended.at("status"), .unnoticed = ended.at("unnoticed"), .reason = ended.at("reason")};
  }
  return attempt;
}

// What an attempt had used when it saved the state after `step` steps. For a step that it has not marked, the last mark before.
TimeByUse used_until(const RunAttempt& attempt, int64_t step) {
  const auto later = std::ranges::find_if(attempt.marks, [&](const WorkMark& mark) { return mark.step > step; });
  return later == attempt.marks.begin() ? TimeByUse{} : std::prev(later)->times;
}

// What is left of an attempt in the account, as later ones repeat a part of it.
struct Counted {
  TimeByUse times;
  int64_t steps = 0;  // that are kept
};

// The work of `attempt` after `step` is repeated by a later one. Returns the number of steps.
int64_t lose_after(int64_t step, const RunAttempt& attempt, Counted& counted) {
  const TimeByUse kept = used_until(attempt, step);
  for (const TimeUse use : kRepeated) {
    const int64_t lost = counted.times[use] - std::min(kept[use], counted.times[use]);
    counted.times[use] -= lost;
    counted.times[TimeUse::lost_work] += lost;
  }
  const int64_t kept_steps = std::clamp<int64_t>(step - attempt.first_step, 0, counted.steps);
  return std::exchange(counted.steps, kept_steps) - kept_steps;
}

// From the last thing that an attempt wrote to the start of the next one. Clocks of two machines may differ, so nothing is
// negative.
TimeByUse between(const RunAttempt& before, const RunAttempt& next) {
  TimeByUse times;
  if (!before.ending) {
    times[TimeUse::restart] = std::max<int64_t>(next.started - before.clock(), 0);
    return times;
  }
  const AttemptEnding& ending = *before.ending;
  const bool is_failure = ending.status != 0 && ending.status != 75;
  const int64_t unwritten = std::max<int64_t>(ending.at - before.clock(), 0);
  times[TimeUse::detection] = std::min(ending.unnoticed, unwritten);
  times[is_failure ? TimeUse::lost_work : TimeUse::other] = unwritten - times[TimeUse::detection];
  times[is_failure ? TimeUse::restart : TimeUse::stopped] =
      std::max<int64_t>(next.started - std::max(ending.at, before.clock()), 0);
  return times;
}

}  // namespace

const char* name_of(TimeUse use) { return kNames[static_cast<size_t>(use)]; }

int64_t TimeByUse::total() const { return std::accumulate(microseconds.begin(), microseconds.end(), int64_t{0}); }

double RunTime::share(TimeUse use) const {
  const int64_t total = times.total();
  return total == 0 ? 0 : static_cast<double>(times[use]) / static_cast<double>(total);
}

std::string RunTime::text() const {
  std::string text = fmt::format("goodput {:.1f}% of {}{}", share(TimeUse::step) * 100,
                                 format_duration(static_cast<double>(times.total()) * 1e-6),
                                 attempts > 1 ? fmt::format(" in {} attempts", attempts) : "");
  constexpr double kLeastShown = 0.0005;
  const char* separator = ": ";
  for (size_t i = 0; i < kTimeUses; ++i) {
    const auto use = static_cast<TimeUse>(i);
    if (share(use) < kLeastShown) continue;
    text += fmt::format("{}{} {:.1f}%", std::exchange(separator, ", "), name_of(use), share(use) * 100);
    if (use == TimeUse::lost_work) text += fmt::format(" ({})", plural(lost_steps, "step"));
  }
  return text;
}

nlohmann::ordered_json RunTime::json() const {
  nlohmann::ordered_json json{{"goodput", share(TimeUse::step)},
                              {"wall_seconds", static_cast<double>(times.total()) * 1e-6},
                              {"attempts", attempts},
                              {"lost_steps", lost_steps}};
  for (size_t i = 0; i < kTimeUses; ++i) {
    std::string key = kNames[i];
    std::ranges::replace_if(
        key, [](char c) { return c == ' ' || c == '-'; }, '_');
    json["microseconds"][key] = times.microseconds[i];
  }
  return json;
}

RunTime account_of(std::span<const RunAttempt> attempts) {
  RunTime run{.times = {}, .attempts = std::ssize(attempts)};
  const auto add = [&](const TimeByUse& times) {
    for (size_t use = 0; use < kTimeUses; ++use) run.times.microseconds[use] += times.microseconds[use];
  };
  std::vector<Counted> counted;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const RunAttempt& attempt = attempts[i];
    const bool has_trained = attempt.first_step != RunAttempt::kNone;
    counted.push_back({.times = attempt.times, .steps = has_trained ? attempt.steps_done - attempt.first_step : 0});
    if (i > 0) add(between(attempts[i - 1], attempt));
    for (size_t earlier = i; has_trained && earlier-- > 0;) {
      const RunAttempt& before = attempts[earlier];
      if (before.first_step == RunAttempt::kNone) continue;
      run.lost_steps += lose_after(attempt.first_step, before, counted[earlier]);
      if (before.first_step <= attempt.first_step) break;
    }
  }
  for (const Counted& own : counted) add(own.times);
  return run;
}

std::vector<RunAttempt> read_attempts_of_run(const std::filesystem::path& file) {
  std::vector<RunAttempt> attempts;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return attempts;
  std::istringstream lines(read_file(file, kLargestFile));
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, std::min(line.find_first_not_of('\0'), line.size()));  // an attempt whose line could not be written
    try {
      attempts.push_back(attempt_of(parse_json(line)));
    } catch (const nlohmann::json::exception&) {
      continue;  // torn, or not ours
    }
  }
  return attempts;
}

void write_attempt(const std::filesystem::path& file, const RunAttempt& attempt) {
  File::open_update(file).write_at((attempt.number - 1) * kLineBytes, bytes_of(line_of_attempt(attempt)));
}

}  // namespace trireme
