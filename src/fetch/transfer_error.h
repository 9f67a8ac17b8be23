// Why a transfer failed, and what may help.
#pragma once

#include <utility>

#include "base/error.h"

namespace trireme {

enum class Remedy : uint8_t {
  retry,         // repeat the request later: network error, overloaded server
  unreachable,   // the same, but no server answered
  other_source,  // this source does not have the file
  credentials,   // this source needs credentials
  restart,       // the file has changed, so the bytes so far are useless
  whole_file,    // this source sends only the whole file
  none,          // stopped on request
};

struct TransferError : Failure {
  TransferError(Remedy what_helps, const std::string& text, double wait = 0)
      : Failure("{}", text), remedy(what_helps), wait_seconds(wait) {}
  Remedy remedy;
  double wait_seconds;  // wait that the server requested
};

}  // namespace trireme
