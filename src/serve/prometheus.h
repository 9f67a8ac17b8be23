// The newest values of the runs in Prometheus' text format.
#pragma once

#include <array>
#include <map>
#include <string>

#include "serve/run_feed.h"
#include "serve/run_index.h"

namespace trireme {

class PrometheusText {
 public:
  void count(const RunEntry& run);                     // its state
  void add(const RunEntry& run, const RunFeed& feed);  // its values
  std::string text() const;

 private:
  void gauge(const std::string& name, const std::string& help, const std::string& labels, double value);

  std::array<int64_t, 5> states_{};
  struct Family {
    std::string help, samples;
  };
  std::map<std::string, Family> families_;
};

std::string label_escaped(std::string_view text);

}  // namespace trireme
