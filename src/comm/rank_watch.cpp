#include "comm/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr double kLeastPatience = 5;
constexpr double kMedianSteps = 4;
constexpr double kUnreachable = 20;  // TCP sends again at most 13 s after a link that was cut for 10 s

bool is_judged(RunPhase phase) { return phase == RunPhase::step || phase == RunPhase::validation; }

}  // namespace

RankWatch::RankWatch(int rank, int size, double now) : rank_(rank), moved_at_(now), ranks_(static_cast<size_t>(size)) {
  for (Rank& other : ranks_) other.heard = now;
}

double RankWatch::patience(double median_step) { return std::max(kLeastPatience, kMedianSteps * median_step); }

void RankWatch::observe(Activity own, double now) {
  Rank& here = ranks_[static_cast<size_t>(rank_)];
  if (own.has_moved_since(here.activity) || own.waits != here.activity.waits) moved_at_ = now;
  own.still = now - moved_at_;
  here.activity = own;
  here.heard = now;
}

void RankWatch::hear(int rank, const Activity& activity, double now) {
  Rank& other = ranks_[static_cast<size_t>(rank)];
  if (now - other.heard > kLeastPatience) returned_at_ = now;
  other.activity = activity;
  other.heard = now;
}

void RankWatch::leave_out(int rank) { ranks_[static_cast<size_t>(rank)].has_left = true; }

void RankWatch::forgive(double now) {
  moved_at_ = now;
  for (Rank& rank : ranks_) {
    rank.heard = now;
    rank.activity.still = 0;
  }
}

bool RankWatch::hangs_here(double median_step) const {
  const Activity& own = of(rank_);
  return is_judged(own.phase) && !own.waits && own.still >= patience(median_step) - kBeatSeconds;
}

// What a heartbeat says was true when it was sent, so a rank is named one heartbeat earlier than its patience allows.
std::optional<RankWatch::Trouble> RankWatch::trouble_of(int rank, double now, double patience,
                                                        const std::function<bool(int)>& answers) {
  Rank& other = ranks_[static_cast<size_t>(rank)];
  const double silence = now - other.heard;
  const Activity& activity = other.activity;
  if (silence > patience) {
    const bool is_stopped = answers(rank);
    if (!is_stopped) other.unanswered_at = now;
    // The heartbeats of a machine that answers again come when TCP sends again.
    const bool was_unreachable = other.unanswered_at > other.heard;
    const double patience_with_machine = is_stopped ? other.unanswered_at - other.heard + kUnreachable : kUnreachable;
    return Trouble{.seconds = silence,
                   .limit = was_unreachable ? std::max(2 * patience, patience_with_machine) : 2 * patience,
                   .text = fmt::format("{}, silent for {:.0f} s: {}", activity.place(), silence,
                                       is_stopped ? "its process is stopped" : "its machine does not answer")};
  }
  if (rank_ != 0 || activity.waits || activity.still < patience - kBeatSeconds) return std::nullopt;
  const std::string text = fmt::format("{}, no progress for {:.0f} s", activity.place(), activity.still + silence);
  if (is_judged(activity.phase)) return Trouble{.seconds = activity.still, .limit = 2 * patience - kBeatSeconds, .text = text};
  if (activity.phase == RunPhase::data) return Trouble{.seconds = activity.still, .limit = 0, .text = text};
  return std::nullopt;
}

// Every rank stands still or waits, none is in a phase that may take its time, and all machines answer.
std::optional<RankWatch::Trouble> RankWatch::trouble_of_all(double now, double patience) const {
  if (now - returned_at_ < kUnreachable)
    return std::nullopt;  // its data connections take longer to come back than its heartbeats
  double still = now;
  for (const Rank& rank : ranks_) {
    const RunPhase phase = rank.activity.phase;
    const bool is_known = is_judged(phase) || phase == RunPhase::device_step;
    if (rank.has_left || !is_known || now - rank.heard > patience) return std::nullopt;
    still = std::min(still, rank.activity.still);
  }
  if (still < patience - kBeatSeconds) return std::nullopt;
  return Trouble{.seconds = still,
                 .limit = 2 * patience - kBeatSeconds,
                 .text = fmt::format("{}: no rank has made progress for {:.0f} s, all wait for others or for their devices",
                                     ranks_.front().activity.place(), still)};
}

void RankWatch::report(const std::optional<Trouble>& trouble, int rank, bool& is_named, std::vector<HangFinding>& found) const {
  using Kind = HangFinding::Kind;
  if (!trouble) {
    if (!std::exchange(is_named, false)) return;
    found.push_back({.kind = Kind::continues, .rank = rank, .text = of(std::max(rank, 0)).text()});
    return;
  }
  HangFinding finding{.kind = Kind::lags, .rank = rank, .seconds = trouble->seconds, .text = trouble->text};
  if (trouble->limit > 0) finding.seconds_left = std::max(trouble->limit - trouble->seconds, 0.0);
  if (trouble->limit > 0 && trouble->seconds >= trouble->limit) finding.kind = Kind::hangs;
  if (finding.kind == Kind::lags && is_named) return;
  is_named = true;
  found.push_back(std::move(finding));
}

std::vector<HangFinding> RankWatch::judge(double now, double median_step, const std::function<bool(int)>& answers) {
  std::vector<HangFinding> found;
  const double limit = patience(median_step);
  bool has_trouble = false;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    Rank& other = ranks_[static_cast<size_t>(rank)];
    if (other.has_left || (rank_ != 0 && rank != 0)) continue;
    const std::optional<Trouble> trouble = trouble_of(rank, now, limit, answers);
    has_trouble = has_trouble || trouble.has_value();
    report(trouble, rank, other.is_named, found);
  }
  if (rank_ == 0) report(has_trouble ? std::nullopt : trouble_of_all(now, limit), kWholeJob, job_is_named_, found);
  return found;
}

}  // namespace trireme
