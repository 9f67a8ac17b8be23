#include "serve/prometheus.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

namespace trireme {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.9g}", value);
}

}  // namespace

std::string label_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

void PrometheusText::count(const RunEntry& run) { ++states_[static_cast<size_t>(run.state)]; }

void PrometheusText::add(const RunEntry& run, const RunFeed& feed) {
  const std::string labels = fmt::format("run=\"{}\",id=\"{}\"", label_escaped(run.name), run.id);
  for (size_t i = 0; i < static_cast<size_t>(Quantity::count_); ++i) {
    const History& history = feed.of(static_cast<Quantity>(i));
    const QuantityRow& row = row_of(static_cast<Quantity>(i));
    if (!history.empty())
      gauge(fmt::format("trireme_run_{}", row.key), fmt::format("{}, last logged value.", row.title), labels,
            history.back().value);
  }
  if (const auto done = feed.steps_done())
    gauge("trireme_run_steps_done", "Steps that the run has logged.", labels, static_cast<double>(*done));
  if (const auto planned = feed.planned_steps())
    gauge("trireme_run_steps_planned", "trainer.max_steps of the run.", labels, static_cast<double>(*planned));
  gauge("trireme_run_last_record_timestamp_seconds", "When the run wrote its last record.", labels,
        static_cast<double>(run.modified));
  gauge("trireme_run_read_share", "Share of the log that has been read; values before 1 are older.", labels, feed.share_read());
}

void PrometheusText::gauge(const std::string& name, const std::string& help, const std::string& labels, double value) {
  Family& family = families_[name];
  family.help = help;
  family.samples += fmt::format("{}{{{}}} {}\n", name, labels, number_text(value));
}

std::string PrometheusText::text() const {
  std::string text = "# HELP trireme_runs Runs below the folder, by state.\n# TYPE trireme_runs gauge\n";
  for (size_t i = 0; i < states_.size(); ++i)
    text += fmt::format("trireme_runs{{state=\"{}\"}} {}\n", name_of(static_cast<RunStatus>(i)), states_[i]);
  for (const auto& [name, family] : families_)
    text += fmt::format("# HELP {} {}\n# TYPE {} gauge\n{}", name, family.help, name, family.samples);
  return text;
}

}  // namespace trireme
