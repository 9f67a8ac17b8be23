// What the calls of several ranks, or several calls of one rank, must not do together.
#pragma once

#include "support/nccl_stand_in/room.h"

namespace nccl_stand_in {

// What is wrong with the unit that `rank` has just begun, beside what others have; empty: nothing. The caller holds the lock.
std::string fault_among_ranks(const Room& room, int ranks, int rank);

// The memory of a unit while it runs.
class InUse {
 public:
  // `fault`: set if a call of this process that runs at the same time writes what this one uses, or the other way round.
  InUse(const Unit& unit, int ranks, int rank, std::string& fault);
  ~InUse();
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
};

}  // namespace nccl_stand_in
