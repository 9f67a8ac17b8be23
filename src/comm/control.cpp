#include "comm/control.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/start_threads.h"
#include "comm/clock_offset.h"

namespace trireme {
namespace {

using nlohmann::json;
using std::chrono::seconds;

enum Kind : uint8_t { kBeat, kMail, kFailure, kEnd, kAsk, kGoodbye, kAskTime, kTime };

constexpr std::chrono::milliseconds kTurn{100};  // how often the thread checks the clock
constexpr seconds kBeatEvery{1};
constexpr seconds kSilent{3};        // silence longer than this is reported
constexpr seconds kGraceToLeave{5};  // after the job has ended
constexpr seconds kTimeToSpeak{1};   // for the deputy if rank 0 is gone
constexpr const char* kAnswer = "missing";
constexpr const char* kTimes = "times";  // rank 0's clock, and this rank's when the answer came

// Waits shorter than this are not seen by the others, so a pause of this thread must be longer to count.
constexpr seconds kPause{2};

double steady_seconds() { return system_clock().seconds(); }

std::string end_text(const JobEnd& end) {
  return fmt::format("{} {} {} {} {}", end.status, end.rank, end.unnoticed, end.is_hang ? 1 : 0, end.line);
}

// Counts a wait as long as it lasts.
class CountedWait {
 public:
  explicit CountedWait(std::atomic<int>* count) : count_(count) {
    if (count_ != nullptr) *count_ += 1;
  }
  ~CountedWait() {
    if (count_ != nullptr) *count_ -= 1;
  }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;

 private:
  std::atomic<int>* count_;
};

JobEnd end_from(const std::string& text) {
  std::istringstream words(text);
  JobEnd end;
  words >> end.status >> end.rank >> end.unnoticed >> end.is_hang;
  words.get();
  std::getline(words, end.line, '\0');
  return end;
}

// The first rank on another machine than rank 0, so that the loss of that machine is not a special case.
int deputy_of(const std::vector<RankPlace>& places) {
  for (size_t rank = 1; rank < places.size(); ++rank)
    if (places[rank].host != places[0].host) return static_cast<int>(rank);
  return places.size() > 1 ? 1 : 0;
}

}  // namespace

Control::Control() : places_{place_of_this_process()}, watch_ranks_(0, 1, steady_seconds()) {}

Control::Control(Company company, LastResort last_resort)
    : rank_(company.rank),
      last_resort_(last_resort),
      peers_(company.ranks.size()),
      watch_ranks_(company.rank, company.size(), steady_seconds()) {
  for (size_t other = 0; other < company.ranks.size(); ++other) {
    places_.push_back(company.ranks[other].place);
    if (!company.connections[other].is_open()) continue;
    peers_[other] = std::make_unique<Peer>();
    peers_[other]->connection = std::move(company.connections[other]);
    peers_[other]->heard = Clock::now();
  }
  deputy_ = deputy_of(places_);
  if (size() > 1) thread_ = start_thread([this] { run(); });
}

Control::~Control() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();  // it may still be sending the end of the job, which must precede the goodbye
  for (const int other : living()) send(other, kGoodbye, "");
}

std::string Control::name_of(int rank) const {
  const RankPlace& place = places_[static_cast<size_t>(rank)];
  return fmt::format("rank {} ({}, process {})", rank, place.host, place.process);
}

void Control::set_timeout(seconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

void Control::connect(std::function<Communication()> communication, std::function<void(const JobEnd&)> on_end) {
  const std::lock_guard lock(mutex_);
  communication_ = std::move(communication);
  on_end_ = std::move(on_end);
}

void Control::set_hangs(Hangs hangs) {
  const std::lock_guard lock(mutex_);
  hangs_ = hangs;
}

// ------------------------------------------------------------------------------------------------------------- the thread

void Control::run() {
  Clock::time_point next_beat = Clock::now(), turn = next_beat;
  while (!stop_) {
    std::vector<pollfd> entries;
    const std::vector<int> ranks = living();
    for (const int other : ranks) entries.push_back({.fd = peer(other).connection.descriptor(), .events = POLLIN, .revents = 0});
    ::poll(entries.data(), entries.size(), static_cast<int>(kTurn.count()));
    notice_pause(std::exchange(turn, Clock::now()));
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].revents != 0) take_messages(ranks[i]);
    observe();
    if (Clock::now() >= next_beat) {
      send_beats();
      next_beat = Clock::now() + kBeatEvery;
    }
    ask_watch();
    judge();
    exit_if_overdue();
  }
}

// The other ranks may have given up a process that was stopped (SIGSTOP) for about as long as their timeout.
void Control::notice_pause(Clock::time_point before) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now - before > std::max(timeout_ - 2 * kBeatEvery, kSilent)) quiet_until_ = now + kGraceToLeave;
  if (now - before > kPause) watch_ranks_.forgive(steady_seconds());
}

void Control::observe() {
  std::function<Communication()> source;
  {
    const std::lock_guard lock(mutex_);
    source = communication_;
  }
  Communication communication = source ? source() : Communication{};
  Activity own = board_.seen();
  for (const CallCount& call : communication.calls) own.calls += call.count;
  own.waits = communication.waits || owner_waits_ > 0;
  const std::lock_guard lock(mutex_);
  own_ = std::move(communication);
  watch_ranks_.observe(own, steady_seconds());
}

void Control::judge() {
  std::vector<HangFinding> findings;
  {
    const std::lock_guard lock(mutex_);
    if (hangs_ == Hangs::ignored || end_) return;
    findings = watch_ranks_.judge(steady_seconds(), board_.median_step_seconds(),
                                  [&](int other) { return peer(other).connection.answers(kSilent); });
  }
  for (const HangFinding& finding : findings) {
    const std::string name = finding.rank == kWholeJob ? "the job" : name_of(finding.rank);
    if (finding.kind == HangFinding::Kind::hangs) {
      const JobEnd end{.status = kFailed,
                       .line = fmt::format("{} hangs: {}", name, finding.text),
                       .rank = finding.rank,
                       .unnoticed = finding.seconds,
                       .is_hang = true};
      if (rank_ != 0) note_silent_rank_0();
      if (declare(end)) say(end);
      return;
    }
    if (rank_ != 0 && rank_ != deputy_) continue;
    const std::string deadline =
        finding.seconds_left > 0 ? fmt::format("; the job ends if this lasts another {:.0f} s", finding.seconds_left) : "";
    fmt::print(stderr, "{} {}: {}{}\n", name, finding.kind == HangFinding::Kind::lags ? "lags" : "continues", finding.text,
               deadline);
  }
}

void Control::note_silent_rank_0() {
  const std::lock_guard lock(mutex_);
  rank_0_silent_ = true;
}

void Control::ask_watch() {
  std::function<std::optional<JobEnd>()> watch;
  {
    const std::lock_guard lock(mutex_);
    watch = watch_;
  }
  const std::optional<JobEnd> end = watch ? watch() : std::nullopt;
  if (!end) return;
  set_watch({});
  if (rank_ != 0) return send(0, kFailure, end_text(*end));
  if (declare(*end)) say(*end);
}

void Control::set_end_report(EndReport report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

std::vector<RankSeen> Control::seen() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankSeen> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& found = peers_.empty() ? nullptr : peers_[static_cast<size_t>(rank)].get();
    ranks.push_back({.name = name_of(rank),
                     .activity = rank == rank_ && size() == 1 ? board_.seen() : watch_ranks_.of(rank),
                     .silence = rank == rank_ ? 0 : watch_ranks_.silence_of(rank, steady_seconds()),
                     .is_gone = found != nullptr && found->lost});
  }
  return ranks;
}

void Control::set_watch(std::function<std::optional<JobEnd>()> watch) {
  const std::lock_guard lock(mutex_);
  watch_ = std::move(watch);
}

std::vector<int> Control::living() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other)
    if (const auto& found = peers_[static_cast<size_t>(other)]; found && !found->left && !found->lost) ranks.push_back(other);
  return ranks;
}

void Control::take_messages(int from) {
  const TcpConnection::State state = peer(from).connection.read();
  try {
    while (const std::optional<TcpMessage> message = peer(from).connection.next()) handle(from, *message);
  } catch (const std::exception& error) {
    declare({.status = kFailed, .line = fmt::format("{} sent what cannot be read: {}", name_of(from), error.what())});
  }
  if (state == TcpConnection::State::closed) lose(from);
}

void Control::handle(int from, const TcpMessage& message) {
  std::unique_lock lock(mutex_);
  peer(from).heard = Clock::now();
  switch (message.kind) {
    case kBeat: {
      const json in = parse_json(message.text);
      watch_ranks_.hear(from, activity_of(in.at("activity")), steady_seconds());
      if (in.contains("others"))
        for (const json& other : in.at("others"))
          watch_ranks_.hear(other.at(0), activity_of(other.at(1)), steady_seconds() - other.at(2).get<double>());
      std::vector<CallCount>& calls = peer(from).calls;
      calls.clear();
      for (const json& call : in.at("calls")) calls.push_back({.group = call[0], .stream = call[1], .count = call[2]});
      return;
    }
    case kMail: {
      const size_t end = message.text.find('\0');
      mail_[{from, message.text.substr(0, end)}].push_back(message.text.substr(end + 1));
      changed_.notify_all();
      return;
    }
    case kFailure: {
      JobEnd end = end_from(message.text);
      end.line = fmt::format("{}: {}", name_of(from), end.line);
      end.rank = from;
      lock.unlock();
      declare(end);
      return;
    }
    case kEnd:
      told_by_rank_0_ = true;
      lock.unlock();
      declare(end_from(message.text));
      return;
    case kAsk: {
      lock.unlock();
      const json in = parse_json(message.text);
      const CallCount call{.group = in.at("group"), .stream = in.at("stream"), .count = in.at("count")};
      const std::string answer = missing_here(in.at("ranks").get<std::vector<int>>(), call);
      return send(from, kMail, std::string(kAnswer) + '\0' + answer);
    }
    case kAskTime:
      lock.unlock();
      return send(from, kTime, fmt::format("{}", system_clock().seconds()));
    case kTime:
      mail_[{from, kTimes}].push_back(fmt::format("{} {}", message.text, system_clock().seconds()));
      changed_.notify_all();
      return;
    case kGoodbye:
      peer(from).left = true;
      watch_ranks_.leave_out(from);
      changed_.notify_all();
      return;
    default:
      return;
  }
}

// A connection that closes without a goodbye means that its process died.
void Control::lose(int rank) {
  int64_t step = board_.seen().step;
  double silence = 0;
  {
    const std::lock_guard lock(mutex_);
    if (peer(rank).left || peer(rank).lost) return;
    silence = watch_ranks_.silence_of(rank, steady_seconds());
    peer(rank).lost = true;
    watch_ranks_.leave_out(rank);
    step = std::max(step, watch_ranks_.of(rank).step);
    changed_.notify_all();
  }
  const std::string when = step < 0 ? "before the first step" : fmt::format("in step {}", step + 1);
  JobEnd end{.status = kFailed, .line = fmt::format("{} died {}", name_of(rank), when), .rank = rank};
  // A process that was killed because it was stopped.
  if (silence > 2 * RankWatch::kBeatSeconds) end.unnoticed = silence;
  if (declare(end)) say(end);
}

void Control::send(int to, uint8_t kind, const std::string& text) {
  const std::lock_guard lock(peer(to).sending);
  peer(to).connection.send({.kind = kind, .text = text});  // reading from a rank that is gone notices a failed send
}

void Control::send_beats() {
  std::string text;
  for (const int other : living()) {
    if (text.empty() || other == deputy_) text = beat_for(other);
    send(other, kBeat, text);
    if (other == deputy_) text.clear();
  }
}

// The deputy also hears of all others.
std::string Control::beat_for(int other) const {
  const std::lock_guard lock(mutex_);
  json beat{{"activity", json_of(watch_ranks_.of(rank_))}, {"calls", json::array()}};
  if (rank_ != 0)
    for (const CallCount& call : own_.calls) beat["calls"].push_back({call.group, call.stream, call.count});
  if (rank_ == 0 && other == deputy_)
    for (int rank = 1; rank < size(); ++rank)
      if (rank != deputy_)
        beat["others"].push_back({rank, json_of(watch_ranks_.of(rank)), watch_ranks_.silence_of(rank, steady_seconds())});
  return json_text(beat, kOneLine);
}

// ------------------------------------------------------------------------------------------------------------------- mail

std::string Control::take(int from, const std::string& key) {
  const CountedWait wait(std::this_thread::get_id() == owner_ ? &owner_waits_ : nullptr);
  std::unique_lock lock(mutex_);
  std::deque<std::string>& queue = mail_[{from, key}];
  while (queue.empty()) {
    if (end_) throw JobEnded(*end_);
    if (peer(from).left)
      throw JobEnded({.status = kFailed, .line = fmt::format("{} has left and was waited for (\"{}\")", name_of(from), key)});
    if (const auto silence = Clock::now() - peer(from).heard; silence > timeout_)
      throw JobEnded({.status = kFailed,
                      .line = fmt::format("waited {} s for {} (\"{}\"), and heard nothing of it",
                                          std::chrono::duration_cast<seconds>(silence).count(), name_of(from), key)});
    changed_.wait_for(lock, kTurn);
  }
  std::string text = std::move(queue.front());
  queue.pop_front();
  return text;
}

std::vector<std::string> Control::gather(const std::string& key, const std::string& text) {
  if (rank_ != 0) {
    send(0, kMail, key + '\0' + text);
    return {};
  }
  std::vector<std::string> texts = {text};
  for (int other = 1; other < size(); ++other) texts.push_back(take(other, key));
  return texts;
}

std::string Control::share(const std::string& key, const std::string& text) {
  if (rank_ != 0) return take(0, key);
  const std::string mail = key + '\0' + text;
  for (int other = 1; other < size(); ++other) send(other, kMail, mail);
  return text;
}

std::string Control::first_of(const std::string& key, const std::string& text) {
  const std::vector<std::string> texts = gather(key, text);
  const auto first = std::ranges::find_if(texts, [](const std::string& found) { return !found.empty(); });
  return share(key, first == texts.end() ? "" : *first);
}

double Control::offset_to_rank_0() {
  constexpr int kQuestions = 20;  // most are slowed down by something
  std::vector<ClockSample> samples;
  for (int i = 0; i < kQuestions && rank_ != 0; ++i) {
    ClockSample sample{.sent = system_clock().seconds()};
    send(0, kAskTime, "");
    std::istringstream(take(0, kTimes)) >> sample.answered >> sample.received;
    samples.push_back(sample);
  }
  return clock_offset(samples);
}

// -------------------------------------------------------------------------------------------------------- who is missing

bool Control::has_begun(int rank, const CallCount& call) {
  const auto counts = [&](const std::vector<CallCount>& calls) {
    return std::ranges::any_of(calls, [&](const CallCount& other) {
      return other.group == call.group && other.stream == call.stream && other.count >= call.count;
    });
  };
  if (rank == 0) return communication_ && counts(communication_().calls);
  return counts(peer(rank).calls);
}

Control::Clock::duration Control::silence_of(int rank) const {
  const std::lock_guard lock(mutex_);
  return Clock::now() - peers_[static_cast<size_t>(rank)]->heard;
}

std::string Control::missing_here(const std::vector<int>& ranks, const CallCount& call) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (const int rank : ranks) {
    if (has_begun(rank, call)) continue;
    std::string text = name_of(rank) + " did not arrive";
    if (rank != 0)
      if (const auto silence = Clock::now() - peer(rank).heard; silence > kSilent)
        text += fmt::format(" and has been silent for {} s", std::chrono::duration_cast<seconds>(silence).count());
    missing.push_back(std::move(text));
  }
  return missing.empty() ? "all of them arrived" : fmt::format("{}", fmt::join(missing, ", "));
}

std::string Control::missing_text(const std::vector<int>& ranks, const CallCount& call) {
  if (size() == 1) return "";
  // Wait for heartbeats that were sent after this rank began to wait.
  std::this_thread::sleep_for(2 * kBeatEvery);
  if (rank_ == 0) return missing_here(ranks, call);
  if (const auto silence = silence_of(0); silence > kSilent)
    return fmt::format("{} has been silent for {} s", name_of(0), std::chrono::duration_cast<seconds>(silence).count());
  send(0, kAsk,
       json_text(json{{"ranks", ranks}, {"group", call.group}, {"stream", call.stream}, {"count", call.count}}, kOneLine));
  std::unique_lock lock(mutex_);
  std::deque<std::string>& answers = mail_[{0, kAnswer}];
  if (!changed_.wait_for(lock, kSilent, [&] { return end_ || !answers.empty(); })) return name_of(0) + " does not answer";
  if (answers.empty()) return end_->line;
  std::string answer = std::move(answers.front());
  answers.pop_front();
  return answer;
}

// ------------------------------------------------------------------------------------------------------------ how it ends

bool Control::declare(const JobEnd& end) {
  std::function<void(const JobEnd&)> on_end;
  std::function<void()> hangs;
  {
    const std::lock_guard lock(mutex_);
    if (end_) return false;
    end_ = end;
    ended_at_ = Clock::now();
    on_end = on_end_;
    hangs = report_.hangs;
    changed_.notify_all();
  }
  if (rank_ == 0)
    for (const int other : living()) send(other, kEnd, end_text(end));
  {
    const std::lock_guard lock(mutex_);
    others_told_ = true;
    changed_.notify_all();
  }
  if (on_end) on_end(end);
  if (end.is_hang && end.rank == rank_ && hangs) hangs();
  return true;
}

void Control::require_going_on() const {
  const std::lock_guard lock(mutex_);
  if (end_) throw JobEnded(*end_);
}

JobEnd Control::settle(const JobEnd& mine, bool is_own) {
  if (size() == 1) return mine;
  const auto known = [&](std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return end_.has_value(); });
    return end_;
  };
  if (rank_ == 0) {
    // A failure seen here may be the consequence of a rank that died a moment ago.
    const std::optional<JobEnd> before = known(is_own ? std::chrono::milliseconds(0) : seconds(1));
    declare(mine);
    std::unique_lock lock(mutex_);
    // The others must be told before this rank exits: a rank that leaves without a message is taken for dead.
    changed_.wait_for(lock, kGraceToLeave, [&] { return others_told_; });
    // A failure that other ranks found too is printed without a rank's name.
    const bool is_mine = is_own || !before || before->line.ends_with(mine.line);
    return is_mine ? mine : *before;
  }
  if (const std::optional<JobEnd> before = known(std::chrono::milliseconds(0))) return *before;
  send(0, kFailure, end_text(mine));
  const std::optional<JobEnd> answer = known(silence_of(0) > kSilent ? std::chrono::milliseconds(0) : kGraceToLeave);
  const std::lock_guard lock(mutex_);
  rank_0_silent_ = !answer;
  return answer.value_or(mine);
}

bool Control::speaks() const {
  const std::lock_guard lock(mutex_);
  if (rank_ == 0) return Clock::now() >= quiet_until_;
  return rank_ == deputy_ && !told_by_rank_0_ && (peers_[0]->lost || rank_0_silent_);
}

// Printed before the report is written, whose disk may hang. A second caller waits for the first, because it exits after that.
void Control::say(const JobEnd& end) {
  if (!speaks()) return;
  constexpr seconds kLongestReport{2};
  const std::unique_lock speaking(speaking_, kLongestReport);
  EndReport report;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_spoken_, true)) return;
    if (end.status == kFailed) report = report_;
  }
  fmt::print(stderr, "trireme: {}{}\n", end.line, report.place.empty() ? "" : "; " + report.place);
  std::fflush(stderr);
  if (report.write) report.write(end);
}

void Control::wait_for_speaker() {
  if (speaks()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kGraceToLeave, [&] { return peer(0).lost || peer(0).left; });
  const bool deputy_speaks = peer(0).lost && !told_by_rank_0_;
  lock.unlock();
  if (deputy_speaks) std::this_thread::sleep_for(kTimeToSpeak);
}

void Control::exit_if_overdue() {
  JobEnd end;
  {
    const std::lock_guard lock(mutex_);
    const seconds grace = watch_ranks_.hangs_here(board_.median_step_seconds()) ? seconds(1)
                          : rank_ == 0                                          ? kGraceToLeave
                                                                                : 2 * kGraceToLeave;
    if (last_resort_ == LastResort::none || !end_ || Clock::now() < ended_at_ + grace) return;
    end = *end_;
  }
  say(end);
  std::fflush(nullptr);
  std::_Exit(end.status);
}

}  // namespace trireme
