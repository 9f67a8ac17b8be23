#include "launch/local/supervisor.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/process.h"
#include "base/subprocess.h"
#include "comm/world.h"
#include "launch/attempt_log.h"
#include "launch/local/attempt.h"
#include "launch/local/child.h"
#include "launch/local/job_state.h"
#include "launch/local/process_id.h"
#include "launch/local/rank_start.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Supervisor {
 public:
  Supervisor(fs::path launch_file, LocalLaunch launch, StopRequests& stop)
      : launch_file_(std::move(launch_file)), launch_(std::move(launch)), stop_(stop) {}

  // From here on the status of every job can be read.
  void begin() {
    for (const LocalJob& job : launch_.jobs) {
      create_folders(job.folder);
      set_state(job, JobPhase::waiting, "");
      // So that --logs finds them from now on.
      RankLogs logs(job.folder, [](const std::string&) {});
      for (int64_t rank = 0; rank < job.ranks; ++rank) logs.add(job.first_rank + rank, "");
    }
  }

  int run() {
    int status = kDone;
    for (const LocalJob& job : launch_.jobs) {
      const int own = run_reporting(job);
      ends_[job.name] = own;
      if (status == kDone) status = own;
    }
    return status;
  }

 private:
  // Whatever goes wrong here is the end of the job, with its reason in the status.
  int run_reporting(const LocalJob& job) {
    try {
      return run_unless_blocked(job);
    } catch (const std::exception& error) {
      stop_.tell(line_of(error));
      return finish(job, JobPhase::failed, line_of(error), kFailed);
    }
  }

  int run_unless_blocked(const LocalJob& job) {
    for (const std::string& earlier : job.after)
      if (ends_[earlier] != kDone) {
        set_state(job, JobPhase::failed, fmt::format("not started: {} did not succeed", earlier), kFailed);
        return kFailed;
      }
    if (stop_.stops() > 0) {
      set_state(job, JobPhase::stopped, "not started", kStoppedAfterSaving);
      return kStoppedAfterSaving;
    }
    return run_attempts(job);
  }

  int run_attempts(const LocalJob& job) {
    RankLogs logs(job.folder, [&](const std::string& line) { stop_.tell(line); });
    AttemptLog attempts(job.folder, job.run_folder, launch_.max_restarts);
    std::vector<bool> done_tasks;
    Recovery recovery;
    std::string earlier;
    for (;;) {
      const int64_t number = attempts.begin();
      set_state(job, JobPhase::running, number == 1 ? "" : fmt::format("attempt {}{}", number, earlier));
      const bool resumes = job.resumes_at_once || number > 1;
      recovery.restart("on this machine", Recovery::now());
      const AttemptEnd end = run_attempt(job, launch_file_, resumes, logs, stop_, done_tasks, recovery);
      const AttemptVerdict verdict = attempts.end(end.status, end.reason);
      if (stop_.stops() > 0) return finish(job, JobPhase::stopped, end.reason, end.status);
      if (verdict.action == NextAction::finish) {
        if (verdict.exit_status == kDoNotRetry) logs.say(verdict.line);
        return finish(job, phase_of(verdict.exit_status), verdict.line, verdict.exit_status);
      }
      earlier = "; before: " + end.reason;
      logs.say(
          fmt::format("attempt {} failed: {}; attempt {} continues from {}", number, end.reason, number + 1, start_text(job)));
    }
  }

  static std::string start_text(const LocalJob& job) {
    const int64_t step = newest_step(job.run_folder);
    return step < 0 ? "the beginning" : fmt::format("the checkpoint of step {}", step);
  }

  static JobPhase phase_of(int status) {
    if (status == kDone) return JobPhase::done;
    return status == kStoppedAfterSaving ? JobPhase::stopped : JobPhase::failed;
  }

  int finish(const LocalJob& job, JobPhase phase, const std::string& detail, int status) {
    set_state(job, status == kDone ? JobPhase::done : phase, detail, status);
    return status;
  }

  void set_state(const LocalJob& job, JobPhase phase, const std::string& detail, std::optional<int> status = {}) {
    write_job_state(job.folder, {.phase = phase,
                                 .detail = detail,
                                 .exit_status = status,
                                 .host = host_name(),
                                 .supervisor = text_of(identify(::getpid()).value_or(ProcessId{}))});
  }

  fs::path launch_file_;
  LocalLaunch launch_;
  StopRequests& stop_;
  std::map<std::string, int> ends_;
};

// The job in its container: started as it would be on a machine, except that its supervisor outside decides about restarts.
int run_in_container(const SuperviseOptions& options, LocalLaunch launch) {
  const auto found = std::ranges::find(launch.jobs, options.job, &LocalJob::name);
  if (found == launch.jobs.end()) throw UserError("{} has no job {}", options.launch_file.string(), options.job);
  LocalJob& job = *found;
  StopRequests stop(LeashKind::lifeline, STDIN_FILENO);
  const bool uses_mpirun = job.may_use_mpirun && is_built_with_mpi() && !find_program("mpirun").empty();
  job.starter = uses_mpirun ? RankStarter::mpirun : RankStarter::itself;
  RankLogs logs(job.folder, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  std::vector<bool> done_tasks;
  Recovery outside;  // the supervisor that started the container
  return run_attempt(job, options.launch_file, options.resumes, logs, stop, done_tasks, outside).status;
}

}  // namespace

int supervise(const SuperviseOptions& options) {
  forget_other_launchers();
  adopt_orphans();
  LocalLaunch launch = read_local_launch(options.launch_file);
  if (!options.job.empty()) return run_in_container(options, std::move(launch));
  StopRequests stop(options.leash < 0 ? LeashKind::none : LeashKind::follower, options.leash);
  Supervisor supervisor(options.launch_file, std::move(launch), stop);
  try {
    supervisor.begin();
  } catch (const std::exception& error) {
    stop.tell(line_of(error));
    return kFailed;
  }
  stop.tell(kSupervisorReady);
  return supervisor.run();
}

}  // namespace trireme
