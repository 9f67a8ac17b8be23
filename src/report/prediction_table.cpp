#include "report/prediction_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "report/page_frame.h"

namespace trireme {
namespace {

constexpr size_t kColours = 8;  // --run0 to --run7 of the page

struct PredictedPart {
  std::string name;
  double predicted = 0, measured = 0;
};

double number_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? std::max(found->get<double>(), 0.0) : 0;
}

// What a file says is not trusted: rows of another form are left out.
std::vector<PredictedPart> parts_in(const nlohmann::json& plan) {
  std::vector<PredictedPart> parts;
  const auto rows = plan.find("rows");
  if (rows == plan.end() || !rows->is_array()) return parts;
  for (const nlohmann::json& row : *rows) {
    if (!row.is_object() || !row.contains("part") || !row["part"].is_string()) continue;
    parts.push_back({row["part"].get<std::string>(), number_at(row, "predicted_s"), number_at(row, "measured_s")});
  }
  return parts;
}

// Both bars have the scale of the longer step.
std::string bar(const std::vector<PredictedPart>& parts, double PredictedPart::*seconds, double longest) {
  std::string html = "<div class=stack>";
  for (size_t i = 0; i < parts.size(); ++i)
    html += fmt::format("<span style=\"width:{:.2f}%;background:var(--run{})\" title=\"{}: {}\"></span>",
                        100 * parts[i].*seconds / longest, i % kColours, html_escaped(parts[i].name),
                        format_seconds(parts[i].*seconds));
  return html + "</div>";
}

double sum_of(const std::vector<PredictedPart>& parts, double PredictedPart::*seconds) {
  double sum = 0;
  for (const PredictedPart& part : parts) sum += part.*seconds;
  return sum;
}

std::string error_text(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:+.1f}%", 100 * (predicted / measured - 1)) : "–";
}

std::string row_text(const std::string& head, double predicted, double measured) {
  return fmt::format("<tr><th scope=row>{}</th><td class=number>{}</td><td class=number>{}</td><td class=number>{}</td></tr>\n",
                     head, format_seconds(predicted), measured > 0 ? format_seconds(measured) : "–",
                     error_text(predicted, measured));
}

std::string table_of(const nlohmann::json& plan) {
  const std::vector<PredictedPart> parts = parts_in(plan);
  const double longest = std::max(sum_of(parts, &PredictedPart::predicted), sum_of(parts, &PredictedPart::measured));
  std::string html;
  if (longest > 0)
    html += "<div>predicted" + bar(parts, &PredictedPart::predicted, longest) + "measured" +
            bar(parts, &PredictedPart::measured, longest) + "</div>\n";
  html +=
      "<div class=scroll><table><thead><tr><th scope=col>per step</th><th scope=col>predicted</th><th scope=col>measured</th>"
      "<th scope=col>error</th></tr></thead><tbody>\n";
  html += row_text("step", number_at(plan, "step_s"), number_at(plan, "measured_s"));
  for (size_t i = 0; i < parts.size(); ++i)
    html += row_text(
        fmt::format("<span class=spot style=\"background:var(--run{})\"></span>{}", i % kColours, html_escaped(parts[i].name)),
        parts[i].predicted, parts[i].measured);
  html += "</tbody></table></div>\n";
  if (!parts.empty())
    html +=
        "<p class=about>The step is the median of the steady steps; its parts are of a few steps that were traced op by op, on "
        "the "
        "rank that computed longest.</p>\n";
  return html;
}

}  // namespace

std::string prediction_tables(const Report& report) {
  std::string html;
  for (const ReportedRun& run : report.runs) {
    if (!run.log.summary.is_object()) continue;
    const auto plan = run.log.summary.find("plan");
    if (plan == run.log.summary.end() || !plan->is_object()) continue;
    const auto on = plan->find("on");
    const std::string where = on != plan->end() && on->is_string() ? on->get<std::string>() : "";
    html += fmt::format("<h2>Predicted step{}{}</h2>\n", where.empty() ? "" : ", " + html_escaped(where),
                        report.runs.size() > 1 ? ": " + html_escaped(run.log.name) : "");
    html += table_of(*plan);
  }
  return html;
}

}  // namespace trireme
