#include "validate/report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/build_info.h"
#include "base/units.h"

namespace trireme {
namespace {

bool contains(const std::vector<std::string>& all, const std::string& one) { return std::ranges::find(all, one) != all.end(); }

bool is_node(const ValidationReport& report, const std::string& name) {
  return std::ranges::any_of(report.nodes, [&](const NodeResult& node) { return node.inventory.node == name; });
}

std::string bandwidth_text(double bytes_per_second) { return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9); }

struct Span {
  double lowest = 0, median = 0, highest = 0;
};
Span span_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values.front(), values[values.size() / 2], values.back()};
}

constexpr size_t kMostLines = 64;  // of ranks or pairs; of more only the span is printed

std::string rank_lines(const ValidationReport& report) {
  std::string text;
  if (report.ranks.size() <= kMostLines)
    for (const RankResult& rank : report.ranks) {
      text += fmt::format("rank  {:>4}  {:<16}  GEMM {:>14} ({} at first)  copy {:>11}", rank.rank, rank.node,
                          format_flops(rank.rates.flops), format_flops(rank.rates.burst_flops), bandwidth_text(rank.rates.bytes));
      if (rank.rates.to_device > 0)
        text +=
            fmt::format("  host to device {}, back {}", bandwidth_text(rank.rates.to_device), bandwidth_text(rank.rates.to_host));
      text += "\n";
    }
  if (report.ranks.size() < 2) return text;
  std::vector<double> flops, bytes;
  for (const RankResult& rank : report.ranks) flops.push_back(rank.rates.flops), bytes.push_back(rank.rates.bytes);
  const Span gemm = span_of(flops), copy = span_of(bytes);
  return text + fmt::format("ranks  GEMM {} to {}, median {}; copy {} to {}, median {}\n", format_flops(gemm.lowest),
                            format_flops(gemm.highest), format_flops(gemm.median), bandwidth_text(copy.lowest),
                            bandwidth_text(copy.highest), bandwidth_text(copy.median));
}

std::string pair_lines(const ValidationReport& report) {
  if (report.pairs.empty()) return "";
  std::string text;
  const auto name = [&](int unit) { return report.units[static_cast<size_t>(unit)]; };
  std::vector<double> rates;
  for (const PairRate& one : report.pairs) rates.push_back(one.rate);
  if (report.pairs.size() <= kMostLines)
    for (const PairRate& one : report.pairs)
      text += fmt::format("pair  {} - {}  {}\n", name(one.pair.first), name(one.pair.second), bandwidth_text(one.rate));
  const Span span = span_of(rates);
  return text + fmt::format("pairs  {} to {}, median {}\n", bandwidth_text(span.lowest), bandwidth_text(span.highest),
                            bandwidth_text(span.median));
}

nlohmann::ordered_json side_json(const CollectiveRow& row, const std::optional<CollectiveSide>& side, int ranks) {
  if (!side) return nullptr;
  return {{"time_us", side->seconds * 1e6},
          {"algbw", row.algbw(*side)},
          {"busbw", row.algbw(*side) * bus_factor(row.kind.collective, ranks)},
          {"wrong", side->wrong}};
}

nlohmann::ordered_json collectives_json(const ValidationReport& report, int ranks) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CollectiveRow& row : report.collectives)
    rows.push_back({{"collective", row.kind.name},
                    {"size", row.bytes},
                    {"count", row.count},
                    {"type", "float"},
                    {"redop", row.kind.reduction},
                    {"root", row.kind.root},
                    {"out_of_place", side_json(row, row.out_of_place, ranks)},
                    {"in_place", side_json(row, row.in_place, ranks)}});
  return rows;
}

nlohmann::ordered_json nodes_json(const ValidationReport& report) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  const std::vector<std::string> bad = report.bad_nodes();
  for (const NodeResult& node : report.nodes)
    nodes.push_back({{"node", node.inventory.node},
                     {"good", !contains(bad, node.inventory.node)},
                     {"ranks", node.ranks},
                     {"facts", node.inventory.facts}});
  return nodes;
}

}  // namespace

bool ValidationReport::is_good() const {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.kind == FindingKind::failure; });
}

std::vector<std::string> ValidationReport::bad_nodes() const {
  std::vector<std::string> bad;
  for (const Finding& finding : findings)
    if (finding.kind == FindingKind::failure && is_node(*this, finding.node) && !contains(bad, finding.node))
      bad.push_back(finding.node);
  std::ranges::sort(bad);
  return bad;
}

LeaveOut leave_out(const ValidationReport& report) {
  LeaveOut out{.nodes = report.bad_nodes(), .slurm = {}, .mpirun = {}, .kubernetes = {}};
  for (const Finding& finding : report.findings) {
    const size_t cut = finding.node.find(kLinkSeparator);
    if (finding.kind != FindingKind::failure || cut == std::string::npos) continue;
    const std::string one = finding.node.substr(0, cut),
                      other = finding.node.substr(cut + std::string_view(kLinkSeparator).size());
    if (is_node(report, other) && !contains(out.nodes, one) && !contains(out.nodes, other)) out.nodes.push_back(other);
  }
  if (out.nodes.empty()) return out;
  std::vector<std::string> left, quoted;
  for (const NodeResult& node : report.nodes)
    if (!contains(out.nodes, node.inventory.node)) left.push_back(fmt::format("{}:{}", node.inventory.node, node.ranks.size()));
  for (const std::string& node : out.nodes) quoted.push_back(nlohmann::json(node).dump());
  out.slurm = fmt::format("--exclude={}", fmt::join(out.nodes, ","));
  if (!left.empty()) out.mpirun = fmt::format("--host {}", fmt::join(left, ","));
  out.kubernetes = fmt::format(R"({{"key":"kubernetes.io/hostname","operator":"NotIn","values":[{}]}})", fmt::join(quoted, ","));
  return out;
}

std::string text_of(const ValidationReport& report) {
  std::string text;
  for (const NodeResult& node : report.nodes)
    text += fmt::format("node  {}  {}: {}\n", node.inventory.node, plural(static_cast<int64_t>(node.ranks.size()), "rank"),
                        inventory_line(node.inventory.facts));
  text += rank_lines(report) + pair_lines(report);
  for (const std::string& note : report.notes) text += fmt::format("note  {}\n", note);
  for (const Finding& finding : report.findings) text += text_of(finding) + "\n";
  const LeaveOut out = leave_out(report);
  if (report.is_good()) {
    const auto warnings = static_cast<int64_t>(report.findings.size());
    text += fmt::format("good  {}: no check failed{}\n", plural(static_cast<int64_t>(report.nodes.size()), "node"),
                        warnings > 0 ? ", " + plural(warnings, "warning") : "");
    return text;
  }
  const std::string all = plural(static_cast<int64_t>(report.nodes.size()), "node");
  text += out.nodes.empty() ? fmt::format("bad  {}: no node to leave out, see the lines above\n", all)
                            : fmt::format("bad  {} of {}: {}\n", out.nodes.size(), all, fmt::join(out.nodes, ", "));
  for (const auto& [label, line] :
       {std::pair{"slurm", out.slurm}, std::pair{"mpirun", out.mpirun}, std::pair{"kubernetes", out.kubernetes}})
    if (!line.empty()) text += fmt::format("{}  {}\n", label, line);
  return text;
}

nlohmann::ordered_json json_of(const ValidationReport& report) {
  int ranks = 0;
  for (const NodeResult& node : report.nodes) ranks += static_cast<int>(node.ranks.size());
  nlohmann::ordered_json json{{"verdict", report.is_good() ? "good" : "bad"},
                              {"when", report.when},
                              {"program", fmt::format("{} ({})", kVersion, kCommit)},
                              {"command", report.command},
                              {"seconds", report.seconds},
                              {"nodes", nodes_json(report)}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankResult& rank : report.ranks)
    json["ranks"].push_back({{"rank", rank.rank},
                             {"node", rank.node},
                             {"device", rank.device},
                             {"slow", rank.is_slow},
                             {"gemm_flops", rank.rates.flops},
                             {"gemm_burst_flops", rank.rates.burst_flops},
                             {"copy_bytes_per_s", rank.rates.bytes},
                             {"to_device_bytes_per_s", rank.rates.to_device},
                             {"to_host_bytes_per_s", rank.rates.to_host},
                             {"wrong_gemm_rows", rank.errors.gemm},
                             {"wrong_copied", rank.errors.memory}});
  json["expected"] = {{"platform", report.expected.platform},
                      {"gemm_flops", report.expected.flops},
                      {"copy_bytes_per_s", report.expected.bytes},
                      {"pair_bytes_per_s", report.expected.pair},
                      {"busbw_bytes_per_s", report.expected.bus}};
  json["collectives"] = collectives_json(report, ranks);
  json["pairs"] = nlohmann::ordered_json::array();
  for (const PairRate& one : report.pairs)
    json["pairs"].push_back({{"a", report.units[static_cast<size_t>(one.pair.first)]},
                             {"b", report.units[static_cast<size_t>(one.pair.second)]},
                             {"bytes_per_s", one.rate}});
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : report.findings)
    json["findings"].push_back({{"severity", name_of(finding.kind)},
                                {"check", finding.check},
                                {"node", finding.node},
                                {"what", finding.what},
                                {"seen", finding.seen},
                                {"expected", finding.expected},
                                {"advice", finding.advice}});
  const LeaveOut out = leave_out(report);
  json["notes"] = report.notes;
  json["bad_nodes"] = report.bad_nodes();
  json["leave_out"] = {{"nodes", out.nodes}, {"slurm", out.slurm}, {"mpirun", out.mpirun}, {"kubernetes", out.kubernetes}};
  return json;
}

}  // namespace trireme
