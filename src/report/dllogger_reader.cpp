#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "report/readers.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "DLLL";

struct NonfiniteName {
  std::string_view text;
  double value;
};
constexpr std::array kNonfiniteNames{NonfiniteName{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                     NonfiniteName{"Infinity", std::numeric_limits<double>::infinity()},
                                     NonfiniteName{"-Infinity", -std::numeric_limits<double>::infinity()}};

// Python writes NaN, Infinity and -Infinity, which JSON does not have. This quotes them, and number_of converts the strings.
std::string with_quoted_nonfinite(std::string_view text) {
  std::string result;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto starts_here = [&](const NonfiniteName& name) { return text.substr(at).starts_with(name.text); };
    const auto* const name = in_string ? kNonfiniteNames.end() : std::ranges::find_if(kNonfiniteNames, starts_here);
    if (name != kNonfiniteNames.end()) {
      result.append("\"").append(name->text).append("\"");
      at += name->text.size() - 1;
      continue;
    }
    result += text[at];
    if (in_string && text[at] == '\\' && at + 1 < text.size())
      result += text[++at];
    else if (text[at] == '"')
      in_string = !in_string;
  }
  return result;
}

// Returns a discarded value if the text is not complete JSON.
json parse_record(std::string_view text) {
  json record = try_parse_json(text);
  if (record.is_discarded()) record = try_parse_json(with_quoted_nonfinite(text));
  return record;
}

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto* const name = std::ranges::find(kNonfiniteNames, value.get_ref<const std::string&>(), &NonfiniteName::text);
  return name == kNonfiniteNames.end() ? std::nullopt : std::optional(name->value);
}

std::optional<int64_t> step_of(const json& step) {
  if (step.is_array() && step.size() == 1) return step_of(step[0]);
  if (step.is_number_integer()) return step.get<int64_t>();
  if (!step.is_number_float()) return std::nullopt;
  const double value = step.get<double>();
  const bool is_whole = std::abs(value) < 0x1p53 && value == std::floor(value);
  return is_whole ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(const std::string& path) { log_.files.push_back(path); }

  void read_line(std::string_view line) {
    if (!line.starts_with(kPrefix)) {
      other_lines_ += line.find_first_not_of(" \r\t") != std::string_view::npos;
      return;
    }
    const json record = parse_record(line.substr(kPrefix.size()));
    torn_lines_ += record.is_discarded();
    if (record.is_object() && record.contains("step") && record.contains("data") && record["data"].is_object())
      read_record(record["step"], record["data"]);
  }

  RunLog finish() {
    log_.series = series_.take();
    const std::string& path = log_.files.front();
    if (records_ == 0 || log_.series.empty())
      throw UserError("{} has no DLLogger record of a step; its lines should read DLLL {{\"type\": \"LOG\", \"step\": 0, ...}}",
                      path);
    if (torn_lines_ > 0)
      log_.notes.push_back(fmt::format("{}: {} not whole and left out, as a killed run leaves its last one", path,
                                       torn_lines_ == 1 ? "one line is" : fmt::format("{} lines are", torn_lines_)));
    if (other_lines_ > 0)
      log_.notes.push_back(fmt::format("{}: {} lines that do not begin with DLLL were passed over", path, other_lines_));
    return std::move(log_);
  }

 private:
  void read_record(const json& step, const json& data) {
    if (step == "PARAMETER") {
      for (const auto& [key, value] : data.items()) log_.parameters.emplace(recipe_key(key), value);
      return;
    }
    const std::optional<int64_t> number = step_of(step);
    if (!number) return;  // a value logged without a step
    records_ += 1;
    for (const auto& [name, value] : data.items())
      if (const std::optional<double> logged = number_of(value)) series_.add(name, *number, *logged);
  }

  RunLog log_;
  SeriesBuilder series_;
  int64_t records_ = 0, torn_lines_ = 0, other_lines_ = 0;
};

}  // namespace

bool looks_like_dllogger(std::string_view first_bytes) { return first_bytes.starts_with(kPrefix); }

RunLog read_dllogger(const std::string& path) {
  const std::string text = read_log_file(path);
  if (text.empty())
    throw UserError("{} is empty; of a run on several nodes only the first writes records: look for rank-0/dllogger.json", path);
  Reader reader(path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    reader.read_line(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return reader.finish();
}

}  // namespace trireme
