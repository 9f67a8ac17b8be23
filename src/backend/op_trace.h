// Where the time of a few steps goes: every op and every call between ranks with its begin and end, as the device saw them.
// Filled by TimedBackend and TimedCommunicator while it is on; read as a table, as JSON and as a Chrome trace.
#pragma once

#include <deque>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace trireme {

enum class Tracing : uint8_t { off, names, times };  // names: for a profiler that watches

struct TracedCall {
  enum class Kind : uint8_t { op, collective, range };
  Kind kind = Kind::op;
  const char* name = "";
  const char* group = "";  // of a collective
  Stream stream;
  double flops = 0, bytes = 0;    // bytes of a collective: of its operand
  std::optional<int64_t> number;  // of a range: which layer
  double begin = 0, end = 0;      // seconds, once the step's times are collected
};

// The most that this machine was seen to do: 0 where it was not tried.
struct Ceilings {
  double flops = 0;  // a second, in products as large as they come
  double bytes = 0;  // a second, read and written by a copy
};

class OpTrace {
 public:
  Tracing tracing() const { return tracing_; }
  void set_names(Tracing names) { tracing_ = names; }  // off or names, between traced steps
  void begin_step(int64_t step, Backend& backend);
  void end_step(Backend& backend);
  TracedCall& add(const TracedCall& call) { return calls_.emplace_back(call); }  // while a step is traced; stays where it is

  void set_ceilings(const Ceilings& ceilings) { ceilings_ = ceilings; }

  // One row an op or collective, the longest first: per step, averaged over the traced ones.
  struct Row {
    std::string name;
    TracedCall::Kind kind = TracedCall::Kind::op;
    double calls = 0, seconds = 0;
    double flops = 0, bytes = 0;
    double hidden = 0;  // of the seconds of what runs beside the compute stream, those in which its ops were running
  };
  std::vector<Row> rows() const;
  double step_seconds() const;  // of a traced step
  double idle_seconds() const;  // of it, those in which no op was running
  size_t steps() const { return steps_.size(); }

  std::string table() const;
  nlohmann::ordered_json json() const;
  // As chrome://tracing and Perfetto read it: a process for the rank, a thread for each stream.
  void write_chrome(const std::filesystem::path& path, int rank, const std::string& where) const;

 private:
  struct Step {
    int64_t number = 0;
    double begin = 0, end = 0;
  };

  Tracing tracing_ = Tracing::off;
  Ceilings ceilings_;
  std::deque<Step> steps_;
  std::deque<TracedCall> calls_;
};

}  // namespace trireme
