// Expects that something is answered as the user's mistake, in one line that holds the given words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace trireme {

template <class Action>
void expect_user_error(Action&& action, const std::vector<std::string>& words) {
  try {
    action();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
    return;
  }
  ADD_FAILURE() << "no UserError was thrown";
}

}  // namespace trireme
