// The page of `trireme serve` in headless Chromium, from a real server. What it drew is read back from its DOM: every chart says
// its first and last value in words, for screen readers.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <regex>

#include "cli/small_run.h"
#include "report/logs.h"
#include "report/read_run.h"
#include "support/browser.h"

namespace trireme {
namespace {

class ServeBrowserTest : public BrowserTest {
 protected:
  void serve(const std::string& runs) {
    if (server_) stop();
    fs::remove(folder_ / "out");
    server_ = std::make_unique<BackgroundProgram>("serve '" + (folder_ / runs).string() + "' --port 0",
                                                  ">" + (folder_ / "out").string() + " 2>&1");
    std::string line;
    ASSERT_TRUE(eventually([&] {
      return fs::exists(folder_ / "out") && (line = read_file(folder_ / "out", 1 << 16)).find("  shows") != line.npos;
    }));
    address_ = line.substr(0, line.find("  shows"));
  }
  void stop() {
    server_->send(SIGINT);
    EXPECT_EQ(server_->finish(), 0);
    server_.reset();
  }
  void TearDown() override {
    if (server_) stop();
  }
  // All charts are in sight, so all are drawn. On a busy machine the server may take longer to read the runs than the browser
  // waits for them: looks a few times, until as many curves are drawn.
  std::string dom(const std::string& state = "", int milliseconds = 6000, int64_t curves = 1) {
    constexpr int kLooks = 5;
    std::string drawn;
    for (int look = 0; look < kLooks && occurrences(drawn, "class=\"curve") < curves; ++look)
      drawn = dom_at(address_ + state, {.width = 1280, .height = 4000, .milliseconds = milliseconds});
    return drawn;
  }

  static int64_t occurrences(const std::string& text, const std::string& part) {
    int64_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  static std::string attribute(const std::string& dom, const std::string& name) {
    std::smatch found;
    return std::regex_search(dom, found, std::regex(name + "=\"([^\"]*)\"")) ? found[1].str() : "";
  }

  std::string address_;
  std::unique_ptr<BackgroundProgram> server_;
};

TEST_F(ServeBrowserTest, DrawsARunWhileItRuns) {
  BackgroundProgram run("train demo trainer.max_steps=100000 exp_manager.explicit_log_dir=" + (folder_ / "runs/live").string());
  const fs::path log = folder_ / "runs/live/dllogger/rank-0/dllogger.json";
  ASSERT_TRUE(eventually([&] { return fs::exists(log) && fs::file_size(log) > 20'000; }));
  serve("runs");
  const std::string drawn = dom();
  run.send(SIGKILL);
  run.finish();

  EXPECT_GE(std::stoi("0" + attribute(drawn, "data-drawn")), 6);
  EXPECT_TRUE(contains(drawn, "running"));
  EXPECT_TRUE(contains(drawn, "1 ranks, "));  // the heat map
  EXPECT_TRUE(contains(drawn, "[NeMo I "));   // the log
  EXPECT_TRUE(contains(drawn, "of 100,000 steps"));
  // "live, loss: from 10.8 at step 0 to 10.7 at step 123." is what the log has.
  std::smatch words;
  ASSERT_TRUE(std::regex_search(drawn, words,
                                std::regex("Loss\\. live, loss: from ([0-9.e-]+) at step 0 to ([0-9.e-]+) at step ([0-9]+)")))
      << drawn.substr(0, 4000);
  const RunLog all = read_run((folder_ / "runs/live").string());
  const std::vector<Point>& loss = all.find("reduced_train_loss")->points;
  ASSERT_LT(std::stoul(words[3]), loss.size());
  EXPECT_NEAR(std::stod(words[1]), loss[0].value, 1e-3);
  EXPECT_GE(std::stoi(words[3]), 5);
  EXPECT_NEAR(std::stod(words[2]), loss[std::stoul(words[3])].value, 1e-3);  // shown with five digits

  // The run was killed. What it wrote is drawn, to the last whole record.
  std::ofstream(log, std::ios::app) << "DLLL {\"timestamp\": \"179";
  const std::string after = dom();
  EXPECT_TRUE(contains(after, "steps</span>"));
  EXPECT_EQ(occurrences(after, "=\"NaN"), 0);
}

TEST_F(ServeBrowserTest, ShowsWhatALinkSays) {
  folder_.write("runs/a/dllogger.json", nemo_log(50));
  folder_.write("runs/b/dllogger.json", nemo_log(80, ", \"cfg/optim/lr\": 0.5"));
  serve("runs");
  ASSERT_TRUE(contains(dom(), "data-drawn=\"5\""));
  const std::string ids = [&] {
    const ProgramResult reply = run_shell("curl -s " + address_ + "api/runs");
    std::string list;
    const std::regex id("\"id\":\"([0-9a-f]{12})\"");
    for (std::sregex_iterator at(reply.output.begin(), reply.output.end(), id), end; at != end; ++at)
      list += (list.empty() ? "" : ",") + (*at)[1].str();
    return list;
  }();
  const std::string link = dom("#runs=" + ids + "&x=tokens&log=loss&zoom=640~1280&smoothing=0.04");
  EXPECT_TRUE(contains(link, "Loss: logarithmic scale\">log") ||
              contains(link, "aria-pressed=\"true\" aria-label=\"Loss: logarithmic scale\""));
  EXPECT_TRUE(contains(link, "from 9.92 at step 8 to 9.79 at step 21"));  // 10 and 20, and a point beyond each edge
  EXPECT_TRUE(contains(link, ">tokens</text>"));
  EXPECT_TRUE(contains(link, "curve faint"));  // smoothed
  EXPECT_TRUE(contains(link, "Settings that differ"));
  EXPECT_TRUE(contains(link, "model.optim.lr"));
  EXPECT_EQ(occurrences(link, "=\"NaN"), 0);
  EXPECT_TRUE(contains(dom("#runs=zzz,..%2f..,<b>&zoom=9~1&x=evil&log=%00&focus=none"), "data-drawn="));
}

TEST_F(ServeBrowserTest, ComparesTwoHundredRuns) {
  for (int run = 0; run < 200; ++run)
    folder_.write(fmt::format("runs/run-{:03}/dllogger.json", run), nemo_log(30, fmt::format(", \"cfg/seed\": {}", run)));
  serve("runs");
  dom();
  const ProgramResult reply = run_shell("curl -s " + address_ + "api/runs");
  std::string list;
  const std::regex id("\"id\":\"([0-9a-f]{12})\"");
  for (std::sregex_iterator at(reply.output.begin(), reply.output.end(), id), end; at != end; ++at) list += (*at)[1].str() + ",";
  const std::string drawn = dom("#runs=" + list, 120'000, 5 * 200);
  EXPECT_EQ(occurrences(drawn, "class=\"curve"), 5 * 200);
  EXPECT_TRUE(contains(drawn, "and 176 more"));
  EXPECT_TRUE(contains(drawn, "50 more; search to see them"));
}

TEST_F(ServeBrowserTest, RunsNothingThatARunSays) {
  const std::string evil = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'<%2fscript>";
  std::string name = evil;
  name.resize(name.find("<script>"));
  folder_.write("runs/" + name + "/dllogger.json",
                nemo_log(5, fmt::format(", \"cfg/{0}\": \"{0}\"", evil)) + dllogger_line("7", fmt::format("\"{}\": 1", evil)));
  folder_.write("runs/" + name + "/nemo_log_globalrank-0_localrank-0.txt", "[NeMo E 2026] " + evil + "\n");
  folder_.write("runs/" + name + "/hparams.yaml", "a: [\"" + evil + "\"\n");  // broken: a note quotes it
  serve("runs");
  const std::string drawn = dom();
  EXPECT_TRUE(contains(drawn, "<title>Trireme</title>"));
  EXPECT_TRUE(contains(drawn, "data-drawn=\"5\""));
  EXPECT_TRUE(contains(drawn, "&lt;img src=x onerror"));
  EXPECT_FALSE(contains(drawn, "<img"));
}

TEST_F(ServeBrowserTest, SaysWhenTheFolderIsGoneOrEmpty) {
  fs::create_directories(folder_ / "runs");
  serve("runs");
  EXPECT_TRUE(contains(dom(), "has written a log yet"));
  fs::remove(folder_ / "runs");
  ASSERT_TRUE(eventually([&] { return contains(run_shell("curl -s " + address_ + "api/runs").output, "\"is_there\":false"); }));
  EXPECT_TRUE(contains(dom(), "is gone"));
}

TEST_F(ServeBrowserTest, FitsAPhone) {
  folder_.write("runs/a-rather-long-name-of-a-run-that-goes-on/dllogger.json", nemo_log(50));
  serve("runs");
  const std::string drawn = dom_at(address_, {.width = 390, .height = 5000, .milliseconds = 6000});
  EXPECT_TRUE(contains(drawn, "data-drawn=\"5\""));
  // Charts are drawn as wide as the screen has room for.
  std::smatch box;
  ASSERT_TRUE(std::regex_search(drawn, box, std::regex("viewBox=\"0 0 ([0-9]+) 330\"")));
  EXPECT_LT(std::stoi(box[1]), 500);
}

}  // namespace
}  // namespace trireme
