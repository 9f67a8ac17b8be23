// The contents of any log of a run: values over steps under their logged names, the settings, and the files they came from.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "telemetry/goodput.h"

namespace trireme {

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite, which a reader of the log wants to see
};

struct Series {
  std::string name;           // as logged: "reduced_train_loss", "throughput/device/mfu"
  std::vector<Point> points;  // sorted by step, each step once
};

// Settings under their recipe names, "model.optim.lr", whatever the log calls them.
using Parameters = std::map<std::string, nlohmann::json, std::less<>>;

struct RunLog {
  std::string name;                // short, for titles and tables
  std::vector<std::string> files;  // files that were read
  std::vector<Series> series;      // in the order of the log
  Parameters parameters;
  nlohmann::json summary;          // contents of summary.json, or null
  std::optional<RunTime> time;     // from goodput.jsonl
  int64_t ranks_seen = 0;          // from the names of the text logs; 0: unknown
  std::vector<std::string> notes;  // problems of the log: a torn end, a damaged file

  const Series* find(std::string_view series_name) const;
  const nlohmann::json* parameter(std::string_view key) const;

  // Adds what `other` has and this does not: files, notes, parameters and series. Of a series in both, the longer one stays.
  void complete_with(RunLog&& other);
};

// Collects points in file order. If a step repeats, as after a resume, its later value replaces the earlier one.
class SeriesBuilder {
 public:
  void add(std::string_view name, int64_t step, double value);
  void forget_from(int64_t step);  // the run went back to this step and runs it and the later ones again
  std::vector<Series> take();
  std::optional<int64_t> take_forgotten();  // the earliest step to which the run went back since the last call

 private:
  size_t index_of(std::string_view name);

  std::vector<Series> series_;
  std::unordered_map<std::string, size_t> index_;
  std::optional<int64_t> forgotten_;
  size_t expected_ = 0;  // records repeat the same names in the same order, so the next name is usually this one
};

}  // namespace trireme
