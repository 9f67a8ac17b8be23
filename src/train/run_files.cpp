#include "train/run_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "telemetry/log_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestCopy = int64_t{64} << 20;

void write_keeping_older(const fs::path& path, const std::string& text) {
  if (fs::exists(path)) {
    if (read_file(path, kLargestCopy) == text) return;
    fs::copy_file(path, numbered_name(path));
  }
  atomic_write(path, bytes_of(text));
}

void append(const fs::path& path, const std::string& text, const Notify& notify) { LogFile(path.string(), notify).append(text); }

std::string now_text() {
  std::string text;
  append_local_time(text, system_clock().unix_microseconds());
  return text;
}

// What the scheduler calls this job: Slurm, a Kubernetes launcher, or nobody.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "JOB_IDENTIFIER"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return fmt::format("local-{}", ::getpid());
}

const char* name_of(RunOutcome outcome) {
  static constexpr std::array<const char*, 4> kNames{"finished", "out of time", "stopped by a signal", "failed"};
  return kNames[static_cast<size_t>(outcome)];
}

}  // namespace

void require_files_to_copy(const ExpManagerSettings& settings) {
  for (const std::string& name : settings.files_to_copy)
    if (!fs::is_regular_file(name)) throw UserError("exp_manager.files_to_copy: there is no file {}", name);
}

void write_start_files(const RunFolder& folder, const ExpManagerSettings& settings, const StartFacts& facts,
                       const Notify& notify) {
  write_keeping_older(folder.recipe(), facts.recipe_text);
  write_keeping_older(folder.file("hparams.yaml"), facts.hparams_text);
  for (const std::string& name : settings.files_to_copy)
    write_keeping_older(folder.file(fs::path(name).filename().string()), read_file(name, kLargestCopy));
  append(folder.file("cmd-args.log"), facts.arguments + "\n", notify);
  append(folder.file("git-info.log"), fmt::format("commit hash: {}\n", facts.commit), notify);
  append(folder.file("joblog.log"),
         fmt::format("JOB_ID={}\nJOB_NAME={}\nNODES={}\nRANKS={}\nRUN={}\nSTARTED={}\n", job_id(), settings.name, facts.nodes,
                     facts.ranks, folder.path().string(), now_text()),
         notify);
}

void write_end_files(const RunFolder& folder, const RunEnding& ending, const Notify& notify) {
  append(folder.file("joblog.log"),
         fmt::format("ENDED={}\nSTEPS_DONE={}\nSTATUS={}\n", now_text(), ending.steps_done, name_of(ending.outcome)), notify);
}

}  // namespace trireme
