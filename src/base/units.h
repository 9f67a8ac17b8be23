// Numbers as people read them. Every result is short enough to live inside the string, so nothing here allocates but what
// has a noun.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

std::string format_bytes(int64_t bytes);  // "512 B", "1.5 GiB"
std::string format_count(double count);   // "950", "31.9k", "125.3M": powers of 1000
// A count and its noun: "1 file", "3 files", the second in short: "31.9k files". Things are whole: an estimate of 205.1 is 205.
std::string plural(int64_t count, const std::string& noun);
std::string counted(double count, const std::string& noun);
std::string format_seconds(double seconds);   // the time of one thing: "412.0 us", "64.1 ms", "25.40 s"
std::string format_flops(double per_second);  // "41.00 GFLOP/s", "0.21 TFLOP/s", "692.98 TFLOP/s"
std::string format_duration(double seconds);  // "0:12", "1:02:03", "3d 01:02:03"

}  // namespace trireme
