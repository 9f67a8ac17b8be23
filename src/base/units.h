// Formats numbers for people. Results fit in the string's inline buffer, so nothing here allocates except the functions with a
// noun.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

std::string format_bytes(int64_t bytes);  // "512 B", "1.5 GiB"
std::string format_count(double count);   // "950", "31.9k", "125.3M": powers of 1000
// Return a count with its noun. plural: "1 file", "3 files". counted, for estimates: "31.9k files"; 205.1 is rounded to 205.
std::string plural(int64_t count, const std::string& noun);
std::string counted(double count, const std::string& noun);
std::string format_seconds(double seconds);   // "412.0 us", "64.1 ms", "25.40 s"
std::string format_flops(double per_second);  // "41.00 GFLOP/s", "0.21 TFLOP/s", "692.98 TFLOP/s"
std::string format_duration(double seconds);  // "0:12", "1:02:03", "3d 01:02:03"

}  // namespace trireme
