#include "telemetry/dllogger.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace trireme {
namespace {

// Numbers, spaces and escapes as Python's json module writes them, because lines are compared and searched as text.
void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "Infinity" : "-Infinity";
  } else {
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
  }
}

void append_value(std::string& out, const nlohmann::json& value) {
  if (value.is_number_float()) {
    append_number(out, value.get<double>());
  } else if (value.is_array()) {
    out += '[';
    for (const char* separator = ""; const nlohmann::json& element : value) {
      out += std::exchange(separator, ", ");
      append_value(out, element);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const char* separator = ""; const auto& [key, element] : value.items()) {
      out += std::exchange(separator, ", ");
      append_value(out, key);
      out += ": ";
      append_value(out, element);
    }
    out += '}';
  } else {
    constexpr bool kEscapeAllButAscii = true;
    out += value.dump(-1, ' ', kEscapeAllButAscii, nlohmann::json::error_handler_t::replace);
  }
}

// Seconds with their microseconds, trailing zeros dropped but for the first: "1727487085.63194", "12.0".
void append_seconds(std::string& out, int64_t microseconds) {
  fmt::format_to(std::back_inserter(out), "{}.{:06}", microseconds / 1'000'000, microseconds % 1'000'000);
  while (out.back() == '0' && out[out.size() - 2] != '.') out.pop_back();
}

// The reference systems hold what they log in f32 and print it as f64; counters are exact in both.
void append_f32(std::string& out, std::string_view key, double value) {
  fmt::format_to(std::back_inserter(out), ", \"{}\": ", key);
  append_number(out, static_cast<double>(static_cast<float>(value)));
}

void append_counter(std::string& out, std::string_view key, int64_t value) {
  fmt::format_to(std::back_inserter(out), ", \"{}\": ", key);
  append_number(out, static_cast<double>(value));
}

// The step of a line; none for the parameters. Not by parsing JSON: a loss may be NaN, which JSON does not have.
std::optional<int64_t> step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\": ";
  const size_t at = line.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t step = 0;
  const char* begin = line.data() + at + kKey.size();
  const bool is_number = std::from_chars(begin, line.data() + line.size(), step).ec == std::errc{};
  return is_number ? std::optional(step) : std::nullopt;
}

// How many bytes of the file are whole lines that come before `first_step`.
int64_t bytes_before(const std::string& path, int64_t first_step) {
  if (first_step == 0) return 0;
  std::ifstream file(path, std::ios::binary);
  int64_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {  // eof: the newline is missing, the line is torn
    if (step_of(line).value_or(-1) >= first_step) break;
    bytes += static_cast<int64_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

DlloggerSink::DlloggerSink(const std::string& path, int64_t first_step, const LoggedParameters& parameters, Notify notify,
                           const Clock& clock)
    : clock_(clock), file_(path, std::move(notify)), elapsed_(clock) {
  file_.cut(bytes_before(path, first_step));
  if (file_.size() > 0) return;

  begin_record();
  line_ += "\"PARAMETER\", \"data\": {";
  for (const char* separator = ""; const auto& [key, value] : parameters) {
    line_ += std::exchange(separator, ", ");
    append_value(line_, key);
    line_ += ": ";
    append_value(line_, value);
  }
  end_record();
}

void DlloggerSink::step(const StepRecord& record) {
  begin_record();
  fmt::format_to(std::back_inserter(line_), "{}, \"data\": {{\"reduced_train_loss\": ", record.step);
  append_number(line_, static_cast<double>(static_cast<float>(record.loss)));
  append_f32(line_, "lr", record.learning_rate);
  append_counter(line_, "global_step", record.step);
  append_counter(line_, "consumed_samples", record.consumed_samples);
  if (record.backward_seconds) append_f32(line_, "train_backward_timing in s", *record.backward_seconds);
  append_f32(line_, "grad_norm", record.grad_norm);
  append_f32(line_, "train_step_timing in s", record.mean_step_seconds);
  append_f32(line_, "train_step_timing_raw in s", record.step_seconds);
  if (record.validation_loss) append_f32(line_, "val_loss", *record.validation_loss);
  fmt::format_to(std::back_inserter(line_), ", \"epoch\": {}", record.epoch);
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
  line_ += "}}\n";
  file_.append(line_);
}

}  // namespace trireme
