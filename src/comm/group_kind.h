// The groups of ranks that a run has.
#pragma once

#include <cstdint>

namespace trireme {

// The value is the group's id on the wire: it is part of message tags and the same on all ranks.
enum class GroupKind : uint8_t {
  tp = 1,
  cp = 2,
  dp = 3,
  pp = 4,
  embedding = 5,  // first and last pipeline stage
  world = 6,
  dp_cp = 7,
  agreement = 15  // all ranks, for what they decide before a step
};

constexpr const char* name_of(GroupKind group) {
  switch (group) {
    case GroupKind::tp:
      return "tp";
    case GroupKind::cp:
      return "cp";
    case GroupKind::dp:
      return "dp";
    case GroupKind::pp:
      return "pp";
    case GroupKind::embedding:
      return "embedding";
    case GroupKind::world:
      return "world";
    case GroupKind::dp_cp:
      return "dp_cp";
    case GroupKind::agreement:
      return "agreement";
  }
  return "";
}

}  // namespace trireme
