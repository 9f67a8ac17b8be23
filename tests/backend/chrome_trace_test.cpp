// Timelines of ranks, and one of all of them.
#include "backend/chrome_trace.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

TEST(ChromeTrace, JoinsTheEventsOfSeveralFiles) {
  const TemporaryFolder folder;
  write_chrome_trace(folder / "0", json::array({{{"pid", 0}, {"name", "a"}}, {{"pid", 0}, {"name", "b"}}}));
  write_chrome_trace(folder / "1", json::array());
  write_chrome_trace(folder / "2", json::array({{{"pid", 2}, {"name", "c\n]}"}}}));
  join_chrome_traces({folder / "0", folder / "1", folder / "2"}, folder / "all");
  const json all = json::parse(read_file(folder / "all", 1 << 20));
  EXPECT_EQ(all.at("traceEvents"), json::parse(R"([{"name":"a","pid":0},{"name":"b","pid":0},{"name":"c\n]}","pid":2}])"));
  EXPECT_EQ(all.at("displayTimeUnit"), "ms");
}

TEST(ChromeTrace, NamesAFileThatIsCutOff) {
  const TemporaryFolder folder;
  write_chrome_trace(folder / "0", json::array({{{"pid", 0}}}));
  std::filesystem::resize_file(folder / "0", std::filesystem::file_size(folder / "0") - 2);
  const std::string message = message_of<Failure>([&] { join_chrome_traces({folder / "0"}, folder / "all"); });
  EXPECT_TRUE(contains(message, "0 is not a complete trace"));
  EXPECT_FALSE(std::filesystem::exists(folder / "all"));
}

}  // namespace
}  // namespace trireme
