// The report page as text: whole, self-contained, and safe whatever a log says. What a browser makes of it is tested in
// page_browser_slow_test.cpp.
#include "report/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/run_program.h"
#include "logs.h"
#include "report/page_frame.h"
#include "report/page_tables.h"
#include "report/read_run.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class PageTest : public testing::Test {
 protected:
  std::string page_of(const std::vector<std::string>& logs, const FactOptions& said = {}) {
    std::vector<std::string> paths;
    for (size_t i = 0; i < logs.size(); ++i) paths.push_back(folder_.write(fmt::format("run{}/dllogger.json", i), logs[i]));
    return html_page(make_report(read_runs(paths), said, ""));
  }
  static nlohmann::json data_in(const std::string& page) {
    const std::string begin = "<script type=application/json id=data>";
    const size_t at = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  }
  static size_t occurrences(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  TemporaryFolder folder_;
};

TEST_F(PageTest, HoldsTheValuesOfTheLog) {
  const std::string page = page_of({nemo_log(3)}, {.num_accelerators = 2, .max_flops = 1e-6});
  const auto data = data_in(page);
  EXPECT_EQ(data["runs"][0]["name"], "run0");
  EXPECT_EQ(data["runs"][0]["tokens_per_step"], 64);
  std::vector<std::string> keys;
  for (const auto& chart : data["charts"]) keys.push_back(chart["key"]);
  EXPECT_EQ(keys, (std::vector<std::string>{"loss", "step_seconds", "tokens_per_second", "mfu", "learning_rate", "grad_norm"}));
  EXPECT_EQ(data["charts"][0]["series"][0]["steps"], (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(data["charts"][0]["series"][0]["values"], (std::vector<double>{10, 9.99, 9.98}));
  EXPECT_EQ(data["charts"][2]["series"][0]["values"][1], 32);  // 64 tokens in 2 s
  EXPECT_TRUE(contains(page, "Not in these logs: Memory of one device."));
}

TEST_F(PageTest, DrawsWhereTheTimeWent) {
  EXPECT_FALSE(contains(page_of({nemo_log(3)}), "Where the time went"));
  RunAttempt first{.number = 1, .started = 1'000'000, .first_step = 0, .steps_done = 30, .times = {}, .marks = {}, .ending = {}};
  first.times[TimeUse::start_up] = 10'000'000;
  first.times[TimeUse::step] = 90'000'000;
  std::filesystem::create_directories(folder_ / "run0");
  write_attempt(folder_ / "run0" / kGoodputName, first);
  const std::string path = folder_.write("run0/dllogger.json", nemo_log(3));
  const std::string page = html_page(make_report({read_run((folder_ / "run0").string())}, {}, ""));
  EXPECT_TRUE(contains(page, "Where the time went")) << path;
  EXPECT_TRUE(contains(page, "style=\"flex-grow:0.900000\" title=\"step 1:30, 90.00%\""));
  EXPECT_TRUE(contains(page, "style=\"flex-grow:0.100000\" title=\"start-up 0:10, 10.00%\""));
  EXPECT_EQ(occurrences(page, "<span class=use"), 2U);
}

TEST_F(PageTest, NeedsNothingFromElsewhere) {
  const std::string page = page_of({nemo_log(3), nemo_log(5)});
  for (const char* fetched : {" src=", "href=", "@import", "url(http", "https://", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(occurrences(page, fetched), 0u) << fetched;
  EXPECT_EQ(occurrences(page, "http://"), 1u);  // the name of SVG's namespace
  EXPECT_TRUE(contains(page, "default-src 'none'"));
}

TEST_F(PageTest, WhateverALogSaysStaysText) {
  const std::string evil = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>&\\\"'";
  std::vector<RunLog> logs{read_run(folder_.write("a/dllogger.json", nemo_log(2, fmt::format(", \"cfg/{0}\": \"{0}\"", evil)) +
                                                                         dllogger_line("3", fmt::format("\"{}\": 1", evil))))};
  logs[0].name = "</script><script>alert(2)</script>";
  logs[0].notes.push_back(evil);
  logs[0].summary = {{"peak_tflops_per_device", 1.0}, {"peak_name", evil}, {"devices", 2}};
  for (const bool several : {false, true}) {
    if (several) logs.push_back(logs[0]);
    const std::string page = html_page(make_report(logs, {}, several ? evil : ""));
    // Its own two script elements and no other.
    EXPECT_EQ(occurrences(page, "<script"), 2u);
    EXPECT_EQ(occurrences(page, "</script>"), 2u);
    EXPECT_EQ(occurrences(page, "<img"), 0u);
    EXPECT_EQ(occurrences(page, "<!--"), 0u);
    EXPECT_EQ(data_in(page)["runs"][0]["name"], logs[0].name);
  }
  EXPECT_EQ(html_escaped("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
}

// The last row of `rows` is of another form than this program writes.
nlohmann::json plan_of_summary(const std::string& part) {
  return {{"on", "mars"},
          {"step_s", 2.0},
          {"measured_s", 1.6},
          {"rows", {{{"part", part}, {"predicted_s", 1.5}, {"measured_s", 1.2}}, {{"part", 7}}}}};
}

TEST_F(PageTest, ShowsAStepAsPredictedAndAsMeasured) {
  std::vector<RunLog> logs{read_run(folder_.write("a/dllogger.json", nemo_log(2)))};
  EXPECT_EQ(occurrences(html_page(make_report(logs, {}, "")), "Predicted step"), 0u);
  logs[0].summary = {{"plan", plan_of_summary("compute")}};
  const std::string page = html_page(make_report(logs, {}, ""));
  EXPECT_TRUE(contains(page, "<h2>Predicted step, mars</h2>"));
  EXPECT_TRUE(contains(page, "<td class=number>2.00 s</td><td class=number>1.60 s</td><td class=number>+25.0%</td>"));
  EXPECT_TRUE(contains(page, "<td class=number>1.50 s</td><td class=number>1.20 s</td><td class=number>+25.0%</td>"));
  EXPECT_TRUE(contains(page, "<span style=\"width:100.00%;background:var(--run0)\" title=\"compute: 1.50 s\">"));
  EXPECT_TRUE(contains(page, "<span style=\"width:80.00%;background:var(--run0)\" title=\"compute: 1.20 s\">"));
  logs[0].summary["plan"] = plan_of_summary("<script>");
  EXPECT_EQ(occurrences(html_page(make_report(logs, {}, "")), "<script"), 2u);
  for (const nlohmann::json& wrong : {nlohmann::json(3), nlohmann::json::object(), nlohmann::json{{"rows", "x"}}}) {
    logs[0].summary["plan"] = wrong;
    EXPECT_FALSE(html_page(make_report(logs, {}, "")).empty());
  }
}

TEST_F(PageTest, BytesThatAreNoTextDoNotStopIt) {
  std::vector<RunLog> logs{read_run(folder_.write("a/dllogger.json", nemo_log(2)))};
  logs[0].name = "\xff\xfe";
  logs[0].parameters.emplace("\xff", "\xfe");
  EXPECT_EQ(data_in(html_page(make_report(logs, {}, "")))["runs"][0]["name"], "\uFFFD\uFFFD");
}

TEST_F(PageTest, ShowsWhichSettingsDiffer) {
  const std::string page = page_of(
      {nemo_log(3, ", \"cfg/optim/lr\": 0.001, \"cfg/seed\": 1"), nemo_log(3, ", \"cfg/optim/lr\": 0.002, \"cfg/seed\": 1")});
  const std::string differing =
      page.substr(page.find("Settings that differ"), page.find("<details>") - page.find("Settings that differ"));
  EXPECT_TRUE(contains(differing, "model.optim.lr"));
  EXPECT_TRUE(contains(differing, "0.002"));
  EXPECT_FALSE(contains(differing, "model.seed"));
  EXPECT_TRUE(contains(page, "model.seed"));
  EXPECT_TRUE(contains(page_of({nemo_log(3), nemo_log(4)}), "no setting has two values"));
}

TEST_F(PageTest, WhatALogDoesNotHoldIsNoDifference) {
  const std::string page = page_of({nemo_log(3, ", \"cfg/seed\": 1, \"cfg/only_here\": 2"), nemo_log(3, ", \"cfg/seed\": 3")});
  const size_t begin = page.find("Settings that differ"), end = page.find("<details>", begin);
  EXPECT_TRUE(contains(page.substr(begin, end - begin), "model.seed"));
  EXPECT_FALSE(contains(page.substr(begin, end - begin), "only_here"));
  EXPECT_TRUE(contains(page, "1 setting that only some logs hold"));
}

TEST_F(PageTest, LongRunsAreThinnedWithoutLosingTheirExtremes) {
  std::string log = nemo_parameters();
  for (int64_t step = 0; step < 20000; ++step) log += nemo_step(step, step == 7777 ? 99 : step == 12345 ? -5 : 1, 1);
  const auto loss = data_in(page_of({log}))["charts"][0]["series"][0];
  ASSERT_LE(loss["steps"].size(), 3000u);
  EXPECT_EQ(loss["group"], 7);
  EXPECT_EQ(*std::max_element(loss["high"].begin(), loss["high"].end()), 99);
  EXPECT_EQ(*std::min_element(loss["low"].begin(), loss["low"].end()), -5);
  EXPECT_EQ(loss["values"][7777 / 7], std::stod(fmt::format("{:.7g}", (99.0 + 6) / 7)));
}

TEST_F(PageTest, ValuesThatAreNotFiniteAreMarked) {
  const std::string page = page_of(
      {nemo_log(3) + dllogger_line("3", "\"reduced_train_loss\": NaN") + dllogger_line("4", "\"reduced_train_loss\": Infinity")});
  const auto loss = data_in(page)["charts"][0]["series"][0];
  EXPECT_TRUE(loss["values"][3].is_null());
  EXPECT_EQ(loss["nonfinite"], (std::vector<int>{3, 4}));
}

TEST_F(PageTest, ALogWithoutStepTimesIsDrawnAllTheSame) {
  const std::string csv = folder_.write("metrics.csv", "step,train_loss\n1,4\n2,3\n");
  const std::string page = html_page(make_report(read_runs({csv}), {}, ""));
  EXPECT_EQ(data_in(page)["charts"].size(), 1u);
}

TEST_F(PageTest, TheProgramWritesItAndReplacesOnlyAReport) {
  const std::string log = folder_.write("run/dllogger.json", nemo_log(12)), page = folder_ / "page.html";
  const auto first = run_program("report " + log + " --output " + page);
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_TRUE(contains(first.output, "1 run, 5 charts"));
  EXPECT_TRUE(looks_like_report(read_file(page, 1 << 20)));
  EXPECT_EQ(run_program("report " + log + " --output " + page).status, 0);

  const std::string other = folder_.write("thesis.html", "<!doctype html>\nyears of work");
  const auto refused = run_program("report " + log + " --output " + other);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(lines_of(refused.output), 1) << refused.output;
  EXPECT_EQ(read_file(other, 1 << 20), "<!doctype html>\nyears of work");
  EXPECT_EQ(run_program("report " + log + " --output " + (folder_ / "no/where.html").string()).status, 2);
  EXPECT_EQ(run_program("report " + log + " --output " + folder_.path().string()).status, 2);
  EXPECT_EQ(run_program("report " + (folder_ / "nothing").string()).status, 2);

  const auto json = nlohmann::json::parse(run_program("report " + log + " --json --output " + page).output);
  EXPECT_EQ(json["output"], page);
  EXPECT_EQ(json["runs"].size(), 1u);
  EXPECT_TRUE(looks_like_report(run_program("report " + log + " --output -").output));
}

}  // namespace
}  // namespace trireme
