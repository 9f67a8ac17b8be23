#include "plan/measured_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "plan/number_keys.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 3> kFormats{"f32", "bf16", "fp8"};
constexpr std::string_view kOpColumns = "[rows, columns, depth, batches, flops, bytes, draws, microseconds]";
constexpr std::string_view kCollectiveColumns = "[bytes, microseconds]";

double number_in(const Tree& value, std::string_view columns) {
  double number = std::nan("");
  if (value.kind() == Tree::Kind::integer) number = static_cast<double>(value.integer());
  if (value.kind() == Tree::Kind::real) number = value.real();
  if (!(number >= 0) || number > 1e300)
    throw UserError("{}: expected numbers of at least 0, {}{}", value.brief(), columns, value.where_suffix());
  return number;
}

// Rows of numbers, whose last is a time above 0.
template <size_t count>
std::vector<std::array<double, count>> table_at(const Tree& file, const std::string& key, std::string_view columns) {
  std::vector<std::array<double, count>> rows;
  if (!file.is_list() || file.list().empty()) throw UserError("{}: expected a list of {}{}", key, columns, file.where_suffix());
  for (const Tree& row : file.list()) {
    if (!row.is_list() || row.list().size() != count)
      throw UserError("{}: {}: expected {}{}", key, row.brief(), columns, row.where_suffix());
    auto& numbers = rows.emplace_back();
    for (size_t i = 0; i < count; ++i) numbers[i] = number_in(row.list()[i], columns);
    if (numbers.back() == 0) throw UserError("{}: {}: the time is 0{}", key, row.brief(), row.where_suffix());
  }
  return rows;
}

MeasuredOps read_ops(const Tree& format, const std::string& name) {
  if (!format.is_map()) throw UserError("{}: expected the measured ops by name{}", name, format.where_suffix());
  MeasuredCalls calls;
  for (const Tree::Entry& op : format.map())
    for (const auto& [rows, columns, depth, batches, flops, bytes, draws, us] : table_at<8>(op.value, op.key, kOpColumns)) {
      const PlanCall call{.flops = flops,
                          .bytes = bytes,
                          .draws = draws,
                          .rows = static_cast<int64_t>(rows),
                          .columns = static_cast<int64_t>(columns),
                          .depth = static_cast<int64_t>(depth),
                          .batches = static_cast<int64_t>(batches)};
      calls[op.key].push_back({call, us * kMicrosecond});
    }
  return MeasuredOps(std::move(calls));
}

CollectiveTimes read_collective(const Tree& table, const std::string& name) {
  std::vector<CollectiveTimes::Point> points;
  for (const auto& [bytes, us] : table_at<2>(table, name, kCollectiveColumns)) points.push_back({bytes, us * kMicrosecond});
  if (!std::ranges::is_sorted(points, std::ranges::less_equal{}, &CollectiveTimes::Point::bytes))
    throw UserError("{}: the bytes must grow{}", name, table.where_suffix());
  return CollectiveTimes(std::move(points));
}

// Four digits are more than a measurement has.
Tree rounded(double value) {
  if (value == 0) return Tree(0.0);
  const double digits = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return Tree(std::round(value * digits) / digits);
}

Tree count_tree(double value) { return Tree(static_cast<int64_t>(value)); }

Tree row_of(const MeasuredCall& one) {
  const PlanCall& call = one.call;
  return Tree(Tree::List{Tree(call.rows), Tree(call.columns), Tree(call.depth), Tree(call.batches), count_tree(call.flops),
                         count_tree(call.bytes), count_tree(call.draws), rounded(one.seconds / kMicrosecond)});
}

}  // namespace

double CollectiveTimes::seconds(double bytes) const {
  const auto above = std::ranges::lower_bound(points_, bytes, {}, &Point::bytes);
  if (above == points_.begin()) return above->seconds;
  if (above == points_.end()) return points_.back().seconds * bytes / points_.back().bytes;
  const Point &from = *(above - 1), &to = *above;
  return from.seconds + (to.seconds - from.seconds) * (bytes - from.bytes) / (to.bytes - from.bytes);
}

std::string format_of(const Settings& settings) {
  if (settings.model.fp8.enabled) return "fp8";
  constexpr const char* kNames[] = {"f32", "bf16", "fp16"};
  return kNames[static_cast<size_t>(settings.trainer.precision)];
}

const MeasuredOps* MeasuredMachine::ops_of(const Settings& settings) const {
  const auto format = formats.find(format_of(settings));
  return format == formats.end() ? nullptr : &format->second;
}

MeasuredMachine read_measured(const Tree& measured, const std::string& path) {
  MeasuredMachine machine;
  if (!measured.is_map()) throw UserError("{}: measured: expected a map, as trireme plan --measure writes it", path);
  double ranks = 0, threads = 0, step_us = 0, op_us = 0;
  const std::array<NumberKey, 5> keys{NumberKey{"ranks", &ranks}, NumberKey{"threads", &threads}, NumberKey{"step_us", &step_us},
                                      NumberKey{"overlap_cost", &machine.overlap_cost}, NumberKey{"op_us", &op_us}};
  require_known_keys(measured, keys, std::array<std::string_view, 4>{"collectives", kFormats[0], kFormats[1], kFormats[2]});
  read_numbers(measured, path, std::span(keys).first(4));
  if (const Tree* value = measured.find("op_us"); value != nullptr)  // may be below 0
    op_us = value->kind() == Tree::Kind::real ? value->real() : number_in(*value, "microseconds");
  if (ranks < 1) throw UserError("{}: ranks=0; give the number of ranks that were measured", path);
  machine.ranks = static_cast<int64_t>(ranks), machine.threads = static_cast<int64_t>(threads);
  machine.device = threads > 0 ? RecordedDevice::cpu : RecordedDevice::gpu;
  machine.step_seconds = step_us * kMicrosecond, machine.op_seconds = op_us * kMicrosecond;
  for (const std::string_view format : kFormats)
    if (const Tree* ops = measured.find(format); ops != nullptr)
      machine.formats.emplace(format, read_ops(*ops, std::string(format)));
  if (const Tree* collectives = measured.find("collectives"); collectives != nullptr && collectives->is_map())
    for (const Tree::Entry& one : collectives->map()) machine.collectives.emplace(one.key, read_collective(one.value, one.key));
  return machine;
}

Tree to_tree(const MeasuredMachine& machine) {
  Tree tree;
  tree.set("ranks", Tree(machine.ranks));
  tree.set("threads", Tree(machine.threads));
  tree.set("step_us", rounded(machine.step_seconds / kMicrosecond));
  tree.set("op_us", rounded(machine.op_seconds / kMicrosecond));
  tree.set("overlap_cost", rounded(machine.overlap_cost));
  for (const auto& [name, times] : machine.collectives) {
    Tree::List rows;
    for (const auto& point : times.points())
      rows.emplace_back(Tree::List{count_tree(point.bytes), rounded(point.seconds / kMicrosecond)});
    tree.set("collectives." + name, Tree(std::move(rows)));
  }
  for (const auto& [format, ops] : machine.formats)
    for (const auto& [name, times] : ops.ops()) {
      Tree::List rows;
      for (const MeasuredCall& one : times.measured()) rows.push_back(row_of(one));
      tree.set(fmt::format("{}.{}", format, name), Tree(std::move(rows)));
    }
  return tree;
}

}  // namespace trireme
