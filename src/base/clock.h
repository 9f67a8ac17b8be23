// Time. Code that measures or timestamps takes a Clock, so that tests can control it.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() const = 0;             // monotonic, since an arbitrary start; for durations
  virtual int64_t unix_microseconds() const = 0;  // wall-clock time; for timestamps
};

const Clock& system_clock();

class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock = system_clock()) : clock_(clock), start_(clock.seconds()) {}
  double seconds() const { return clock_.seconds() - start_; }

 private:
  const Clock& clock_;
  double start_;
};

// Appends "2024-09-28 01:21:33.241469" in the local time zone.
void append_local_time(std::string& out, int64_t unix_microseconds);

}  // namespace trireme
