#include "base/units.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "base/clock.h"
#include "base/terminal.h"

namespace trireme {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 30) - 1), "1.0 GiB");  // not 1024.0 MiB
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(Units, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(0.25), "0.2");
  EXPECT_EQ(format_count(31949), "31.9k");
  EXPECT_EQ(format_count(999'960), "1.0M");  // not 1000.0k
  EXPECT_EQ(format_count(125'262'336), "125.3M");
  EXPECT_EQ(format_count(174'609'555'456.0), "174.6B");
  EXPECT_EQ(format_count(3e15), "3000.0T");
}

TEST(Units, ThingsAreWholeAndAgreeWithTheirNoun) {
  EXPECT_EQ(counted(205.1, "document"), "205 documents");
  EXPECT_EQ(counted(0.9, "document"), "1 document");
  EXPECT_EQ(counted(0, "document"), "0 documents");
  EXPECT_EQ(counted(31900, "token"), "31.9k tokens");
  EXPECT_EQ(plural(1, "file"), "1 file");
  EXPECT_EQ(plural(31900, "file"), "31900 files");
}

TEST(Units, TimeOfOneThing) {
  EXPECT_EQ(format_seconds(412e-6), "412.0 us");
  EXPECT_EQ(format_seconds(0.0641), "64.1 ms");
  EXPECT_EQ(format_seconds(0.99996), "1.00 s");  // not 1000.0 ms
  EXPECT_EQ(format_seconds(0.99996e-3), "1.0 ms");
  EXPECT_EQ(format_seconds(25.397), "25.40 s");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Units, Durations) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(12.4), "0:12");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(3 * 86400 + 3723), "3d 01:02:03");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "-");
}

TEST(Units, Rates) {
  EXPECT_EQ(format_flops(41e9), "41.00 GFLOP/s");
  EXPECT_EQ(format_flops(0.21e12), "0.21 TFLOP/s");
  EXPECT_EQ(format_flops(692.984e12), "692.98 TFLOP/s");
}

TEST(Clock, LocalTimeKeepsAllMicroseconds) {
  setenv("TZ", "UTC", 1);
  tzset();
  std::string text = "at ";
  append_local_time(text, 1'727'486'493'000'400);
  EXPECT_EQ(text, "at 2024-09-28 01:21:33.000400");
}

TEST(Clock, SystemClockGoesOn) {
  const double before = system_clock().seconds();
  const int64_t stamp_before = system_clock().unix_microseconds();
  EXPECT_GT(stamp_before, 1'600'000'000'000'000);  // microseconds, and after 2020
  while (system_clock().seconds() == before) {
  }
  EXPECT_GT(system_clock().seconds(), before);
}

TEST(Terminal, APipeIsNone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Terminal terminal = detect_terminal(ends[1]);
  EXPECT_FALSE(terminal.interactive);
  EXPECT_FALSE(terminal.colour);
  EXPECT_EQ(terminal_columns(ends[1], 123), 123);
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace trireme
