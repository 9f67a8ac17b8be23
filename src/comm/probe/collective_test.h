// Collectives over all ranks, as nccl-tests measures them: sizes from a few bytes up, time, algbw and busbw, and the number of
// wrong elements, whose sums are exact.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "comm/control.h"

namespace trireme {

enum class Collective : uint8_t { all_reduce, all_gather, reduce_scatter, alltoall, broadcast, sendrecv };

// One row per collective.
struct CollectiveKind {
  Collective collective;
  const char* name;
  const char* reduction;        // "sum" or "none"
  int root;                     // -1: none
  bool is_cut;                  // the size is that of the pieces of all ranks together
  bool out_of_place, in_place;  // what the communicator offers
};
std::span<const CollectiveKind> collective_kinds();
double bus_factor(Collective collective, int ranks);  // busbw / algbw

struct CollectiveSide {
  double seconds = 0;  // of one call, averaged over the ranks
  int64_t wrong = 0;   // elements, of all ranks
};

struct CollectiveRow {
  CollectiveKind kind;
  int64_t bytes = 0, count = 0;
  std::optional<CollectiveSide> out_of_place, in_place;
  std::vector<int> wrong_ranks;  // that hold wrong elements

  double algbw(const CollectiveSide& side) const { return static_cast<double>(bytes) / side.seconds / 1e9; }  // GB/s
};

struct CollectiveRequest {
  int64_t min_bytes = 8, max_bytes = 0;
  double seconds_per_row = 0.1;           // of timed calls, about
  std::span<const Collective> only = {};  // empty: all kinds
};

// What a rank measures with: its device, the group of all ranks, and the control plane.
struct RankGroup {
  Backend& backend;
  Communicator& group;
  Control& control;
};

// All ranks call it together. The rows are on rank 0. `done` is called there after each row.
std::vector<CollectiveRow> run_collectives(RankGroup& here, const CollectiveRequest& request,
                                           const std::function<void(const CollectiveRow&)>& done);

int64_t bytes_needed(int64_t max_bytes);  // of device memory for that size, with what collectives on host memory take

// nccl-tests' lines.
std::string collective_heading(const CollectiveKind& kind, int ranks);
std::string line_of(const CollectiveRow& row, int ranks);
std::string closing_lines(std::span<const CollectiveRow> rows, int ranks);

}  // namespace trireme
