// Where the process of a rank runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct RankPlace {
  std::string host;
  int64_t process = 0;
  std::vector<int> cores;  // that the process may use, in rising order

  std::string core_text() const;  // "0-3,8"
};

RankPlace place_of_this_process();

// How many threads a rank should use: its share of the cores that it and other ranks of the machine may use.
int threads_of(const std::vector<RankPlace>& places, int rank);

int ranks_on_host(const std::vector<RankPlace>& places, int rank);  // including `rank`
int local_rank_of(const std::vector<RankPlace>& places, int rank);  // the rank's number among the ranks of its machine
int hosts_of(const std::vector<RankPlace>& places);

// Numbers in rising order as ranges: "0-3,8".
std::string range_text(const std::vector<int>& numbers);

}  // namespace trireme
