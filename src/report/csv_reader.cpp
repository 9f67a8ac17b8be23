#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "report/readers.h"

namespace trireme {
namespace {

// Columns that may contain the step, in order of preference.
constexpr std::array<std::string_view, 4> kStepColumns{"step", "global_step", "iter", "iteration"};

// Takes the first row of `text`, as in RFC 4180: quoted cells may contain commas, line ends and doubled quotes. Returns its
// bytes; 0 if its end is not there yet.
size_t take_row(std::string_view text, std::vector<std::string>& row) {
  row.assign(1, "");
  bool in_quotes = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      const bool is_doubled = in_quotes && at + 1 < text.size() && text[at + 1] == '"';
      if (is_doubled)
        row.back() += text[++at];
      else
        in_quotes = !in_quotes;
    } else if (in_quotes || (c != ',' && c != '\n' && c != '\r')) {
      row.back() += c;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      return at + 1;
    }
  }
  return 0;
}

std::optional<double> number_in(const std::string& cell) {
  double value = 0;
  const char* const end = cell.data() + cell.size();
  const auto [stopped, error] = std::from_chars(cell.data(), end, value);  // accepts nan and inf as Python writes them
  return error == std::errc{} && stopped == end ? std::optional(value) : std::nullopt;
}

size_t step_column(const std::vector<std::string>& header, const std::string& path) {
  for (const std::string_view name : kStepColumns)
    if (const auto found = std::ranges::find(header, name); found != header.end())
      return static_cast<size_t>(found - header.begin());
  throw UserError("{} has no column that numbers its rows; one of step, global_step, iter, iteration is needed", path);
}

class CsvParser final : public LogParser {
 public:
  explicit CsvParser(std::string path) : path_(std::move(path)) {}

  size_t read(std::string_view bytes) override {
    size_t at = 0;
    if (header.empty()) {
      std::vector<std::string> names;
      at = take_row(bytes, names);
      if (at == 0) return 0;
      step_ = step_column(names, path_);
      header = std::move(names);
    }
    for (size_t size = take_row(bytes.substr(at), row_); size > 0; size = take_row(bytes.substr(at), row_)) {
      read_row();
      at += size;
    }
    return at;
  }

  std::vector<std::string> header;
  int64_t passed_over = 0;

 private:
  void read_row() {
    if (row_.size() == 1 && row_[0].empty()) return;
    const std::optional<double> step = step_ < row_.size() ? number_in(row_[step_]) : std::nullopt;
    if (row_.size() != header.size() || !step || std::abs(*step) >= 0x1p53) {
      passed_over += 1;
      return;
    }
    for (size_t column = 0; column < header.size(); ++column)
      if (const std::optional<double> value = number_in(row_[column]); value && column != step_)
        series.add(header[column], static_cast<int64_t>(*step), *value);
  }

  const std::string path_;
  size_t step_ = 0;
  std::vector<std::string> row_;
};

}  // namespace

std::unique_ptr<LogParser> csv_parser(const std::string& path) { return std::make_unique<CsvParser>(path); }

RunLog read_metrics_csv(const std::string& path) {
  RunLog log;
  log.files.push_back(path);
  const std::string text = read_log_file(path);
  CsvParser parser(path);
  const size_t end = parser.read(text);
  if (parser.header.empty()) throw UserError("{} has no header line with the names of its columns", path);
  log.series = parser.series.take();
  if (log.series.empty()) throw UserError("{} has no row with a step and a value", path);
  if (end < text.size()) log.notes.push_back(fmt::format("{}: its last row has no end and was left out", path));
  if (parser.passed_over > 0)
    log.notes.push_back(
        fmt::format("{}: {} rows without a step, or with too few or too many cells, were passed over", path, parser.passed_over));
  return log;
}

}  // namespace trireme
