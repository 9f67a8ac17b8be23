#include "validate/dcgm.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace trireme {
namespace {

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

bool is_fail(std::string status) {
  std::ranges::transform(status, status.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return status == "fail";
}

// DCGM 2 and 3 have texts, or lists of them, DCGM 4 has objects with a "warning".
std::string warning_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) return text_at(value, "warning");
  if (!value.is_array()) return "";
  std::string all;
  for (const nlohmann::json& one : value) all += (all.empty() ? "" : " ") + warning_text(one);
  return all;
}

std::string device_of(const nlohmann::json& result) {
  for (const char* key : {"gpu_id", "gpu_ids", "entity_id"})
    if (const std::string number = text_at(result, key); !number.empty()) {
      const std::string group = text_at(result, "entity_group");
      return (group.empty() ? "GPU" : group) + " " + number;
    }
  return "";
}

struct Search {
  bool has_tests = false;
  std::vector<DcgmFault> faults;
};

void search_test(const nlohmann::json& test, Search& search) {
  const auto results = test.find("results");
  if (results == test.end() || !results->is_array()) return;
  search.has_tests = true;
  for (const nlohmann::json& result : *results) {
    if (!result.is_object() || !is_fail(text_at(result, "status"))) continue;
    const auto warnings = result.find("warnings");
    search.faults.push_back({text_at(test, "name"), device_of(result), warnings == result.end() ? "" : warning_text(*warnings)});
  }
}

// The versions nest their lists of tests differently.
void search_json(const nlohmann::json& value, Search& search) {
  if (!value.is_structured()) return;
  if (value.is_object()) search_test(value, search);
  for (const nlohmann::json& inner : value) search_json(inner, search);
}

}  // namespace

double dcgm_seconds(int level) { return level <= 1 ? 10 : level == 2 ? 120 : 900; }

std::vector<DcgmFault> dcgm_faults(std::string_view json) {
  // What dcgmi prints before the object is not JSON.
  const size_t begin = json.find('{');
  const nlohmann::json value = try_parse_json(begin == json.npos ? json : json.substr(begin));
  Search search;
  if (!value.is_discarded()) search_json(value, search);
  if (!search.has_tests) {
    const std::string_view start = trimmed(json.substr(0, json.find('\n')), " \t\r");
    throw Failure("dcgmi diag: its output has no test results: {}", start.empty() ? "nothing" : start.substr(0, 120));
  }
  return search.faults;
}

DcgmResult run_dcgm(int level) {
  DcgmResult result;
  if (find_program("dcgmi").empty()) return result;
  constexpr int64_t kMostOutput = 16 << 20;
  result.is_there = true;
  // Its exit status is not 0 when a test fails too, so the output counts.
  const CommandOutput run = run_command({"dcgmi", "diag", "-r", std::to_string(level), "-j"}, kMostOutput);
  result.faults = dcgm_faults(run.output.empty() ? run.errors : run.output);
  return result;
}

}  // namespace trireme
