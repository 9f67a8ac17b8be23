#include "launch/launch_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/suggestions.h"
#include "launch/launch_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kRecordVersion = 1;
constexpr int64_t kLargestRecord = 16 << 20;
constexpr const char* kRecordFile = "launch.json";

JobStage stage_named(const std::string& name) {
  for (const JobStage stage : {JobStage::data_preparation, JobStage::conversion, JobStage::evaluation, JobStage::validation})
    if (name_of(stage) == name) return stage;
  return JobStage::training;
}

LaunchRecord parse_record(const nlohmann::json& json, const fs::path& folder) {
  LaunchRecord record{.name = json.at("name"),
                      .target = find_target(json.at("target").get<std::string>()).value(),
                      .launched = json.at("launched"),
                      .host = json.at("host"),
                      .user = json.at("user"),
                      .folder = folder,
                      .jobs = {}};
  for (const nlohmann::json& job : json.at("jobs"))
    record.jobs.push_back({.name = job.at("name"),
                           .stage = stage_named(job.at("stage")),
                           .id = job.at("id"),
                           .folder = job.at("folder").get<std::string>(),
                           .run_folder = job.at("run_folder").get<std::string>()});
  return record;
}

}  // namespace

void write_record(const LaunchRecord& record) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const JobRecord& job : record.jobs)
    jobs.push_back({{"name", job.name},
                    {"stage", name_of(job.stage)},
                    {"id", job.id},
                    {"folder", job.folder.string()},
                    {"run_folder", job.run_folder.string()}});
  const nlohmann::ordered_json json = {{"version", kRecordVersion},
                                       {"name", record.name},
                                       {"target", name_of(record.target)},
                                       {"launched", record.launched},
                                       {"host", record.host},
                                       {"user", record.user},
                                       {"jobs", jobs}};
  atomic_write(record.folder / kRecordFile, bytes_of(json_text(json) + "\n"));
}

LaunchRecord read_record(const fs::path& folder) {
  const fs::path path = folder / kRecordFile;
  if (!fs::exists(path)) throw UserError("{} is not the folder of a launch: it has no {}", folder.string(), kRecordFile);
  const nlohmann::json json = try_parse_json(read_file(path, kLargestRecord));
  try {
    if (const int version = json.at("version").get<int>(); version > kRecordVersion)
      throw UserError("{}: version {} is newer than this program, which reads {}; use a newer trireme", path.string(), version,
                      kRecordVersion);
    return parse_record(json, folder);
  } catch (const nlohmann::json::exception&) {
    throw UserError("{} is damaged; remove {} if nothing of it runs any more", path.string(), folder.string());
  } catch (const std::bad_optional_access&) {
    throw UserError("{} is damaged: it names no target", path.string());
  }
}

std::vector<LaunchRecord> list_records(const fs::path& results) {
  std::vector<LaunchRecord> records;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(results, failed))
    if (fs::exists(entry.path() / kRecordFile, failed)) records.push_back(read_record(entry.path()));
  std::ranges::sort(records, {}, [](const LaunchRecord& record) { return std::pair{record.launched, record.name}; });
  return records;
}

LaunchRecord find_record(const fs::path& results, const std::string& name_or_folder) {
  for (const fs::path& folder : {results / name_or_folder, fs::path(name_or_folder)})
    if (std::error_code failed; fs::exists(folder / kRecordFile, failed))
      return read_record(fs::absolute(folder).lexically_normal());
  std::vector<std::string> names;
  for (const LaunchRecord& record : list_records(results)) names.push_back(record.name);
  throw UserError("there is no launch {} in {}{}", name_or_folder, results.string(),
                  names.empty() ? "" : fmt::format("; there {} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", ")));
}

}  // namespace trireme
