// Why bytes did not come, and what may help.
#pragma once

#include <utility>

#include "base/error.h"

namespace trireme {

enum class Remedy : uint8_t {
  retry,         // the same request, after a while: the network, an overloaded server
  unreachable,   // the same, where no server answered at all
  other_source,  // this place does not have it
  credentials,   // this place has it for those who may read it
  restart,       // the file is another than it was: what came so far is worth nothing
  whole_file,    // this place gives the file only as a whole
  none,          // we were told to stop
};

struct TransferError : Failure {
  TransferError(Remedy what_helps, const std::string& text, double wait = 0)
      : Failure("{}", text), remedy(what_helps), wait_seconds(wait) {}
  Remedy remedy;
  double wait_seconds;  // that the server asked for
};

}  // namespace trireme
