// A page in headless Chromium, for tests of its script.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {

inline std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(fmt::format("command -v {} > /dev/null 2>&1", name).c_str()) == 0) return name;
  return "";
}

class BrowserTest : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) SKIP_FOR(peer) << "no chromium here; install it to see pages drawn";
  }

  // The page after its script ran, with `then` run behind it. Fails if the console says that a script failed.
  std::string dom_of(const std::string& page, const std::string& then = "", int width = 1280) {
    std::ofstream(page, std::ios::app) << "<script>" << then << "</script>";
    return dom_at("file://" + page, {.width = width});
  }

  // The same for a page of a server; `milliseconds` of its time, in which nothing else happens, pass at once.
  struct Look {
    int width = 1280, height = 900, milliseconds = 3000;
  };
  std::string dom_at(const std::string& address, const Look& look) {
    const std::string command = fmt::format(
        "timeout 60 {} --headless=new --no-sandbox --disable-gpu --user-data-dir={} --virtual-time-budget={} "
        "--enable-logging=stderr --window-size={},{} --dump-dom '{}' > {} 2> {}",
        browser_, (folder_ / "profile").string(), look.milliseconds, look.width, look.height, address, (folder_ / "dom").string(),
        (folder_ / "console").string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    const std::string console = contents("console");
    EXPECT_EQ(console.find("Uncaught"), std::string::npos) << console;
    EXPECT_EQ(console.find("Refused"), std::string::npos) << console;
    return contents("dom");
  }

  TemporaryFolder folder_;

 private:
  std::string contents(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string browser_;
};

}  // namespace trireme
