#include "launch/local/local_launch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

constexpr int kLocalVersion = 1;
constexpr int64_t kLargestLaunch = 64 << 20;

template <class Enum>
Enum enum_named(const std::string& name, std::initializer_list<Enum> all) {
  const auto* found = std::ranges::find_if(all, [&](Enum one) { return name_of(one) == name; });
  return found == all.end() ? *all.begin() : *found;
}

nlohmann::ordered_json local_json_of(const LocalJob& job) {
  nlohmann::ordered_json environment = nlohmann::ordered_json::object(), bindings = nlohmann::ordered_json::array();
  for (const EnvironmentVariable& variable : job.environment) environment[variable.name] = variable.value;
  for (const RankBinding& binding : job.bindings) bindings.push_back({{"cpus", binding.cpus}, {"nodes", binding.nodes}});
  return {{"name", job.name},
          {"stage", name_of(job.stage)},
          {"starter", name_of(job.starter)},
          {"may_use_mpirun", job.may_use_mpirun},
          {"command", job.command},
          {"tasks", job.tasks},
          {"tasks_at_once", job.tasks_at_once},
          {"ranks", job.ranks},
          {"first_rank", job.first_rank},
          {"world", job.world},
          {"environment", environment},
          {"bindings", bindings},
          {"container", job.container},
          {"container_removal", job.container_removal},
          {"folder", job.folder.string()},
          {"run_folder", job.run_folder.string()},
          {"resume", job.resume},
          {"resumes_at_once", job.resumes_at_once},
          {"after", job.after}};
}

LocalJob local_job_of(const nlohmann::ordered_json& json) {
  LocalJob job;
  job.name = json.at("name");
  job.stage = enum_named(json.at("stage"), {JobStage::training, JobStage::data_preparation, JobStage::conversion,
                                            JobStage::evaluation, JobStage::validation});
  job.starter = enum_named(json.at("starter"), {RankStarter::itself, RankStarter::mpirun, RankStarter::container});
  job.may_use_mpirun = json.at("may_use_mpirun");
  job.command = json.at("command");
  job.tasks = json.at("tasks");
  job.tasks_at_once = json.at("tasks_at_once");
  job.ranks = json.at("ranks");
  job.first_rank = json.at("first_rank");
  job.world = json.at("world");
  for (const auto& [name, value] : json.at("environment").items()) job.environment.push_back({name, value});
  for (const auto& binding : json.at("bindings")) job.bindings.push_back({binding.at("cpus"), binding.at("nodes")});
  job.container = json.at("container");
  job.container_removal = json.at("container_removal");
  job.folder = json.at("folder").get<std::string>();
  job.run_folder = json.at("run_folder").get<std::string>();
  job.resume = json.at("resume");
  job.resumes_at_once = json.at("resumes_at_once");
  job.after = json.at("after");
  return job;
}

}  // namespace

std::string name_of(RankStarter starter) {
  constexpr const char* kNames[] = {"itself", "mpirun", "container"};
  return kNames[static_cast<size_t>(starter)];
}

std::string write_local_launch(const LocalLaunch& launch) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const LocalJob& job : launch.jobs) jobs.push_back(local_json_of(job));
  return json_text(nlohmann::ordered_json{{"version", kLocalVersion}, {"max_restarts", launch.max_restarts}, {"jobs", jobs}}) +
         "\n";
}

LocalLaunch read_local_launch(const std::filesystem::path& file) {
  const auto json = nlohmann::ordered_json::parse(read_file(file, kLargestLaunch), nullptr, false);
  try {
    if (json.at("version") != kLocalVersion)
      throw UserError("{} is of another version of trireme; launch it again", file.string());
    LocalLaunch launch{.max_restarts = json.at("max_restarts"), .jobs = {}};
    for (const auto& job : json.at("jobs")) launch.jobs.push_back(local_job_of(job));
    return launch;
  } catch (const nlohmann::json::exception&) {
    throw UserError("{} is damaged; launch it again", file.string());
  }
}

}  // namespace trireme
