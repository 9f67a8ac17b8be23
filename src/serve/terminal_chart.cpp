#include "serve/terminal_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace trireme {
namespace {

class BrailleCanvas {
 public:
  BrailleCanvas(int columns, int rows) : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns * rows)) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
  }

  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const unsigned dots = cells_[static_cast<size_t>(row * columns_ + column)];
      const unsigned code = 0x2800 + dots;
      if (dots == 0) {
        text += ' ';
        continue;
      }
      text += static_cast<char>(0xE0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    return text;
  }

 private:
  void set(int x, int y) {  // from the upper left corner
    constexpr unsigned kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || x >= width() || y < 0 || y >= height()) return;
    cells_[static_cast<size_t>(y / 4 * columns_ + x / 2)] |= kDots[y % 4][x % 2];
  }

  int columns_, rows_;
  std::vector<unsigned> cells_;
};

struct ValueRange {
  double low = 0, high = 0;
};

ValueRange range_of(const std::vector<double>& values, TerminalChart::Range kind) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  if (finite.empty()) return {};
  std::ranges::sort(finite);
  ValueRange range{finite.front(), finite.back()};
  if (kind == TerminalChart::Range::usual) {
    const auto at = [&](double share) { return finite[static_cast<size_t>(share * static_cast<double>(finite.size() - 1))]; };
    range.high = std::min(range.high, at(0.9) + 3 * std::max(at(0.9) - at(0.1), 0.02 * at(0.9)));
  }
  return range;
}

std::string left_padded(const std::string& text, int columns) {
  return std::string(static_cast<size_t>(std::max(0, columns - columns_of(text))), ' ') + text;
}

}  // namespace

int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::string> draw_chart(const History& history, const TerminalChart& chart) {
  constexpr int64_t kEver = std::numeric_limits<int64_t>::max();
  const auto points = static_cast<size_t>(std::max(2 * chart.columns, 2));
  const ThinnedSeries series = history.groups(0, kEver, history.group_for(0, kEver, points));
  const ValueRange range = range_of(series.values, chart.range);
  const std::string high = series.values.empty() ? "" : chart.label(range.high);
  std::string low = series.values.empty() ? "" : chart.label(range.low);
  if (low == high) low.clear();
  const int labels = std::max({columns_of(high), columns_of(low), 6});

  BrailleCanvas canvas(std::max(chart.columns - labels - 2, 1), chart.rows);
  int last_x = -1, last_y = -1;
  for (size_t i = 0; i < series.steps.size(); ++i) {
    if (!std::isfinite(series.values[i])) {
      last_x = -1;
      continue;
    }
    const auto span = static_cast<double>(std::max<int64_t>(series.steps.back() - series.steps.front(), 1));
    const double along = static_cast<double>(series.steps[i] - series.steps.front()) / span;
    const double height =
        range.high > range.low ? (std::min(series.values[i], range.high) - range.low) / (range.high - range.low) : 0.5;
    const int x = static_cast<int>(std::lround(along * (canvas.width() - 1)));
    const int y = static_cast<int>(std::lround((1 - height) * (canvas.height() - 1)));
    canvas.line(last_x < 0 ? x : last_x, last_x < 0 ? y : last_y, x, y);
    last_x = x, last_y = y;
  }

  std::vector<std::string> lines;
  for (int row = 0; row < chart.rows; ++row) {
    const std::string label = row == 0 ? high : row == chart.rows - 1 ? low : "";
    std::string line = fmt::format("{} {}{}", left_padded(label, labels), label.empty() ? "│" : "┤", canvas.row(row));
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string draw_bars(const std::vector<double>& values) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const ValueRange range = range_of(values, TerminalChart::Range::all);
  std::string text;
  for (const double value : values) {
    const double share = range.high > range.low ? (value - range.low) / (range.high - range.low) : 0;
    text += std::isfinite(value) ? kBars[static_cast<size_t>(std::lround(share * 7))] : " ";
  }
  return text;
}

}  // namespace trireme
