#include "comm/rank_place.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/process.h"
#include "comm/tcp.h"

namespace trireme {

std::string range_text(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += i == last ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string RankPlace::core_text() const { return range_text(cores); }

RankPlace place_of_this_process() {
  RankPlace place{.host = host_name(), .process = ::getpid(), .cores = {}};
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) place.cores.push_back(core);
  return place;
}

int threads_of(const std::vector<RankPlace>& places, int rank) {
  const RankPlace& own = places[static_cast<size_t>(rank)];
  const auto shares = [&](const RankPlace& other) {
    return other.host == own.host && std::ranges::find_first_of(other.cores, own.cores) != other.cores.end();
  };
  const auto sharing = std::max<int64_t>(std::ranges::count_if(places, shares), 1);
  return static_cast<int>(std::max<int64_t>(std::ssize(own.cores) / sharing, 1));
}

int ranks_on_host(const std::vector<RankPlace>& places, int rank) {
  return static_cast<int>(std::ranges::count(places, places[static_cast<size_t>(rank)].host, &RankPlace::host));
}

int local_rank_of(const std::vector<RankPlace>& places, int rank) {
  return static_cast<int>(std::count_if(places.begin(), places.begin() + rank, [&](const RankPlace& other) {
    return other.host == places[static_cast<size_t>(rank)].host;
  }));
}

int hosts_of(const std::vector<RankPlace>& places) {
  std::set<std::string> hosts;
  for (const RankPlace& place : places) hosts.insert(place.host);
  return static_cast<int>(hosts.size());
}

}  // namespace trireme
