// What any log says about a run, whoever wrote it: values over steps by the name they were logged under, the settings, and where
// all of it came from.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

struct Point {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite: a loss that was is what a reader of the log wants to see
};

struct Series {
  std::string name;           // as logged: "reduced_train_loss", "throughput/device/mfu"
  std::vector<Point> points;  // by step, each step once
};

// Settings under their names in a recipe, "model.optim.lr", whatever the log called them.
using Parameters = std::map<std::string, nlohmann::json, std::less<>>;

struct RunLog {
  std::string name;                // short, for titles and tables
  std::vector<std::string> files;  // that were read
  std::vector<Series> series;      // in the order of the log
  Parameters parameters;
  nlohmann::json summary;          // what summary.json says, where there is one; else null
  int64_t ranks_seen = 0;          // as the names of the text logs tell; 0 where they do not
  std::vector<std::string> notes;  // what a reader should know about this log: a torn end, a damaged file

  const Series* find(std::string_view series_name) const;
  const nlohmann::json* parameter(std::string_view key) const;

  // Takes what `other` has and this does not: files, notes, parameters, series, and those series it has more of.
  void complete_with(RunLog&& other);
};

// Collects points in the order of a file. When a step comes again, as it does after a resume, its later value counts.
class SeriesBuilder {
 public:
  void add(std::string_view name, int64_t step, double value);
  void forget_from(int64_t step);  // the run went back to this step and makes it and the later ones anew
  std::vector<Series> take();

 private:
  std::vector<Series> series_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace trireme
