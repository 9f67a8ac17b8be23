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

struct StepLog {
  std::vector<OpRecord> records;
};

}  // namespace trireme
