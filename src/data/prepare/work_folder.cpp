#include "data/prepare/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "data/prepare/input_check.h"

namespace trireme::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxPlanBytes = int64_t{1} << 30;

json parts_to_json(const std::vector<Part>& parts) {
  json ends = json::array();
  for (const Part& part : parts) ends.push_back(part.end_unit);
  return ends;
}

std::vector<Part> parts_from_json(const json& ends) {
  std::vector<Part> parts;
  int64_t first = 0;
  for (const json& end : ends) {
    parts.push_back({.first_unit = first, .end_unit = end});
    first = end;
  }
  return parts;
}

void write_plan(const Plan& plan, const fs::path& path) {
  const json mine = {{"identity", plan.identity}, {"parts", parts_to_json(plan.parts)}, {"stamps", stamps_to_json(plan.files)}};
  const std::string text = json_text(mine, 1) + "\n";
  // If ranks start together, the last write stays; all write the same.
  const fs::path temporary = partial_name(path);
  File::create(temporary).write(text);
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) throw Failure("cannot write {}: {}", path.string(), error.message());
  sync_folder(plan.work_folder);
}

}  // namespace

FolderLock::FolderLock(const fs::path& path, const char* holder)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw Failure("cannot write {}: {}", path.string(), std::generic_category().message(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw UserError("{}: {} is at work there; wait for its end", path.parent_path().string(), holder);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

std::set<size_t> enter_work_folder(Plan& plan) {
  create_folders(plan.work_folder);
  const fs::path path = plan.work_folder / "plan.json";
  if (!fs::exists(path)) {
    write_plan(plan, path);
    return {};
  }
  const json found = try_parse_json(read_file(path, kMaxPlanBytes));
  if (!found.is_object() || !found.contains("identity") || !found.contains("parts") || !found.contains("stamps"))
    throw UserError("{} cannot be read; remove the folder to start again", path.string());
  for (const auto& [key, value] : plan.identity.items())
    if (found["identity"].value(key, json()) != parse_json(json_text(value, kOneLine)))
      throw UserError(
          "{} holds an unfinished run with another value of '{}'; remove the folder to start again, or choose another --output",
          plan.work_folder.string(), key);
  plan.parts = parts_from_json(found["parts"]);
  return files_that_differ(plan.files, found["stamps"]);
}

bool remove_work_folder(const fs::path& folder) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kBetween{20};
  const fs::path aside = folder.string() + ".done";
  std::error_code error;
  // Two ranks may remove it at the same time, and on a network file system a file that another process has open may remain for a
  // moment.
  for (int i = 0; i < kTries; ++i) {
    fs::remove_all(aside, error);
    fs::rename(folder, aside, error);
    fs::remove_all(aside, error);
    if (!fs::exists(folder, error) && !fs::exists(aside, error)) return true;
    std::this_thread::sleep_for(kBetween);
  }
  return false;
}

}  // namespace trireme::prepare
