#include "launch/slurm/node_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr int64_t kLargestResult = 64 << 20;
constexpr std::string_view kRanksOption = "--ntasks-per-node=";

std::string first_label(const std::string& host) { return host.substr(0, host.find('.')); }

std::string finding_text(const nlohmann::json& finding) {
  return fmt::format("{}: {}, expected {}", finding.at("what").get<std::string>(), finding.at("seen").get<std::string>(),
                     finding.at("expected").get<std::string>());
}

// The first failure that names the node, alone or as an end of a link.
std::string reason_of(const nlohmann::json& findings, const std::string& host) {
  for (const nlohmann::json& finding : findings) {
    const std::string node = finding.at("node");
    const bool is_end = node.starts_with(host + " - ") || node.ends_with(" - " + host);
    if (finding.at("severity") != "failure" || (node != host && !is_end)) continue;
    return (is_end ? "link " + node + ": " : "") + finding_text(finding);
  }
  return "";
}

NodeVerdict verdict_of(const nlohmann::json& result, const NodeCheck& check) {
  NodeVerdict verdict;
  if (result.at("verdict") == "good") return verdict;
  const nlohmann::json& findings = result.at("findings");
  for (const std::string host : result.at("leave_out").at("nodes")) {
    const auto same = [&](const std::string& node) { return node == host || node == first_label(host); };
    const auto node = std::ranges::find_if(check.nodes, same);
    if (node != check.nodes.end()) verdict.bad.push_back({*node, reason_of(findings, host)});
  }
  if (!verdict.bad.empty()) return verdict;
  for (const nlohmann::json& finding : findings)
    if (finding.at("severity") == "failure" && verdict.failure.empty()) verdict.failure = finding_text(finding);
  return verdict;
}

}  // namespace

std::vector<std::string> check_command(const NodeCheck& check) {
  std::vector<std::string> words = check.srun;
  size_t ranks = 1;
  for (const std::string& word : words)
    if (word.starts_with(kRanksOption)) ranks = std::stoul(word.substr(kRanksOption.size()));
  words.push_back(fmt::format("--nodes={}", check.nodes.size()));
  words.push_back(fmt::format("--ntasks={}", check.nodes.size() * ranks));
  words.push_back(fmt::format("--nodelist={}", fmt::join(check.nodes, ",")));
  for (const std::string& word : {check.program, std::string("validate"), std::string("--quick"), std::string("--results"),
                                  check.run_folder.string(), std::string("--output"), check.folder.string()})
    words.push_back(word);
  return words;
}

std::filesystem::path check_result_path(const std::filesystem::path& folder) { return folder / "validation.json"; }

NodeVerdict read_node_check(const NodeCheck& check) {
  const std::filesystem::path path = check_result_path(check.folder);
  try {
    return verdict_of(nlohmann::json::parse(read_file(path, kLargestResult)), check);
  } catch (const nlohmann::json::exception&) {
    throw Failure("{} is not a result of trireme validate", path.string());
  }
}

}  // namespace trireme
