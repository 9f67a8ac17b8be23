// A text that a test expects and a page of docs/ shows. TRIREME_WRITE_GOLDEN=1 rewrites the page instead of comparing; review
// what git then shows.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace trireme {

// page: relative to the repository. The block is the lines from the one that begins with `first` until the ``` after it.
inline void expect_golden_block(const std::string& page, const std::string& first, const std::string& text) {
  const std::string path = std::string(TRIREME_SOURCE_DIR) + "/" + page;
  std::ifstream file(path);
  std::string content(std::istreambuf_iterator<char>(file), {});
  const size_t begin = content.find("\n" + first) + 1, end = content.find("\n```", begin) + 1;
  ASSERT_TRUE(begin > 0 && end > begin) << path << " has no block that begins with " << first;
  if (std::getenv("TRIREME_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << content.replace(begin, end - begin, text);
    return;
  }
  EXPECT_EQ(text, content.substr(begin, end - begin)) << "TRIREME_WRITE_GOLDEN=1 rewrites " << page;
}

}  // namespace trireme
