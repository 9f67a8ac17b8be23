#include "launch/local/attempt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "comm/tcp.h"
#include "launch/local/child.h"
#include "launch/local/process_id.h"
#include "launch/local/rank_socket.h"
#include "launch/local/rank_start.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr auto kTick = std::chrono::milliseconds(200);
constexpr seconds kLeaveBySelf(4);     // ranks that know why the job ends
constexpr seconds kLeaveOnSigterm(8);  // both counted from the failure
constexpr seconds kMostStopped(5);
constexpr seconds kStartersStop(3);  // for what cannot be told more gently
constexpr seconds kDrainLimit(2);
constexpr int kSignalled = 128;

struct RunningRank {
  int64_t local = 0;
  pid_t process = 0;
  int descriptor = -1;  // readable when the process has ended
  int output = -1;
  bool has_ended = false;
  std::optional<SteadyClock::time_point> stopped_since;
};

std::string end_text(int status) {
  return status > kSignalled ? fmt::format("was killed by signal {}", status - kSignalled)
                             : fmt::format("ended with status {}", status);
}

// The scratch folder of a job, for one attempt.
class Scratch {
 public:
  explicit Scratch(const LocalJob& job) : folder_(scratch_folder(job)) {
    if (folder_.empty()) return;
    remove_tree(folder_);  // of an attempt whose supervisor was killed
    create_folders(folder_);
  }
  ~Scratch() {
    std::error_code ignored;  // what is left is removed before the next attempt
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  fs::path folder_;
};

class AttemptRun {
 public:
  AttemptRun(const LocalJob& job, RankLogs& logs, StopRequests& stop, std::vector<bool>& done_tasks, Recovery& recovery)
      : job_(job), logs_(logs), stop_(stop), done_tasks_(done_tasks), recovery_(recovery) {}
  ~AttemptRun() {
    for (const RunningRank& rank : ranks_) close_rank(rank);
    for (const int end : {starter_output_, starter_input_, lifeline_[0], lifeline_[1]})
      if (end >= 0) ::close(end);
  }
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  AttemptEnd run(AttemptStart start) {
    const Scratch scratch(job_);
    start_ = std::move(start);
    start_.socket = socket_.name();
    if (job_.world > 1 && job_.world == job_.ranks) start_.port = TcpListener().port();  // free a moment ago
    open_pipes();
    start_children();
    while (!is_over()) {
      wait_for_events();
      reap();
      start_children();
      pass_requests();
      end_stopped_ranks();
      hasten();
    }
    finish();
    if (failed_) recovery_.leave(Recovery::now());
    return end();
  }

 private:
  void open_pipes() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Failure("no pipe for the ranks of {}", job_.name);
    starter_output_ = ends[0];
    starter_input_ = ends[1];
    ::fcntl(starter_output_, F_SETFL, O_NONBLOCK);
    if (job_.starter == RankStarter::container && ::pipe2(lifeline_.data(), O_CLOEXEC) != 0)
      throw Failure("no pipe for the container of {}", job_.name);
  }

  void start_one(const std::vector<std::string>& command, int64_t slot) {
    const std::vector<EnvironmentVariable> environment =
        job_.starter == RankStarter::container ? std::vector<EnvironmentVariable>{} : rank_environment(job_, start_, slot);
    children_.push_back({.process = start_child(command, environment, starter_input_, lifeline_[0]), .slot = slot});
  }

  // One process for a container or mpirun, one per rank otherwise; of an array of tasks some at a time.
  void start_children() {
    if (stop_.stops() > 0) return;
    if (job_.starter != RankStarter::itself) {
      if (children_.empty())
        start_one(job_.starter == RankStarter::container ? container_command(job_, start_) : start_command(job_, start_), 0);
      return;
    }
    if (job_.tasks.empty()) {
      if (children_.empty())
        for (int64_t rank = 0; rank < job_.ranks; ++rank) start_one(start_command(job_, start_), rank);
      return;
    }
    const auto running = [&] { return std::ranges::count(children_, false, &Child::has_ended); };
    for (; next_task_ < std::ssize(job_.tasks) && running() < job_.tasks_at_once; ++next_task_)
      if (!done_tasks_[static_cast<size_t>(next_task_)]) start_one(start_command(job_, start_), next_task_);
  }

  bool is_over() const {
    const bool has_more = stop_.stops() == 0 && !job_.tasks.empty() && next_task_ < std::ssize(job_.tasks);
    return !has_more && std::ranges::all_of(children_, &Child::has_ended) && std::ranges::all_of(ranks_, &RunningRank::has_ended);
  }

  void wait_for_events() {
    std::vector<pollfd> waiting;
    stop_.add_to(waiting);
    const size_t first_own = waiting.size();
    waiting.push_back({socket_.descriptor(), POLLIN, 0});
    waiting.push_back({starter_output_, POLLIN, 0});
    for (const RunningRank& rank : ranks_) {
      waiting.push_back({rank.output, POLLIN, 0});  // -1 is left out
      waiting.push_back({rank.has_ended ? -1 : rank.descriptor, POLLIN, 0});
    }
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(kTick.count())) <= 0) return;
    stop_.take();
    if (waiting[first_own + 1].revents != 0) read_starter();
    const size_t known = ranks_.size();
    for (size_t i = 0; i < known; ++i) {
      if (waiting[first_own + 2 + 2 * i].revents != 0) read_rank(ranks_[i]);
      if (waiting[first_own + 3 + 2 * i].revents != 0) note_end(ranks_[i]);
    }
    if (waiting[first_own].revents != 0) accept_ranks();
  }

  void accept_ranks() {
    while (const auto reported = socket_.accept()) {
      ranks_.push_back({.local = reported->local_rank,
                        .process = reported->process,
                        .descriptor = open_process(reported->process),
                        .output = reported->output,
                        .has_ended = false,
                        .stopped_since = {}});
      RunningRank& rank = ranks_.back();
      if (rank.descriptor < 0) note_end(rank);
      if (stop_.stops() > 0) ::kill(rank.process, stop_.stops() > 1 ? SIGKILL : stop_.signal());
    }
  }

  enum class Found : uint8_t { bytes, nothing_now, end };
  static Found read_some_of(int descriptor, std::string& bytes) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR ? Found::nothing_now : Found::end;
    bytes.assign(buffer.data(), static_cast<size_t>(count));
    return count > 0 ? Found::bytes : Found::end;
  }

  void read_rank(RunningRank& rank) {
    std::string bytes;
    const Found found = read_some_of(rank.output, bytes);
    if (found == Found::bytes) logs_.add(job_.first_rank + rank.local, bytes);
    if (logs_.has_complaint()) recovery_.notice(Recovery::now());
    if (!logs_.take_first_step()) return close_ended_output(rank, found);
    if (const std::string line = recovery_.first_step(Recovery::now()); !line.empty()) logs_.say(line);
    close_ended_output(rank, found);
  }

  void close_ended_output(RunningRank& rank, Found found) {
    if (found != Found::end) return;
    logs_.end_of(job_.first_rank + rank.local);
    ::close(rank.output);
    rank.output = -1;
  }

  std::string starter_name() const {
    if (job_.starter == RankStarter::itself) return "start";
    return job_.starter == RankStarter::mpirun ? "mpirun" : fs::path(job_.container.front()).filename().string();
  }

  // What mpirun says once ranks run is about their end, which they explain better. It is kept for ends that they do not explain.
  void read_starter() {
    constexpr size_t kMostKept = 16 << 10;
    for (std::string bytes; read_some_of(starter_output_, bytes) == Found::bytes;) {
      logs_.add_of_starter(starter_name(), bytes);
      if (job_.starter != RankStarter::mpirun || ranks_.empty())
        logs_.quote(starter_name(), bytes);
      else if (starter_text_.size() < kMostKept)
        starter_text_ += bytes;
    }
  }

  void note_end(RunningRank& rank) {
    rank.has_ended = true;
    if (rank.descriptor >= 0) ::close(rank.descriptor);
    rank.descriptor = -1;
    if (!first_ended_) first_ended_ = rank.local;
  }

  void reap() {
    int status = 0;
    for (pid_t process = 0; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto child = std::ranges::find(children_, process, &Child::process);
      if (child == children_.end() || child->has_ended) continue;  // what a rank left behind
      child->has_ended = true;
      child->status = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
      if (!job_.tasks.empty() && child->status == kDone) done_tasks_[static_cast<size_t>(child->slot)] = true;
      if (child->status == kDone && job_.starter == RankStarter::itself) continue;
      if (child->status != kDone && !failed_) failed_ = *child;
      if (failed_at_ || !job_.tasks.empty()) continue;
      failed_at_ = SteadyClock::now();
      recovery_.notice(*failed_at_);
    }
  }

  void pass_requests() {
    if (stop_.take_stack_request()) signal_ranks(SIGUSR1);
    if (stop_.stops() == passed_) return;
    if (stop_.stops() > 1) {
      signal_ranks(SIGKILL);
      signal_children(SIGKILL);
    } else {
      logs_.say(fmt::format("{}: the ranks are told to stop", signal_text(stop_.signal())));
      signal_ranks(stop_.signal());
      if (job_.starter == RankStarter::container) signal_children(SIGTERM);
      stopped_at_ = SteadyClock::now();
    }
    passed_ = stop_.stops();
  }

  static const char* signal_text(int signal) { return signal == SIGHUP ? "the terminal is gone" : ::sigabbrev_np(signal); }

  // A rank that stands still would make the others wait for the whole of trainer.rank_timeout.
  void end_stopped_ranks() {
    const auto now = SteadyClock::now();
    if (now - looked_at_ < seconds(1)) return;
    looked_at_ = now;
    for (RunningRank& rank : ranks_) {
      if (rank.has_ended || process_state(rank.process) != 'T') {
        rank.stopped_since.reset();
        continue;
      }
      if (!rank.stopped_since) rank.stopped_since = now;
      if (now - *rank.stopped_since < kMostStopped) continue;
      own_reason_ = fmt::format("rank {} (process {}) was stopped by a signal for {} s", job_.first_rank + rank.local,
                                rank.process, kMostStopped.count());
      logs_.say(own_reason_ + "; it is killed");
      recovery_.notice(now);
      ::kill(-rank.process, SIGKILL);
    }
  }

  // Ranks that should have left.
  void hasten() {
    const auto now = SteadyClock::now();
    if (failed_at_ && now - *failed_at_ > kLeaveOnSigterm) {
      signal_ranks(SIGKILL);
      signal_children(SIGKILL);
      recovery_.signal(SIGKILL, now);
    } else if (failed_at_ && now - *failed_at_ > kLeaveBySelf && !was_hastened_) {
      was_hastened_ = true;
      signal_ranks(SIGTERM);
      recovery_.signal(SIGTERM, now);
    }
    // mpirun has nothing left to do. It may hang if its ranks end while it still starts others.
    const bool have_all_ended = !ranks_.empty() && std::ranges::all_of(ranks_, &RunningRank::has_ended);
    if (!have_all_ended || job_.starter != RankStarter::mpirun)
      ranks_ended_at_.reset();
    else if (!ranks_ended_at_)
      ranks_ended_at_ = now;
    if (ranks_ended_at_ && now - *ranks_ended_at_ > kLeaveOnSigterm) signal_children(SIGKILL);
    // mpirun before it has started any rank, or a rank before it has reported.
    if (stopped_at_ && ranks_.empty() && now - *stopped_at_ > kStartersStop) signal_children(SIGTERM);
  }

  // A rank is a process group, with whatever it has started.
  void signal_ranks(int signal) {
    for (const RunningRank& rank : ranks_) {
      if (rank.has_ended) continue;
      if (signal == SIGKILL) ::kill(-rank.process, signal);
      ::kill(rank.process, signal);
    }
  }

  void signal_children(int signal) {
    for (const Child& child : children_)
      if (!child.has_ended) ::kill(child.process, signal);
  }

  void finish() {
    kill_orphans(children_);
    const auto limit = SteadyClock::now() + kDrainLimit;
    const auto is_open = [](const RunningRank& rank) { return rank.output >= 0; };
    accept_ranks();
    while (std::ranges::any_of(ranks_, is_open) && SteadyClock::now() < limit) {
      for (RunningRank& rank : ranks_)
        if (is_open(rank)) read_rank(rank);
      ::usleep(1000);
    }
    read_starter();
    if (job_.starter == RankStarter::container) remove_container();
  }

  void remove_container() {
    if (job_.container_removal.empty()) return;
    const pid_t process = start_child(job_.container_removal, {}, ::open("/dev/null", O_RDWR | O_CLOEXEC), -1);
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) continue;
  }

  AttemptEnd end() {
    std::string complaint = logs_.take_complaint();
    if (!failed_) return {kDone, ""};
    // mpirun ends the others with SIGTERM, which explains nothing.
    if (stop_.stops() == 0 && complaint.starts_with("SIGTERM before the first step")) complaint.clear();
    if (complaint.empty() && own_reason_.empty() && stop_.stops() == 0) logs_.quote(starter_name(), starter_text_);
    const int64_t rank = job_.first_rank + (job_.starter == RankStarter::mpirun ? first_ended_.value_or(0) : failed_->slot);
    const bool is_ranks = job_.starter != RankStarter::container && (!ranks_.empty() || job_.starter == RankStarter::itself);
    const std::string what = !job_.tasks.empty() ? fmt::format("task {}", failed_->slot)
                             : is_ranks          ? fmt::format("rank {}", rank)
                                                 : name_of(job_.starter);
    const std::string reason = fmt::format("{} {}", what, end_text(failed_->status));
    if (!own_reason_.empty()) return {failed_->status, own_reason_};
    if (!complaint.empty()) return {failed_->status, complaint};
    return {failed_->status, failed_->status == kStoppedAfterSaving ? "stopped after saving" : reason};
  }

  static void close_rank(const RunningRank& rank) {
    for (const int descriptor : {rank.descriptor, rank.output})
      if (descriptor >= 0) ::close(descriptor);
  }

  const LocalJob& job_;
  RankLogs& logs_;
  StopRequests& stop_;
  std::vector<bool>& done_tasks_;
  Recovery& recovery_;
  AttemptStart start_;
  RankSocket socket_;
  std::array<int, 2> lifeline_{-1, -1};  // stdin of a container
  int starter_output_ = -1, starter_input_ = -1;
  std::vector<Child> children_;
  std::vector<RunningRank> ranks_;
  int64_t next_task_ = 0;
  int passed_ = 0;
  bool was_hastened_ = false;
  std::optional<Child> failed_;
  std::optional<int64_t> first_ended_;
  std::optional<SteadyClock::time_point> failed_at_, stopped_at_, ranks_ended_at_;
  SteadyClock::time_point looked_at_{};
  std::string own_reason_, starter_text_;
};

}  // namespace

AttemptEnd run_attempt(const LocalJob& job, const fs::path& launch_file, bool resumes, RankLogs& logs, StopRequests& stop,
                       std::vector<bool>& done_tasks, Recovery& recovery) {
  done_tasks.resize(job.tasks.size());
  AttemptRun attempt(job, logs, stop, done_tasks, recovery);
  return attempt.run({.program = fs::read_symlink("/proc/self/exe").string(),
                      .launch_file = launch_file,
                      .socket = {},
                      .port = 0,
                      .resumes = resumes});
}

}  // namespace trireme
