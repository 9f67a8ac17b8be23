#include "plan/scaling_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"

namespace trireme {
namespace {

constexpr double kWidth = 920, kHeight = 400, kTop = 84, kBottom = 56, kPanelWidth = 350;
constexpr const char *kInk = "#1b2733", *kGrid = "#e3e8ec", *kIdeal = "#9aa7b2", *kStrong = "#1f6fb2", *kWeak = "#c2571a";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

std::string label(double x, double y, const std::string& text, const char* anchor, int size = 12, const char* color = kInk) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, size,
                     anchor, color, escaped(text));
}

struct ChartPoint {
  double x = 0, y = 0;  // as shares of the panel, y upwards
};

// A panel with the number of GPUs, doubling, from left to right.
class Panel {
 public:
  Panel(double left, const ScalingCurves& curves) : left_(left) {
    const std::vector<ScalingPoint>& points = curves.strong.points;
    first_ = std::log2(static_cast<double>(points.front().gpus));
    last_ = std::max(first_ + 1, std::log2(static_cast<double>(points.back().gpus)));
    const size_t every = points.size() / 9 + 1;
    for (size_t i = 0; i < points.size(); i += every) {
      const double at = place({x_of(points[i].gpus), 0}).x;
      svg += line({at, kTop}, {at, kHeight - kBottom}, kGrid);
      svg += label(at, kHeight - kBottom + 18, fmt::format("{}", points[i].gpus), "middle");
    }
    svg += label(left_ + kPanelWidth / 2, kHeight - 14, "GPUs", "middle");
  }

  double x_of(int64_t gpus) const { return (std::log2(static_cast<double>(gpus)) - first_) / (last_ - first_); }

  void title(const std::string& text) { svg += label(left_, kTop - 14, text, "start", 13); }

  void grid_line(double y, const std::string& text) {
    const ChartPoint at = place({0, y});
    svg += line(at, {left_ + kPanelWidth, at.y}, kGrid) + label(left_ - 8, at.y + 4, text, "end");
  }

  void ideal(ChartPoint from, ChartPoint to) { svg += line(place(from), place(to), kIdeal, " stroke-dasharray=\"5 4\""); }

  void curve(const std::vector<ChartPoint>& points, const char* color) {
    std::string way;
    for (const ChartPoint& point : points) {
      const ChartPoint at = place(point);
      way += fmt::format("{:.1f},{:.1f} ", at.x, at.y);
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", at.x, at.y, color);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", way, color);
  }

  std::string svg;

 private:
  ChartPoint place(ChartPoint share) const {
    return {left_ + share.x * kPanelWidth, kHeight - kBottom - share.y * (kHeight - kBottom - kTop)};
  }

  static std::string line(ChartPoint from, ChartPoint to, const char* color, const char* style = "") {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n", from.x, from.y, to.x,
                       to.y, color, style);
  }

  double left_, first_ = 0, last_ = 1;
};

const char* color_of(const ScalingCurve& curve, const ScalingCurves& curves) { return &curve == &curves.weak ? kWeak : kStrong; }

std::vector<const ScalingPoint*> points_with_plans(const ScalingCurve& curve) {
  std::vector<const ScalingPoint*> points;
  for (const ScalingPoint& point : curve.points)
    if (point.plan) points.push_back(&point);
  return points;
}

// Both axes logarithmic, so that ideal scaling is a straight line.
std::string speed_panel(const ScalingCurves& curves) {
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak})
    for (const ScalingPoint* point : points_with_plans(*curve)) {
      least = std::min(least, point->plan->tokens_per_second());
      most = std::max(most, point->plan->tokens_per_second() / curve->efficiency(*point));
    }
  Panel panel(80, curves);
  panel.title("tokens/s");
  if (most == 0) return panel.svg;
  const int bottom = static_cast<int>(std::floor(std::log10(least))), top = static_cast<int>(std::ceil(std::log10(most) + 1e-9));
  const auto y_of = [&](double speed) { return (std::log10(speed) - bottom) / (top - bottom); };
  for (int power = bottom; power <= top; ++power) panel.grid_line(y_of(std::pow(10, power)), format_count(std::pow(10, power)));
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak}) {
    std::vector<ChartPoint> way;
    for (const ScalingPoint* point : points_with_plans(*curve))
      way.push_back({panel.x_of(point->gpus), y_of(point->plan->tokens_per_second())});
    if (way.empty()) continue;
    const ScalingPoint& last = *points_with_plans(*curve).back();
    const double ideal = last.plan->tokens_per_second() / curve->efficiency(last);
    panel.ideal(way.front(), {way.back().x, y_of(ideal)});
    panel.curve(way, color_of(*curve, curves));
  }
  return panel.svg;
}

std::string efficiency_panel(const ScalingCurves& curves) {
  double most = 1;
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak})
    for (const ScalingPoint& point : curve->points) most = std::max(most, curve->efficiency(point));
  Panel panel(540, curves);
  panel.title("efficiency: tokens/s per GPU over the first point's");
  const int fifths = static_cast<int>(std::ceil(most * 5 - 1e-9));
  const double top = fifths / 5.0;
  for (int fifth = 0; fifth <= fifths; ++fifth) panel.grid_line(fifth / 5.0 / top, fmt::format("{}%", 20 * fifth));
  panel.ideal({0, 1 / top}, {1, 1 / top});
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak}) {
    std::vector<ChartPoint> way;
    for (const ScalingPoint* point : points_with_plans(*curve))
      way.push_back({panel.x_of(point->gpus), curve->efficiency(*point) / top});
    panel.curve(way, color_of(*curve, curves));
  }
  return panel.svg;
}

std::string legend(const ScalingCurves& curves) {
  std::string svg;
  double left = 80;
  for (const ScalingCurve* curve : {&curves.strong, &curves.weak}) {
    svg += fmt::format("<rect x=\"{:.0f}\" y=\"43\" width=\"18\" height=\"4\" fill=\"{}\"/>\n", left, color_of(*curve, curves));
    svg += label(left + 24, 50, curve->name + ", " + curve->summary, "start");
    left += 260;
  }
  svg += fmt::format("<line x1=\"{0:.0f}\" y1=\"45\" x2=\"{1:.0f}\" y2=\"45\" stroke=\"{2}\" stroke-dasharray=\"5 4\"/>\n", left,
                     left + 18, kIdeal);
  return svg + label(left + 24, 50, "ideal", "start");
}

}  // namespace

std::string scaling_svg(const ScalingCurves& curves, const std::string& recipe) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  svg += label(80, 28, fmt::format("{} on {}: predicted scaling, fastest layout at each point", recipe, curves.cluster), "start",
               15);
  return svg + legend(curves) + speed_panel(curves) + efficiency_panel(curves) + "</svg>\n";
}

}  // namespace trireme
