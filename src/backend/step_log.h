// The calls of a step: ops, events and collectives. The cost backend and the CostCommunicators write it without executing
// anything. Wrappers around real ones write what was executed, and both must be equal.
#pragma once

#include <string_view>
#include <vector>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace trireme {

enum class RecordKind : uint8_t { op, event, wait, collective };

// Names point to text that outlives the log.
struct OpRecord {
  RecordKind kind = RecordKind::op;
  std::string_view name;  // of the op, event or collective
  Stream stream;
  double flops = 0;
  int64_t bytes_read = 0, bytes_written = 0;  // of a collective: of its source and its destination
  std::string_view group;                     // of a collective
  int peer = -1;                              // of a send or receive, or the root of a broadcast
  bool operator==(const OpRecord&) const = default;
};

enum class Access : uint8_t { read, written, updated, scratch };

// Receives the operands of a recorded step and the order of its streams, from which the memory of its tensors is planned.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  virtual void begin_call(Stream stream, int64_t scratch_bytes) = 0;  // an op or a collective; its operands follow
  virtual void access(const Tensor& tensor, Access access) = 0;
  virtual void in_place(const Tensor& out, const Tensor& in) = 0;  // `out` may be written to the memory of `in`
  virtual uint64_t record(Stream stream, const char* name) = 0;    // returns a ticket that wait takes
  virtual void wait(Stream stream, uint64_t ticket) = 0;
};

// Sums the cost of the ops of a step. Keeps the records only if asked, because a large step has millions.
class StepLog {
 public:
  enum class Keep : uint8_t { no, yes };
  explicit StepLog(Keep keep = Keep::yes) : keep_(keep) {}

  void add(const OpRecord& record) {
    if (record.kind == RecordKind::op) {
      ops += 1;
      flops += record.flops;
      bytes_moved += record.bytes_read + record.bytes_written;
    }
    if (keep_ == Keep::yes) records.push_back(record);
  }
  void clear() {
    StepWatcher* const watcher = watcher_;
    *this = StepLog(keep_);
    watcher_ = watcher;
  }
  void watch(StepWatcher* watcher) { watcher_ = watcher; }
  StepWatcher* watcher() const { return watcher_; }  // may be null

  std::vector<OpRecord> records;
  int64_t ops = 0;
  double flops = 0;
  int64_t bytes_moved = 0;  // operands read and written

 private:
  Keep keep_;
  StepWatcher* watcher_ = nullptr;
};

}  // namespace trireme
