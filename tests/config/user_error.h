// The text of the UserError that a call throws; empty if it throws none.
#pragma once

#include <string>

#include "base/error.h"

namespace trireme {

template <class Call>
std::string user_error_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace trireme
