#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
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

std::optional<int64_t> whole_number(double value) {
  const bool is_whole = std::abs(value) < 0x1p53 && value == std::floor(value);
  return is_whole ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

std::optional<int64_t> step_of(const json& step) {
  if (step.is_array() && step.size() == 1) return step_of(step[0]);
  if (step.is_number_integer()) return step.get<int64_t>();
  return step.is_number_float() ? whole_number(step.get<double>()) : std::nullopt;
}

// Reads the records that nearly all lines are, flat and without escapes, faster than a JSON parser does: a log of a million steps
// has half a gigabyte of them.
class PlainRecord {
 public:
  struct Value {
    std::string_view name;
    double value;
  };

  // Returns false for anything else; the JSON parser decides about that.
  bool read(std::string_view text) {
    rest_ = text;
    step_ = timestamp_ = std::nullopt;
    values_.clear();
    bool has_data = false;
    if (!take('{')) return false;
    do {
      std::string_view key, word;
      double number = 0;
      if (!take_string(key) || !take(':')) return false;
      if (key == "data") {
        if (has_data || !take_data()) return false;
        has_data = true;
      } else if (take_string(word)) {
        if (key == "timestamp") timestamp_ = number_in(word);
      } else if (take_number(number)) {
        if (key == "step") step_ = number;
      } else {
        return false;
      }
    } while (take(','));
    return take('}') && trimmed(rest_, " \r\t").empty() && step_ && has_data;
  }

  double step() const { return *step_; }
  std::optional<double> timestamp() const { return timestamp_; }
  const std::vector<Value>& values() const { return values_; }

  static std::optional<double> number_in(std::string_view word) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc{} && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_string(std::string_view& word) {
    if (!take('"')) return false;
    const size_t end = rest_.find_first_of("\"\\");
    if (end == rest_.npos || rest_[end] != '"') return false;
    word = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool take_number(double& value) {  // also NaN and Infinity
    skip_spaces();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  bool take_data() {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      Value value{};
      if (!take_string(value.name) || !take(':') || !take_number(value.value)) return false;
      values_.push_back(value);
    } while (take(','));
    return take('}');
  }

  std::string_view rest_;
  std::optional<double> step_, timestamp_;
  std::vector<Value> values_;
};

class DlloggerParser final : public LogParser {
 public:
  explicit DlloggerParser(Timestamps timestamps) : keeps_timestamps_(timestamps == Timestamps::kept) {}

  size_t read(std::string_view bytes) override {
    size_t begin = 0;
    for (size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n', begin)) {
      read_line(bytes.substr(begin, end - begin));
      begin = end + 1;
    }
    return begin;
  }

  void read_line(std::string_view line) {
    if (!line.starts_with(kPrefix)) {
      other_lines += line.find_first_not_of(" \r\t") != std::string_view::npos;
      return;
    }
    const std::string_view text = line.substr(kPrefix.size());
    if (plain_.read(trimmed(text))) return read_plain();
    const json record = parse_record(text);
    torn_lines += record.is_discarded();
    if (record.is_object() && record.contains("step") && record.contains("data") && record["data"].is_object())
      read_record(record);
  }

  int64_t records = 0, torn_lines = 0, other_lines = 0;

 private:
  void read_plain() {
    const std::optional<int64_t> step = whole_number(plain_.step());
    if (!step) return;
    records += 1;
    for (const PlainRecord::Value& value : plain_.values()) series.add(value.name, *step, value.value);
    add_timestamp(*step, plain_.timestamp());
  }

  void read_record(const json& record) {
    const json &step = record["step"], &data = record["data"];
    if (step == "PARAMETER") {
      for (const auto& [key, value] : data.items()) parameters.emplace(recipe_key(key), value);
      return;
    }
    const std::optional<int64_t> number = step_of(step);
    if (!number) return;  // a value logged without a step
    records += 1;
    for (const auto& [name, value] : data.items())
      if (const std::optional<double> logged = number_of(value)) series.add(name, *number, *logged);
    const json timestamp = record.value("timestamp", json());
    if (timestamp.is_string()) add_timestamp(*number, PlainRecord::number_in(timestamp.get_ref<const std::string&>()));
  }

  void add_timestamp(int64_t step, std::optional<double> seconds) {
    if (keeps_timestamps_ && seconds) series.add(kTimestamp, step, *seconds);
  }

  const bool keeps_timestamps_;
  PlainRecord plain_;
};

// Throws or notes what is wrong with the whole file.
RunLog log_of(DlloggerParser& parser, const std::string& path) {
  RunLog log{.name = {}, .files = {path}, .series = parser.series.take(), .parameters = std::move(parser.parameters)};
  if (parser.records == 0 || log.series.empty())
    throw UserError("{} has no DLLogger record of a step; its lines should read DLLL {{\"type\": \"LOG\", \"step\": 0, ...}}",
                    path);
  if (parser.torn_lines > 0)
    log.notes.push_back(fmt::format("{}: {} not whole and left out, as a killed run leaves its last one", path,
                                    parser.torn_lines == 1 ? "one line is" : fmt::format("{} lines are", parser.torn_lines)));
  if (parser.other_lines > 0)
    log.notes.push_back(fmt::format("{}: {} lines that do not begin with DLLL were passed over", path, parser.other_lines));
  return log;
}

}  // namespace

bool looks_like_dllogger(std::string_view first_bytes) { return first_bytes.starts_with(kPrefix); }

std::unique_ptr<LogParser> dllogger_parser(Timestamps timestamps) { return std::make_unique<DlloggerParser>(timestamps); }

RunLog read_dllogger(const std::string& path) {
  const std::string text = read_log_file(path);
  if (text.empty())
    throw UserError("{} is empty; of a run on several nodes only the first writes records: look for rank-0/dllogger.json", path);
  DlloggerParser parser(Timestamps::left_out);
  const size_t end = parser.read(text);
  parser.read_line(std::string_view(text).substr(end));  // a line that lacks nothing but its end is whole
  return log_of(parser, path);
}

}  // namespace trireme
