#include "report/page_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "config/tree.h"
#include "report/page_frame.h"

namespace trireme {
namespace {

constexpr std::string_view kNoValue = "–";

template <class... Args>
void add(std::string& html, fmt::format_string<Args...> text, Args&&... args) {
  fmt::format_to(std::back_inserter(html), text, std::forward<Args>(args)...);
}

// One column per run.
std::string table_begin(const Report& report, std::string_view first_column) {
  std::string html = fmt::format("<div class=scroll><table><thead><tr><th scope=col>{}</th>", first_column);
  for (const ReportedRun& run : report.runs) add(html, "<th scope=col class=run>{}</th>", html_escaped(run.log.name));
  return html + "</tr></thead><tbody>\n";
}

// -------------------------------------------------------------------------------------------------------------- figures

// Formats a number with five significant digits, with an exponent if it would be long. The script uses the same format.
std::string number_text(double value) {
  std::string text = fmt::format("{:.5g}", value);
  if (const size_t exponent = text.find("e+"); exponent != std::string::npos) text.erase(exponent + 1, 1);
  return text;
}

std::string loss_text(double loss) { return fmt::format("{:.4f}", loss); }

// A figure with its unit and its origin. The value is empty if the log does not have it.
struct Figure {
  std::string_view title;
  double number = 0;
  std::string value = {}, unit = {}, how = {};
};

// Returns the change relative to the first run.
std::string change_text(const Figure& first, const Figure& figure) {
  if (first.value.empty() || figure.value.empty() || !(first.number > 0) || first.number == figure.number) return "";
  return fmt::format("<span class=change>{:+.1f}%</span>", (figure.number / first.number - 1) * 100);
}

// `text` is a number with its unit: "25.40 s".
Figure with_unit(std::string_view title, double number, const std::string& text, std::string how) {
  const size_t space = std::min(text.find(' '), text.size());
  return {title, number, text.substr(0, space), std::string(trimmed(text.substr(space))), std::move(how)};
}

Figure loss_figure(const RunMetrics& run) {
  if (!run.last_loss) return {"Loss"};
  std::string how = fmt::format("at step {}; {} at step {}", run.last_step, loss_text(*run.first_loss), run.first_step);
  if (run.last_validation_loss) how += "; validation " + loss_text(*run.last_validation_loss);
  return {"Loss", *run.last_loss, loss_text(*run.last_loss), "", std::move(how)};
}

Figure step_time_figure(const RunMetrics& run) {
  if (!run.step) return {"Step time"};
  return with_unit("Step time", run.step->mean, format_seconds(run.step->mean),
                   fmt::format("mean of {}; median {}", run.step->chosen, format_seconds(run.step->median)));
}

Figure tokens_figure(const RunMetrics& run) {
  if (!run.tokens_per_second) return {"Tokens per second"};
  const std::optional<double> each = run.tokens_per_second_per_device();
  return {"Tokens per second", *run.tokens_per_second, format_count(*run.tokens_per_second), "",
          each ? fmt::format("{} per device on {}", format_count(*each), *run.facts.accelerators) : ""};
}

Figure tflops_figure(const RunMetrics& run) {
  if (run.rates.empty()) return {"TFLOP/s per device"};
  const Rate& rate = run.rates.front();
  return {"TFLOP/s per device", rate.tflops, number_text(rate.tflops), "",
          fmt::format("{}: {} FLOPs per sample", formula_text(rate.basis), number_text(rate.basis.per_sample))};
}

Figure mfu_figure(const RunMetrics& run) {
  if (!run.mfu) return {"MFU"};
  return {"MFU", *run.mfu, fmt::format("{:.1f}", *run.mfu * 100), "%",
          fmt::format("of {} TFLOP/s: {}", number_text(run.facts.peak->tflops), run.facts.peak->name)};
}

Figure memory_figure(const RunMetrics& run) {
  if (!run.memory_bytes) return {"Memory per device"};
  return with_unit("Memory per device", *run.memory_bytes, format_bytes(static_cast<int64_t>(*run.memory_bytes)),
                   "the most in use");
}

Figure length_figure(const RunMetrics& run) {
  const int64_t steps = run.last_step - run.first_step + 1;
  const std::optional<double> tokens = run.facts.tokens_per_step();
  return {"Steps", static_cast<double>(steps), fmt::format("{}", steps), "",
          tokens ? fmt::format("{} tokens per step", format_count(*tokens)) : ""};
}

constexpr std::array kFigures{loss_figure, step_time_figure, tokens_figure, tflops_figure,
                              mfu_figure,  memory_figure,    length_figure};

// ------------------------------------------------------------------------------------------------------------- settings

std::string value_text(const nlohmann::json* value) {
  if (value == nullptr) return std::string(kNoValue);
  if (value->is_string()) return html_escaped(value->get_ref<const std::string&>());
  return html_escaped(value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Keys grouped by whether the runs agree. A key that a log lacks is not a difference: other programs log fewer keys.
struct SettingKeys {
  std::set<std::string> all, different, only_some;
};

SettingKeys setting_keys(const Report& report) {
  SettingKeys keys;
  for (const ReportedRun& run : report.runs)
    for (const auto& [key, value] : run.log.parameters) keys.all.insert(key);
  for (const std::string& key : keys.all) {
    std::set<nlohmann::json> values;
    bool is_absent = false;
    for (const ReportedRun& run : report.runs) {
      const nlohmann::json* const value = run.log.parameter(key);
      if (value != nullptr) values.insert(*value);
      is_absent |= value == nullptr;
    }
    if (values.size() > 1)
      keys.different.insert(key);
    else if (is_absent)
      keys.only_some.insert(key);
  }
  return keys;
}

std::string settings_table(const Report& report, const std::set<std::string>& keys) {
  std::string html = table_begin(report, "setting");
  for (const std::string& key : keys) {
    add(html, "<tr><th scope=row class=key>{}</th>", html_escaped(key));
    for (const ReportedRun& run : report.runs) add(html, "<td class=key>{}</td>", value_text(run.log.parameter(key)));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string key_figures(const Report& report) {
  std::string html = "<dl class=tiles>";
  for (const auto& make : kFigures) {
    const Figure figure = make(report.runs.front().metrics);
    if (figure.value.empty()) continue;
    add(html, "<div class=tile><dt>{}</dt><dd><span class=figure>{}</span> <span class=unit>{}</span>", figure.title,
        html_escaped(figure.value), html_escaped(figure.unit));
    add(html, "<div class=how>{}</div></dd></div>", html_escaped(figure.how));
  }
  return html + "</dl>\n";
}

std::string summary_table(const Report& report) {
  std::string html = table_begin(report, "");
  for (const auto& make : kFigures) {
    const Figure first = make(report.runs.front().metrics);
    add(html, "<tr><th scope=row>{}</th>", first.title);
    for (const ReportedRun& run : report.runs) {
      const Figure figure = make(run.metrics);
      const std::string value = figure.value.empty() ? std::string(kNoValue) : html_escaped(figure.value + " " + figure.unit);
      add(html, "<td class=number><b>{}</b> {}<span class=how>{}</span></td>", value, change_text(first, figure),
          html_escaped(figure.how));
    }
    html += "</tr>\n";
  }
  html += "<tr><th scope=row>Layout</th>";
  for (const ReportedRun& run : report.runs) add(html, "<td class=number>{}</td>", html_escaped(layout_text(run.metrics.facts)));
  return html + "</tr></tbody></table></div>\n";
}

std::string time_bars(const Report& report) {
  std::string html;
  std::set<TimeUse> used;
  for (const ReportedRun& run : report.runs) {
    if (!run.log.time) continue;
    const RunTime& time = *run.log.time;
    add(html, "<div class=timerow><div class=how>{}</div><div class=timebar role=img aria-label=\"{}\">",
        report.runs.size() > 1 ? html_escaped(run.log.name) : "", html_escaped(time.text()));
    for (size_t i = 0; i < kTimeUses; ++i) {
      const auto use = static_cast<TimeUse>(i);
      if (time.times[use] == 0) continue;
      used.insert(use);
      add(html, "<span class=use{} style=\"flex-grow:{:.6f}\" title=\"{} {}, {:.2f}%\"></span>", i, time.share(use), name_of(use),
          format_duration(static_cast<double>(time.times[use]) * 1e-6), time.share(use) * 100);
    }
    add(html, "</div><div class=how>{}</div></div>\n", html_escaped(time.text()));
  }
  if (html.empty()) return "";
  std::string legend;
  for (const TimeUse use : used) add(legend, "<span><i class=use{}></i>{}</span> ", static_cast<size_t>(use), name_of(use));
  return "<h2>Where the time went</h2>\n<div class=timelegend>" + legend + "</div>\n" + html;
}

std::string settings_tables(const Report& report) {
  const SettingKeys keys = setting_keys(report);
  if (keys.all.empty()) return "<h2>Settings</h2><p>The logs hold no settings.</p>\n";
  const auto folded = [&](const std::string& title, const std::set<std::string>& which) {
    return fmt::format("<details><summary>{}</summary>{}</details>\n", title, settings_table(report, which));
  };
  if (report.runs.size() == 1) return "<h2>Settings</h2>\n" + folded(fmt::format("all {} settings", keys.all.size()), keys.all);
  std::string html = "<h2>Settings that differ</h2>\n";
  html += keys.different.empty() ? "<p>None: no setting has two values.</p>\n" : settings_table(report, keys.different);
  if (!keys.only_some.empty())
    html += folded(fmt::format("{} that only some logs hold",
                               keys.only_some.size() == 1 ? "1 setting" : fmt::format("{} settings", keys.only_some.size())),
                   keys.only_some);
  return html + folded(fmt::format("all {} settings", keys.all.size()), keys.all);
}

std::string sources(const Report& report) {
  std::string html = "<h2>Where this comes from</h2>\n";
  for (const ReportedRun& run : report.runs) {
    if (report.runs.size() > 1) add(html, "<p><b>{}</b></p>", html_escaped(run.log.name));
    html += "<ul class=plain>";
    for (const std::string& file : run.log.files) add(html, "<li>{}</li>", html_escaped(file));
    if (run.metrics.step)
      add(html, "<li>step times of the summary: {} values of “{}”, {}</li>", run.metrics.step->averaged,
          html_escaped(run.metrics.step->source), html_escaped(run.metrics.step->chosen));
    for (const Rate& rate : run.metrics.rates)
      add(html, "<li>{} TFLOP/s per device by {}, {} FLOPs per sample</li>", number_text(rate.tflops),
          html_escaped(formula_text(rate.basis)), number_text(rate.basis.per_sample));
    for (const std::string& note : run.metrics.notes) add(html, "<li>{}</li>", html_escaped(note));
    for (const std::string& warning : run.metrics.facts.warnings) add(html, "<li><b>warning:</b> {}</li>", html_escaped(warning));
    html += "</ul>\n";
  }
  if (!report.not_there.empty()) {
    std::string list;
    for (const std::string& title : report.not_there) add(list, "{}{}", list.empty() ? "" : ", ", html_escaped(title));
    add(html, "<p>Not in these logs: {}.</p>\n", list);
  }
  return html;
}

}  // namespace trireme
