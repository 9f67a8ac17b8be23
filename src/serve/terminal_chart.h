// A curve as lines of text, drawn with braille characters: each has two by four dots.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/history.h"

namespace trireme {

struct TerminalChart {
  int columns = 40, rows = 5;                                    // with the labels
  std::function<std::string(double)> label;                      // of a value on the axis
  enum class Range : uint8_t { all, usual } range = Range::all;  // usual: a few values far above all others are cut off
};

// `rows` lines of at most `columns` columns: the labels of the highest and the lowest value on the left, the whole history.
std::vector<std::string> draw_chart(const History& history, const TerminalChart& chart);

// One bar of eight heights per value, from the least to the most of them.
std::string draw_bars(const std::vector<double>& values);

int columns_of(std::string_view text);  // of UTF-8 text without wide characters

}  // namespace trireme
