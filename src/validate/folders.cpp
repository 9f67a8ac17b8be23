#include "validate/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/units.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Why the file cannot be written; empty: it was.
std::string write_fault(const fs::path& path, const std::string& text) {
  try {
    File::create(path).write(text);
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Of the names in a folder, without those that these checks make.
std::string listing_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (std::string name = entry.path().filename().string(); !name.starts_with(".trireme-validate"))
      names.push_back(std::move(name));
  std::ranges::sort(names);
  std::string all;
  for (const std::string& name : names) all += name + '\n';
  return fmt::format("{} names, {:08x}", names.size(), crc32c(bytes_of(all)));
}

// What a node sees. `mark` was written by rank 0.
nlohmann::json view_of(const FolderRequest& request, const std::string& mark, int rank) {
  std::error_code failed;
  const bool exists = fs::is_directory(request.path, failed);
  nlohmann::json view{{"exists", exists}};
  if (!exists) return view;
  const fs::path own = request.path / fmt::format("{}-{}", mark, rank);
  view["fault"] = write_fault(own, "trireme validate\n");
  remove_quietly(own);
  view["sees_mark"] = fs::exists(request.path / mark, failed);
  view["listing"] = listing_of(request.path);
  try {
    view["free"] = free_bytes(request.path);
  } catch (const Failure&) {
    view["free"] = 0;
  }
  return view;
}

Finding finding_of(const FolderRequest& request, const std::string& node, FindingKind kind) {
  return {kind, "folder", node, fmt::format("{} {}", request.option, request.path.string()), "", "", ""};
}

// `first` is the view of rank 0, whose mark the others look for if it could write one.
std::vector<Finding> faults_of(const FolderRequest& request, const std::string& node, const nlohmann::json& view,
                               const nlohmann::json& first) {
  std::vector<Finding> faults;
  const auto say = [&](FindingKind kind, std::string seen, std::string expected, std::string advice) {
    Finding& finding = faults.emplace_back(finding_of(request, node, kind));
    finding.seen = std::move(seen), finding.expected = std::move(expected), finding.advice = std::move(advice);
  };
  if (!view.at("exists")) {
    say(FindingKind::failure, "not there", "a folder that all nodes share", "mount it here");
    return faults;
  }
  const std::string fault = view.at("fault");
  const FindingKind kind = request.must_be_writable ? FindingKind::failure : FindingKind::warning;
  if (!fault.empty()) say(kind, fault, "a folder that can be written", "check its rights and mount options");
  const bool has_mark = first.at("exists") && first.at("fault") == "";
  if (has_mark && !view.at("sees_mark"))
    say(FindingKind::failure, "a file that the first node wrote is not there", "the same folder on all nodes",
        "mount the shared folder here");
  else if (!has_mark && first.at("exists") && view.at("listing") != first.at("listing"))
    say(FindingKind::failure, view.at("listing"), first.at("listing"), "mount the shared folder here");
  if (const int64_t room = view.at("free"); room < request.free_bytes)
    say(FindingKind::failure, format_bytes(room) + " free", "at least " + format_bytes(request.free_bytes), "make room");
  return faults;
}

}  // namespace

std::vector<Finding> check_folder(Control& control, bool is_first, const FolderRequest& request) {
  const std::string mark = control.share("folder_mark", fmt::format(".trireme-validate-{:08x}", random_bits()));
  if (control.rank() == 0) write_fault(request.path / mark, "trireme validate\n");
  control.share("folder_marked", "yes");
  const std::string own = is_first ? json_text(view_of(request, mark, control.rank()), kOneLine) : "";
  const std::vector<std::string> views = control.gather("folder_view", own);
  std::vector<Finding> findings;
  if (control.rank() != 0) return findings;
  remove_quietly(request.path / mark);
  const nlohmann::json first = parse_json(views.front());
  for (size_t rank = 0; rank < views.size(); ++rank)
    if (!views[rank].empty())
      for (Finding& fault : faults_of(request, control.places()[rank].host, parse_json(views[rank]), first))
        findings.push_back(std::move(fault));
  return findings;
}

}  // namespace trireme
