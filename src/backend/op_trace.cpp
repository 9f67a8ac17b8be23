#include "backend/op_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/chrome_trace.h"
#include "base/error.h"

namespace trireme {
namespace {

using Kind = TracedCall::Kind;

struct Interval {
  double begin = 0, end = 0;
};

// The part of [begin, end) that `intervals` cover. They must be sorted and disjoint.
double covered(const std::vector<Interval>& intervals, double begin, double end) {
  double sum = 0;
  auto at = std::ranges::upper_bound(intervals, begin, {}, &Interval::end);
  for (; at != intervals.end() && at->begin < end; ++at) sum += std::min(at->end, end) - std::max(at->begin, begin);
  return sum;
}

// The time that `intervals` cover. They must be sorted by begin and may overlap.
double covered(const std::vector<Interval>& intervals) {
  double sum = 0, end = 0;
  for (const Interval& interval : intervals) {
    sum += std::max(0.0, interval.end - std::max(end, interval.begin));
    end = std::max(end, interval.end);
  }
  return sum;
}

std::string stream_name(Stream stream) {
  static constexpr std::array<const char*, kStreams> kNames = {
      "compute",      "tensor parallel", "data parallel",    "copies",           "wgrad",
      "send forward", "receive forward", "send backward",    "receive backward", "ring send",
      "ring receive", "ring grad send",  "ring grad receive"};
  return kNames[stream.number()];
}

std::string name_of(const TracedCall& call) {
  return call.kind == Kind::collective ? fmt::format("{} {}", call.group, call.name) : call.name;
}

// A rate above the ceiling means that operands were in cache, or that few of their rows were touched.
std::string share_of(double rate, double ceiling) {
  if (ceiling <= 0) return "-";
  return rate > ceiling ? ">100%" : fmt::format("{:.0f}%", 100 * rate / ceiling);
}

}  // namespace

void OpTrace::begin_step(int64_t step, Instruments& instruments) {
  CHECK(tracing_ == Tracing::off);
  tracing_ = Tracing::times;
  steps_.push_back({.number = step});
  instruments.note_time(kCompute, &steps_.back().begin);
}

void OpTrace::end_step(Instruments& instruments) {
  CHECK(tracing_ == Tracing::times);
  instruments.note_time(kCompute, &steps_.back().end);
  tracing_ = Tracing::off;
  instruments.collect_times();
}

double OpTrace::step_seconds() const {
  double sum = 0;
  for (const Step& step : steps_) sum += step.end - step.begin;
  return steps_.empty() ? 0 : sum / static_cast<double>(steps_.size());
}

double OpTrace::idle_seconds() const {
  std::vector<Interval> running;
  for (const TracedCall& call : calls_)
    if (call.kind == Kind::op) running.push_back({call.begin, call.end});
  std::ranges::sort(running, {}, &Interval::begin);
  return step_seconds() - (steps_.empty() ? 0 : covered(running) / static_cast<double>(steps_.size()));
}

std::vector<OpTrace::Row> OpTrace::rows() const {
  std::vector<Interval> computing;
  for (const TracedCall& call : calls_)
    if (call.kind == Kind::op && call.stream == kCompute) computing.push_back({call.begin, call.end});
  std::map<std::string, Row> by_name;
  for (const TracedCall& call : calls_) {
    if (call.kind == Kind::range) continue;
    Row& row = by_name[name_of(call)];
    row.name = name_of(call);
    row.kind = call.kind;
    row.calls += 1;
    row.seconds += call.end - call.begin;
    row.flops += call.flops;
    row.bytes += call.bytes;
    if (call.stream != kCompute) row.hidden += covered(computing, call.begin, call.end);
  }
  std::vector<Row> rows;
  const auto steps = static_cast<double>(steps_.size());
  for (auto& [name, row] : by_name) {
    for (double* sum : {&row.calls, &row.seconds, &row.flops, &row.bytes, &row.hidden}) *sum /= steps;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, std::greater{}, &Row::seconds);
  return rows;
}

std::string OpTrace::table() const {
  if (steps_.empty()) return "no step was traced: the run was too short\n";
  std::string text = fmt::format("{:<26} {:>8} {:>10} {:>7} {:>9} {:>8} {:>8} {:>8} {:>7}\n", "op, per step", "calls", "ms",
                                 "share", "TFLOP/s", "of peak", "GB/s", "of copy", "hidden");
  const double step = step_seconds(), idle = idle_seconds();
  for (const Row& row : rows()) {
    const bool is_op = row.kind == Kind::op;
    const double flops = row.flops / row.seconds, bytes = row.bytes / row.seconds;
    text += fmt::format("{:<26} {:>8.0f} {:>10.3f} {:>6.1f}% {:>9} {:>8} {:>8.1f} {:>8} {:>7}\n", row.name, row.calls,
                        1e3 * row.seconds, 100 * row.seconds / step, row.flops > 0 ? fmt::format("{:.3f}", flops * 1e-12) : "-",
                        row.flops > 0 ? share_of(flops, ceilings_.flops) : "-", bytes * 1e-9,
                        is_op ? share_of(bytes, ceilings_.bytes) : "-",
                        is_op && row.hidden == 0 ? "" : fmt::format("{:.0f}%", 100 * row.hidden / row.seconds));
  }
  text += fmt::format("{:<26} {:>8} {:>10.3f} {:>6.1f}%\n", "no op running", "", 1e3 * idle, 100 * idle / step);
  text += fmt::format("{} {} traced, {:.3f} ms each", steps_.size(), steps_.size() == 1 ? "step" : "steps", 1e3 * step);
  if (ceilings_.flops > 0)
    text +=
        fmt::format("; measured here: GEMMs {:.3f} TFLOP/s, copies {:.1f} GB/s", ceilings_.flops * 1e-12, ceilings_.bytes * 1e-9);
  return text + "\n";
}

nlohmann::ordered_json OpTrace::json() const {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const Row& row : rows()) {
    nlohmann::ordered_json op = {
        {"name", row.name}, {"calls", row.calls}, {"seconds", row.seconds}, {"flops", row.flops}, {"bytes", row.bytes}};
    if (row.kind == Kind::collective || row.hidden > 0) op["hidden_seconds"] = row.hidden;
    ops.push_back(std::move(op));
  }
  return {{"steps", steps_.size()},
          {"step_seconds", step_seconds()},
          {"ceilings", {{"flops_per_second", ceilings_.flops}, {"bytes_per_second", ceilings_.bytes}}},
          {"ops", std::move(ops)}};
}

void OpTrace::write_chrome(const std::filesystem::path& path, int rank, const std::string& where, double offset) const {
  constexpr int kStepThread = 100, kLayerThread = 101;  // shown below the streams
  nlohmann::json events = nlohmann::json::array();
  const auto name_thread = [&](int thread, const std::string& name) {
    events.push_back({{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", "thread_name"}, {"args", {{"name", name}}}});
  };
  events.push_back(
      {{"ph", "M"}, {"pid", rank}, {"name", "process_name"}, {"args", {{"name", fmt::format("rank {}, {}", rank, where)}}}});
  name_thread(kStepThread, "steps");
  name_thread(kLayerThread, "layers");
  std::map<int, std::string> streams;
  for (const TracedCall& call : calls_)
    if (call.kind != Kind::range) streams[narrow<int>(call.stream.number())] = stream_name(call.stream);
  for (const auto& [thread, name] : streams) name_thread(thread, name);
  const auto slice = [&](int thread, const std::string& name, double begin, double end) -> nlohmann::json& {
    events.push_back({{"ph", "X"},
                      {"pid", rank},
                      {"tid", thread},
                      {"name", name},
                      {"ts", (begin + offset) * 1e6},
                      {"dur", (end - begin) * 1e6}});
    return events.back();
  };
  for (const Step& step : steps_) slice(kStepThread, fmt::format("step {}", step.number), step.begin, step.end);
  for (const TracedCall& call : calls_) {
    const double seconds = call.end - call.begin;
    if (call.kind == Kind::range) {
      slice(kLayerThread, call.number ? fmt::format("{} {}", call.name, *call.number) : call.name, call.begin, call.end);
      continue;
    }
    nlohmann::json& event = slice(narrow<int>(call.stream.number()), name_of(call), call.begin, call.end);
    event["args"]["bytes"] = call.bytes;
    if (seconds <= 0) continue;
    if (call.flops > 0) event["args"]["TFLOP/s"] = call.flops / seconds * 1e-12;
    event["args"]["GB/s"] = call.bytes / seconds * 1e-9;
  }
  write_chrome_trace(path, events);
}

}  // namespace trireme
