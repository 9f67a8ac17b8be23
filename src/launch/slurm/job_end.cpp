#include "launch/slurm/job_end.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {

std::filesystem::path job_end_path(const std::filesystem::path& folder, std::optional<int64_t> task) {
  return folder / (task ? fmt::format("task-{:05}.end.json", *task) : "end.json");
}

void write_job_end(const std::filesystem::path& path, const SlurmJobEnd& end) {
  const nlohmann::ordered_json json = {
      {"job", end.job}, {"exit_status", end.exit_status}, {"was_stopped", end.was_stopped}, {"reason", end.reason}};
  try {
    atomic_write(path, bytes_of(json_text(json) + "\n"));
  } catch (const Failure& failure) {
    fmt::print(stderr, "warning: {}\n", failure.what());
  }
}

std::optional<SlurmJobEnd> read_job_end(const std::filesystem::path& path, const std::string& job) {
  constexpr int64_t kLargest = 1 << 20;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::nullopt;
  try {
    const nlohmann::json json = parse_json(read_file(path, kLargest));
    SlurmJobEnd end{.job = json.at("job"),
                    .exit_status = json.at("exit_status"),
                    .was_stopped = json.at("was_stopped"),
                    .reason = json.at("reason")};
    if (end.job == job) return end;
  } catch (const nlohmann::json::exception&) {
  } catch (const Failure&) {  // removed in between
  }
  return std::nullopt;
}

}  // namespace trireme
