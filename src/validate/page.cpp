#include <fmt/format.h>
#include <validate_page_script.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/page_frame.h"
#include "validate/report.h"

namespace trireme {
namespace {

std::string figure_tile(std::string_view title, std::string_view figure, std::string_view how) {
  return fmt::format("<div class=tile><dt>{}</dt><dd><div class=figure>{}</div><div class=how>{}</div></dd></div>\n",
                     html_escaped(title), html_escaped(figure), html_escaped(how));
}

std::string table_of(std::string_view title, const std::vector<std::string>& head,
                     const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = fmt::format("<h2>{}</h2>\n<div class=scroll><table><thead><tr>", html_escaped(title));
  for (const std::string& cell : head) html += fmt::format("<th scope=col>{}</th>", html_escaped(cell));
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", html_escaped(cell));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string findings_table(const ValidationReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : report.findings)
    rows.push_back({name_of(finding.kind), finding.node, finding.what, finding.seen, finding.expected, finding.advice});
  return table_of("Findings", {"", "node", "what", "seen", "expected", "what to do"}, rows);
}

std::string ranks_table(const ValidationReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const RankResult& rank : report.ranks)
    rows.push_back({fmt::format("{}", rank.rank), rank.node, rank.device, format_flops(rank.rates.flops),
                    fmt::format("{:.2f}", rank.rates.bytes / 1e9), fmt::format("{}", rank.errors.gemm + rank.errors.memory)});
  return table_of("Devices", {"rank", "node", "device", "GEMM", "copy, GB/s", "wrong"}, rows);
}

std::string collectives_table(const ValidationReport& report, int ranks) {
  std::vector<std::vector<std::string>> rows;
  for (const CollectiveRow& row : report.collectives) {
    const CollectiveSide& side = row.out_of_place ? *row.out_of_place : *row.in_place;
    rows.push_back({row.kind.name, format_bytes(row.bytes), fmt::format("{:.1f}", side.seconds * 1e6),
                    fmt::format("{:.3f}", row.algbw(side)),
                    fmt::format("{:.3f}", row.algbw(side) * bus_factor(row.kind.collective, ranks)),
                    fmt::format("{}", side.wrong)});
  }
  const std::string table =
      table_of("Collectives", {"collective", "size", "time, us", "algbw, GB/s", "busbw, GB/s", "wrong"}, rows);
  return table.empty() ? "" : "<details><summary>Collectives</summary>\n" + table + "</details>\n";
}

std::string heat_map(const ValidationReport& report) {
  if (report.pairs.empty()) return "";
  return "<h2>Bandwidth between pairs</h2>\n<figure id=pairs><figcaption><b>Every pair that was measured</b><span class=unit>of "
         "the "
         "usual bandwidth of a pair; grey: not measured</span></figcaption>\n<canvas role=img aria-label=\"bandwidth of every "
         "pair\"></canvas><div class=tip hidden></div>\n<p class=\"under unit\"><i class=spot "
         "style=\"background:var(--run2)\"></i>usual <i class=spot style=\"background:var(--alarm)\"></i>half or "
         "less</p><noscript><p>The map is drawn by a script in this page, which is not allowed to run "
         "here.</p></noscript></figure>\n";
}

}  // namespace

std::string page_of(const ValidationReport& report) {
  const auto nodes = static_cast<int64_t>(report.nodes.size());
  int ranks = 0;
  for (const NodeResult& node : report.nodes) ranks += static_cast<int>(node.ranks.size());
  const LeaveOut out = leave_out(report);
  const auto failures = std::ranges::count(report.findings, FindingKind::failure, &Finding::kind);
  std::string html =
      page_begin("trireme validate", report.is_good() ? "Cluster is good" : "Cluster has faults",
                 html_escaped(fmt::format("{}, {}; {}", plural(nodes, "node"), plural(ranks, "rank"), report.when)));
  html += "<dl class=tiles>\n" +
          figure_tile("verdict", report.is_good() ? "good" : "bad", out.slurm.empty() ? "every node may be used" : out.slurm) +
          figure_tile("failures", fmt::format("{}", failures), plural(std::ssize(report.findings) - failures, "warning")) +
          figure_tile("took", format_duration(report.seconds), report.command) + "</dl>\n";
  html += heat_map(report) + findings_table(report) + ranks_table(report) + collectives_table(report, ranks);
  std::vector<std::vector<std::string>> rows;
  for (const NodeResult& node : report.nodes) rows.push_back({node.inventory.node, inventory_line(node.inventory.facts)});
  html += table_of("Nodes", {"node", "inventory"}, rows);
  nlohmann::ordered_json data{
      {"units", report.units}, {"reference", report.pair_reference}, {"pairs", nlohmann::ordered_json::array()}};
  for (const PairRate& one : report.pairs) data["pairs"].push_back({one.pair.first, one.pair.second, one.rate});
  return html + page_end("The pointer over the map names the pair.", data, kValidateScript);
}

}  // namespace trireme
