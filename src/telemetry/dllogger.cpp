#include "telemetry/dllogger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/python_json.h"

namespace trireme {
namespace {

// Appends seconds with microseconds, without trailing zeros after the first decimal: "1727487085.63194", "12.0".
void append_seconds(std::string& out, int64_t microseconds) {
  fmt::format_to(std::back_inserter(out), "{}.{:06}", microseconds / 1'000'000, microseconds % 1'000'000);
  while (out.back() == '0' && out[out.size() - 2] != '.') out.pop_back();
}

// The reference systems hold logged values in f32 and print them as f64; counters are exact in both.
void append_value(std::string& out, double value, NumberKind kind) {
  if (kind == NumberKind::integer)
    fmt::format_to(std::back_inserter(out), "{}", static_cast<int64_t>(value));
  else
    append_python_number(out, kind == NumberKind::real ? static_cast<double>(static_cast<float>(value)) : value);
}

// Returns the step of a line, or nothing for the parameters. Does not parse JSON, because a loss may be NaN, which JSON does not
// have.
std::optional<int64_t> step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\": ";
  const size_t at = line.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t step = 0;
  const char* begin = line.data() + at + kKey.size();
  const bool is_number = std::from_chars(begin, line.data() + line.size(), step).ec == std::errc{};
  return is_number ? std::optional(step) : std::nullopt;
}

// Renames the log of an earlier run, to dllogger.1.json, before a run that starts at step 0.
std::string without_earlier_run(const std::string& path, int64_t first_step) {
  std::ifstream file(path);
  std::string line;
  bool has_steps = false;
  while (first_step == 0 && !has_steps && std::getline(file, line)) has_steps = step_of(line).has_value();
  if (!has_steps) return path;
  const std::filesystem::path aside = numbered_name(path);
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error) throw Failure("cannot rename {}, the log of another run, to {}: {}", path, aside.string(), error.message());
  return path;
}

}  // namespace

// ----------------------------------------------------------------------------------------------------------------- file

DlloggerSink::DlloggerSink(const std::string& path, const DlloggerOptions& options, const LoggedParameters& parameters,
                           Notify notify, const Clock& clock)
    : options_(options),
      clock_(clock),
      notify_(notify),
      file_(without_earlier_run(path, options.first_step), std::move(notify)),
      elapsed_(clock) {
  file_.keep_lines(
      [&](std::string_view line) { return options.first_step > 0 && step_of(line).value_or(-1) < options.first_step; });
  if (file_.size() > 0) return;

  begin_record();
  line_ += "\"PARAMETER\", \"data\": {";
  for (const char* separator = ""; const auto& [key, value] : parameters) {
    line_ += std::exchange(separator, ", ");
    append_python_json(line_, nlohmann::json(key));
    line_ += ": ";
    append_python_json(line_, value);
  }
  end_record();
}

void DlloggerSink::step(const StepRecord& record) {
  last_ = record;
  last_line_at_.reset();
  if (!record.logged) return;
  last_line_at_ = file_.size();
  write_step(record, std::nullopt);
}

// If the process is killed between the two writes, there is no checkpoint of this step yet, so a resumed run writes the line
// again.
void DlloggerSink::validation(const ValidationRecord& record) {
  if (record.steps_done != last_.step + 1) return;  // this process has not run the step before it
  try {
    if (last_line_at_) file_.cut(*last_line_at_);
  } catch (const Failure& failure) {
    return notify_(Severity::warning, fmt::format("{}; val_loss is missing from it", failure.what()));
  }
  last_line_at_ = file_.size();
  write_step(last_, record.loss);
}

void DlloggerSink::write_step(const StepRecord& record, std::optional<double> validation_loss) {
  begin_record();
  fmt::format_to(std::back_inserter(line_), "{}, \"data\": {{", record.step);
  const char* separator = "";
  const auto add = [&](const char* name, double value, NumberKind kind) {
    fmt::format_to(std::back_inserter(line_), "{}\"{}\": ", std::exchange(separator, ", "), name);
    append_value(line_, value, kind);
  };
  visit_step_values(record, options_.timing, add);
  if (validation_loss) add("val_loss", *validation_loss, NumberKind::real);
  end_record();
}

void DlloggerSink::begin_record() {
  const int64_t now = clock_.unix_microseconds();
  line_ = "DLLL {\"timestamp\": \"";
  append_seconds(line_, now);
  line_ += "\", \"datetime\": \"";
  append_local_time(line_, now);
  line_ += "\", \"elapsedtime\": \"";
  append_seconds(line_, std::llround(elapsed_.seconds() * 1e6));
  line_ += "\", \"type\": \"LOG\", \"step\": ";
}

void DlloggerSink::end_record() {
  line_ += "}}";
  file_.append_line(line_);
}

// --------------------------------------------------------------------------------------------------------------- stdout

void DlloggerStdout::step(const StepRecord& record) {
  if (!record.logged) return;
  begin_line(record.step);
  visit_step_values(record, timing_, [&](const char* name, double value, NumberKind kind) {
    fmt::format_to(std::back_inserter(line_), " {} : ", name);
    append_value(line_, value, kind);
  });
  end_line();
}

void DlloggerStdout::validation(const ValidationRecord& record) {
  begin_line(std::max<int64_t>(record.steps_done - 1, 0));
  line_ += " val_loss : ";
  append_value(line_, record.loss, NumberKind::real);
  end_line();
}

void DlloggerStdout::begin_line(int64_t step) {
  line_ = "DLL ";
  append_local_time(line_, clock_.unix_microseconds());
  fmt::format_to(std::back_inserter(line_), " - {}", step);
}

void DlloggerStdout::end_line() {
  line_ += '\n';
  std::fwrite(line_.data(), 1, line_.size(), stream_);
  std::fflush(stream_);
}

}  // namespace trireme
