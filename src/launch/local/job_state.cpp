#include "launch/local/job_state.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

constexpr const char* kStateFile = "status.json";
constexpr size_t kStateBytes = 4096;  // of every file, so that a later state fits in the blocks of an earlier one
constexpr std::array kPhases = {JobPhase::waiting, JobPhase::running, JobPhase::done,
                                JobPhase::failed,  JobPhase::stopped, JobPhase::unknown};

}  // namespace

void write_job_state(const std::filesystem::path& folder, const JobState& state) {
  constexpr size_t kLongestDetail = 2000;
  std::string text = json_text(nlohmann::ordered_json{
      {"phase", name_of(state.phase)},
      {"detail", state.detail.substr(0, kLongestDetail)},
      {"exit_status", state.exit_status ? nlohmann::ordered_json(*state.exit_status) : nlohmann::ordered_json(nullptr)},
      {"host", state.host},
      {"supervisor", state.supervisor}});
  text.resize(std::max(text.size(), kStateBytes - 1), ' ');
  text += '\n';
  const std::filesystem::path path = folder / kStateFile;
  try {
    atomic_write(path, bytes_of(text));
  } catch (const Failure&) {
    try {
      File::open_update(path).write_at(0, bytes_of(text));
    } catch (const Failure&) {
      return;  // the supervisor's own exit tells the rest
    }
  }
}

std::optional<JobState> read_job_state(const std::filesystem::path& folder) {
  constexpr int64_t kMost = 1 << 16;
  std::error_code failed;
  if (!std::filesystem::exists(folder / kStateFile, failed)) return std::nullopt;
  try {
    const nlohmann::json json = parse_json(read_file(folder / kStateFile, kMost));
    JobState state;
    const std::string phase = json.at("phase");
    for (const JobPhase one : kPhases)
      if (name_of(one) == phase) state.phase = one;
    state.detail = json.at("detail");
    if (!json.at("exit_status").is_null()) state.exit_status = json.at("exit_status").get<int>();
    state.host = json.at("host");
    state.supervisor = json.at("supervisor");
    return state;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme
