#include "backend/timed_backend.h"

#include <algorithm>
#include <vector>

namespace trireme {

std::string TimedBackend::table() const {
  std::vector<OpTime> rows;
  double total = 0;
  for (const OpTime& row : times_) {
    if (row.calls == 0) continue;
    rows.push_back(row);
    total += row.seconds;
  }
  std::sort(rows.begin(), rows.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  std::string text =
      fmt::format("{:<24} {:>8} {:>10} {:>7} {:>10} {:>8}\n", "op", "calls", "seconds", "share", "TFLOP/s", "GB/s");
  for (const OpTime& row : rows)
    text += fmt::format("{:<24} {:>8} {:>10.3f} {:>6.1f}% {:>10} {:>8.1f}\n", row.name, row.calls, row.seconds,
                        100 * row.seconds / total, row.flops > 0 ? fmt::format("{:.3f}", row.flops / row.seconds * 1e-12) : "-",
                        row.bytes / row.seconds * 1e-9);
  return text;
}

}  // namespace trireme
