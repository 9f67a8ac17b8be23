// What a step asked for, call by call: ops, events, and the collectives that join ranks. The cost backend and the communicators
// on paper write it without doing anything; wrapped around real ones it is what was executed, and both must be the same.
#pragma once

#include <string_view>
#include <vector>

#include "backend/stream.h"

namespace trireme {

enum class RecordKind : uint8_t { op, event, wait, collective };

// Names point to text that lives as long as the program.
struct OpRecord {
  RecordKind kind = RecordKind::op;
  std::string_view name;  // of the op, the event or the collective
  Stream stream;
  double flops = 0;
  int64_t bytes_read = 0, bytes_written = 0;  // of a collective: what it sends from, and what it writes
  std::string_view group;                     // of a collective
  int peer = -1;                              // of a message, or the root of a broadcast
  bool operator==(const OpRecord&) const = default;
};

// Adds up what the ops of a step come to, and keeps the records if asked: a large step has millions.
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
  void clear() { *this = StepLog(keep_); }

  std::vector<OpRecord> records;
  int64_t ops = 0;
  double flops = 0;
  int64_t bytes_moved = 0;  // operands read and written

 private:
  Keep keep_;
};

}  // namespace trireme
