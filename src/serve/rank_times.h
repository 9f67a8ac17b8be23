// The step time of every rank, from the text logs that each rank writes: a row per rank, a column per range of steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct RankTimes {
  std::vector<int64_t> ranks;               // of the rows
  std::vector<int64_t> steps;               // first step of each column, counted from 0
  std::vector<std::vector<float>> seconds;  // [rank][column]: the longest step; NaN if the log has none
  bool is_sampled = false;                  // a column shows some of its steps, since reading all would take too long
};

// `logs` are the text logs of the ranks. The steps from `first` to `last`, or as many as there are.
RankTimes read_rank_times(const std::vector<std::string>& logs, int64_t first, int64_t last);

// The step (from 0) and the seconds of a line "[NeMo I 2023-09-11 22:31:28 train:120] step  120/300  ...  192.9 ms  ..."; step -1
// for any other line.
struct StepTime {
  int64_t step = -1;
  double seconds = 0;
};
StepTime step_time_in(std::string_view line);

}  // namespace trireme
