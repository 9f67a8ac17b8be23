// The excerpts of docs/tour.md are the code: each begins at the line its link names, and its lines follow in the file in that
// order. TRIREME_WRITE_GOLDEN=1 writes the line numbers of today into the page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace {

const std::string kRoot = TRIREME_SOURCE_DIR "/";

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The line on which an excerpt begins, counted from 1; 0 if the file does not have its lines in this order.
size_t find_excerpt(const std::vector<std::string>& file, const std::vector<std::string>& excerpt) {
  for (size_t begin = 0; begin < file.size(); ++begin) {
    if (file[begin] != excerpt.front()) continue;
    size_t at = begin;
    bool all = true, gap = false;
    for (const std::string& line : excerpt) {
      if (line == "...") {
        gap = true;
        continue;
      }
      while (gap && at < file.size() && file[at] != line) ++at;
      all = all && at < file.size() && file[at] == line;
      ++at;
      gap = false;
    }
    if (all) return begin + 1;
  }
  return 0;
}

TEST(Tour, ExcerptsAreTheCode) {
  std::vector<std::string> page = lines_of(kRoot + "docs/tour.md");
  const std::regex link(R"(\[`([^:`]+):(\d+)`\]\(\.\./([^#)]+)#L(\d+)\))");
  const bool writes = std::getenv("TRIREME_WRITE_GOLDEN") != nullptr;
  int excerpts = 0;
  for (size_t i = 0; i + 1 < page.size(); ++i) {
    std::smatch found;
    if (!std::regex_match(page[i], found, link) || page[i + 1] != "```cpp") continue;
    const std::string path = found[1];
    EXPECT_EQ(path, found[3]);
    EXPECT_EQ(found[2], found[4]) << path;
    std::vector<std::string> excerpt;
    for (size_t line = i + 2; line < page.size() && page[line] != "```"; ++line) excerpt.push_back(page[line]);
    const size_t at = find_excerpt(lines_of(kRoot + path), excerpt);
    ASSERT_GT(at, 0U) << path << " has no lines as docs/tour.md:" << i + 1 << " shows them";
    excerpts += 1;
    if (writes)
      page[i] = "[`" + path + ":" + std::to_string(at) + "`](../" + path + "#L" + std::to_string(at) + ")";
    else
      EXPECT_EQ(std::stoul(found[2]), at) << path << "; TRIREME_WRITE_GOLDEN=1 writes the numbers of today";
  }
  EXPECT_GE(excerpts, 10);
  if (!writes) return;
  std::ofstream file(kRoot + "docs/tour.md");
  for (const std::string& line : page) file << line << '\n';
}

TEST(Tour, OtherLinesAreFound) {
  const std::vector<std::string> file{"a", "b", "c", "d"};
  EXPECT_EQ(find_excerpt(file, {"b", "c"}), 2U);
  EXPECT_EQ(find_excerpt(file, {"a", "...", "d"}), 1U);
  EXPECT_EQ(find_excerpt(file, {"a", "c"}), 0U);
  EXPECT_EQ(find_excerpt(file, {"c", "...", "a"}), 0U);
}

}  // namespace
