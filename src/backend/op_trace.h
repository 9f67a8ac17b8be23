// Where the time of a few steps goes: every op and collective with its begin and end as measured on the device. TimedBackend and
// TimedCommunicator fill it while it is on. It can be read as a table, as JSON and as a Chrome trace.
#pragma once

#include <deque>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace trireme {

enum class Tracing : uint8_t { off, names, times };  // names: only names ranges for a profiler

struct TracedCall {
  enum class Kind : uint8_t { op, collective, range };
  Kind kind = Kind::op;
  const char* name = "";
  const char* group = "";  // of a collective
  Stream stream;
  double flops = 0, bytes = 0;    // bytes of a collective: those of its operand
  std::optional<int64_t> number;  // of a range: the layer
  double begin = 0, end = 0;      // seconds; set when the step's times are collected
};

// The highest rates measured on this machine; 0: not measured.
struct Ceilings {
  double flops = 0;  // per second, in large GEMMs
  double bytes = 0;  // per second, read and written by a copy
};

class OpTrace {
 public:
  Tracing tracing() const { return tracing_; }
  void set_names(Tracing names) { tracing_ = names; }  // off or names, between traced steps
  void begin_step(int64_t step, Instruments& instruments);
  void end_step(Instruments& instruments);
  // Call it while a step is traced; the reference stays valid.
  TracedCall& add(const TracedCall& call) { return calls_.emplace_back(call); }

  void set_ceilings(const Ceilings& ceilings) { ceilings_ = ceilings; }

  // One row per op or collective, the longest first; values are per step, averaged over the traced steps.
  struct Row {
    std::string name;
    TracedCall::Kind kind = TracedCall::Kind::op;
    double calls = 0, seconds = 0;
    double flops = 0, bytes = 0;
    double hidden = 0;  // seconds outside the compute stream that overlap with its ops
  };
  std::vector<Row> rows() const;
  double step_seconds() const;  // of a traced step, averaged
  double idle_seconds() const;  // the part of step_seconds() in which no op runs
  size_t steps() const { return steps_.size(); }
  const std::deque<TracedCall>& calls() const { return calls_; }  // of all traced steps

  std::string table() const;
  nlohmann::ordered_json json() const;
  // Writes what chrome://tracing and Perfetto read: one process per rank, one thread per stream. `offset` leads from the clock of
  // this rank, in seconds, to the one that all ranks' files have in common.
  void write_chrome(const std::filesystem::path& path, int rank, const std::string& where, double offset = 0) const;

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
