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

// Rows as in RFC 4180: quoted cells may contain commas, line ends and doubled quotes.
class CsvText {
 public:
  explicit CsvText(std::string_view text) : rest_(text) {}

  // Returns false at the end. A last row without a line end is torn and is not returned.
  bool next(std::vector<std::string>& row) {
    row.assign(1, "");
    bool in_quotes = false;
    for (size_t at = 0; at < rest_.size(); ++at) {
      const char c = rest_[at];
      if (c == '"') {
        const bool is_doubled = in_quotes && at + 1 < rest_.size() && rest_[at + 1] == '"';
        if (is_doubled)
          row.back() += rest_[++at];
        else
          in_quotes = !in_quotes;
      } else if (in_quotes || (c != ',' && c != '\n' && c != '\r')) {
        row.back() += c;
      } else if (c == ',') {
        row.emplace_back();
      } else if (c == '\n') {
        rest_.remove_prefix(at + 1);
        return true;
      }
    }
    ends_torn_ = !rest_.empty();
    rest_ = {};
    return false;
  }

  bool ends_torn() const { return ends_torn_; }

 private:
  std::string_view rest_;
  bool ends_torn_ = false;
};

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

}  // namespace

RunLog read_metrics_csv(const std::string& path) {
  RunLog log;
  log.files.push_back(path);
  const std::string text = read_log_file(path);
  CsvText csv(text);
  std::vector<std::string> header, row;
  if (!csv.next(header)) throw UserError("{} has no header line with the names of its columns", path);
  const size_t steps = step_column(header, path);

  SeriesBuilder series;
  int64_t passed_over = 0;
  while (csv.next(row)) {
    if (row.size() == 1 && row[0].empty()) continue;
    const std::optional<double> step = steps < row.size() ? number_in(row[steps]) : std::nullopt;
    if (row.size() != header.size() || !step || std::abs(*step) >= 0x1p53) {
      passed_over += 1;
      continue;
    }
    for (size_t column = 0; column < header.size(); ++column)
      if (const std::optional<double> value = number_in(row[column]); value && column != steps)
        series.add(header[column], static_cast<int64_t>(*step), *value);
  }
  log.series = series.take();
  if (log.series.empty()) throw UserError("{} has no row with a step and a value", path);
  if (csv.ends_torn()) log.notes.push_back(fmt::format("{}: its last row has no end and was left out", path));
  if (passed_over > 0)
    log.notes.push_back(
        fmt::format("{}: {} rows without a step, or with too few or too many cells, were passed over", path, passed_over));
  return log;
}

}  // namespace trireme
