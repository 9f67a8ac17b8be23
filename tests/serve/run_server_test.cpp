// What the server answers, without a socket: the data of runs, and who gets it.
#include "serve/run_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "report/logs.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_log(int steps, double seconds) {
  std::string text;
  for (int step = 1; step <= steps; ++step)
    text += fmt::format(
        "[NeMo I 2026-11-15 06:39:23 train:{}] step {:>4}/{}  loss  5.4243  grad   1.618  lr 1.94e-04  {:.1f} ms   10.6k tok/s\n",
        step, step, steps, seconds * 1e3);
  return text;
}

class RunServerTest : public testing::Test {
 protected:
  HttpResponse ask(const std::string& target, std::map<std::string, std::string> headers = {}) {
    if (!server_) server_ = std::make_unique<RunServer>(ServeOptions{.runs = folder_.path(), .access = access_, .facts = {}});
    std::optional<HttpRequest> request = parse_request("GET " + target + " HTTP/1.1\r\n");
    EXPECT_TRUE(request) << target;
    request->headers = {{"host", "127.0.0.1:4444"}};
    for (auto& [name, value] : headers) request->headers[name] = value;
    return server_->answer(*request);
  }
  json runs_after_scan() {
    json answer;
    for (int i = 0; i < 2000; ++i) {
      answer = json::parse(ask("/api/runs").body);
      if (answer["complete"]) return answer["runs"];
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "the scan does not end";
    return {};
  }
  std::string only_id() { return runs_after_scan().at(0).at("id"); }
  json wait_for(const std::function<bool(const json&)>& is_as_expected) {
    json runs;
    for (int i = 0; i < 2000; ++i) {
      runs = json::parse(ask("/api/runs").body)["runs"];
      if (is_as_expected(runs)) return runs;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << runs.dump();
    return runs;
  }

  TemporaryFolder folder_;
  AccessRules access_;
  std::unique_ptr<RunServer> server_;
};

TEST_F(RunServerTest, FindsRunsAtAnyDepthAndWhatTheyAre) {
  folder_.write("a/2026/dllogger/rank-0/dllogger.json", nemo_log(5));
  folder_.write("a/2026/joblog.log", "STARTED=x\nENDED=y\nSTATUS=finished\n");
  folder_.write("a/2026/checkpoints/step-1/metrics.csv", "step,loss\n1,2\n");
  folder_.write("b/results/metrics.csv", "step,loss\n7,2.5\n");
  folder_.write("b/results/run_0/metrics.csv", "step,loss\n7,2.5\n");
  fs::create_directory_symlink(folder_.path(), folder_ / "b/loop");
  const json runs = runs_after_scan();
  ASSERT_EQ(runs.size(), 2u) << runs.dump();
  std::map<std::string, json> by_name;
  for (const json& run : runs) by_name[run["name"]] = run;
  EXPECT_EQ(by_name["a/2026"]["state"], "finished");
  EXPECT_EQ(by_name["a/2026"]["steps"], 5);
  EXPECT_EQ(by_name["a/2026"]["loss"], 9.96);
  EXPECT_EQ(by_name["b"]["state"], "running");
  EXPECT_EQ(by_name["b"]["steps"], 8);
}

class RunServerSlow : public RunServerTest {};

TEST_F(RunServerSlow, TellsOfNewAndVanishedRuns) {
  folder_.write("a/dllogger.json", nemo_log(5));
  const std::string first = only_id();
  EXPECT_EQ(json::parse(ask("/api/series?run=" + first).body)["series"]["loss"]["steps"].size(), 5u);
  folder_.write("b/dllogger.json", nemo_log(5));
  wait_for([](const json& runs) { return runs.size() == 2; });
  fs::remove_all(folder_ / "a");
  wait_for([&](const json& runs) {
    return std::ranges::any_of(runs, [&](const json& run) { return run["id"] == first && run["gone"] == true; });
  });
  // What was read stays, and the server stays too when everything is gone.
  EXPECT_EQ(json::parse(ask("/api/series?run=" + first).body)["series"]["loss"]["steps"].size(), 5u);
  fs::remove_all(folder_.path());
  wait_for([](const json& runs) { return std::ranges::all_of(runs, [](const json& run) { return run["gone"] == true; }); });
  EXPECT_EQ(json::parse(ask("/api/runs").body)["is_there"], false);
  EXPECT_EQ(ask("/api/log?run=" + first).status, 200);
}

TEST_F(RunServerTest, SendsOnlyNewGroups) {
  folder_.write("a/dllogger.json", nemo_log(100));
  const std::string id = only_id();
  const json all = json::parse(ask("/api/series?run=" + id + "&points=50&x=tokens").body);
  EXPECT_EQ(all["progress"], 1);
  EXPECT_EQ(all["series"]["loss"]["group"], 2);
  EXPECT_EQ(all["series"]["loss"]["x"][1], 3 * 64);  // of step 2
  EXPECT_EQ(all["about"]["done"], 100);
  const std::string have = fmt::format("&generation={}&have=loss:2:96,lr:1", all["generation"].get<int>());
  const json more = json::parse(ask("/api/series?run=" + id + "&points=50" + have).body)["series"];
  EXPECT_EQ(more["loss"]["continues"], true);
  EXPECT_LE(more["loss"]["steps"].size(), 4u);
  EXPECT_EQ(more["grad_norm"]["steps"].size(), 50u);
  const json zoomed = json::parse(ask("/api/series?run=" + id + "&points=50&from=10&to=20").body)["series"];
  EXPECT_EQ(zoomed["loss"]["group"], 1);
  EXPECT_LE(zoomed["loss"]["steps"].size(), 14u);
}

TEST_F(RunServerTest, HasTheTimesOfRanksAndTheLogTail) {
  folder_.write("a/dllogger.json", nemo_log(50));
  folder_.write("a/nemo_log_globalrank-0_localrank-0.txt", text_log(50, 0.1));
  folder_.write("a/nemo_log_globalrank-1_localrank-1.txt", text_log(50, 0.2) + "torn");
  const std::string id = only_id();
  const json ranks = json::parse(ask("/api/ranks?run=" + id + "&from=10&to=19").body);
  EXPECT_EQ(ranks["ranks"], json::parse("[0, 1]"));
  EXPECT_EQ(ranks["steps"].size(), 10u);
  EXPECT_EQ(ranks["seconds"][1][9], 0.2);
  const json log = json::parse(ask("/api/log?run=" + id + "&rank=1&lines=3").body);
  ASSERT_EQ(log["lines"].size(), 3u);
  EXPECT_TRUE(contains(log["lines"][2], "step   50/50"));
}

// The last whole line counts, if it is one of ours.
TEST_F(RunServerTest, HasTheLastScoresOfTasks) {
  folder_.write("a/dllogger.json", nemo_log(5));
  const std::string id = only_id();
  const auto tasks = [&] { return json::parse(ask("/api/run?run=" + id).body)["tasks"]; };
  EXPECT_TRUE(tasks().is_null());
  folder_.write("a/task_scores.jsonl",
                "{\"steps_done\": 2, \"scores\": {\"piqa/acc\": 0.5}}\n"
                "{\"steps_done\": 4, \"scores\": {\"piqa/acc\": 0.75}}\n{\"steps_d");
  EXPECT_EQ(tasks()["steps_done"], 4);
  EXPECT_EQ(tasks()["scores"]["piqa/acc"], 0.75);
  for (const char* text : {"\n", "[1]\n", "{\"scores\": 3}\n", "nonsense\n"}) {
    folder_.write("a/task_scores.jsonl", text);
    EXPECT_TRUE(tasks().is_null()) << text;
  }
}

TEST_F(RunServerTest, ShowsOnlyRunsWhateverTheAddressSays) {
  folder_.write("a/dllogger.json", nemo_log(5));
  folder_.write("secret.txt", "secret");
  const std::string id = only_id();
  for (const std::string target :
       {"/../secret.txt", "/%2e%2e/secret.txt", "/secret.txt", "/a/dllogger.json", "//etc/passwd", "/api/../secret.txt"})
    EXPECT_EQ(ask(target).status, 404) << target;
  for (const std::string run : {"..", "../..", "%2e%2e%2f", "a", "/etc", "a/dllogger.json", ""})
    for (const std::string path : {"/api/run", "/api/series", "/api/log", "/api/ranks"})
      EXPECT_EQ(ask(path + "?run=" + run).status, 404) << run;
  for (const std::string rank : {"-1", "99", "../../secret.txt", "1e9", "9999999999999999999999"})
    EXPECT_EQ(ask("/api/log?run=" + id + "&rank=" + rank).body.find("secret"), std::string::npos);
  for (const std::string odd :
       {"&points=-5", "&points=99999999", "&from=9&to=1", "&from=nan", "&have=loss:0:0,::,x", "&have=loss:1:-7&generation=1"})
    EXPECT_EQ(ask("/api/series?run=" + id + odd).status, 200) << odd;
}

TEST_F(RunServerTest, RefusesOtherSites) {
  folder_.write("a/dllogger.json", nemo_log(5));
  using Headers = std::map<std::string, std::string>;
  for (const Headers& headers :
       {Headers{{"host", "evil.example:4444"}}, Headers{{"host", ""}}, Headers{{"host", "127.0.0.1.evil.example"}},
        Headers{{"origin", "http://evil.example"}}, Headers{{"origin", "null"}}, Headers{{"origin", "https://127.0.0.1:4444"}},
        Headers{{"sec-fetch-site", "cross-site"}}, Headers{{"sec-fetch-site", "same-site"}}}) {
    const HttpResponse response = ask("/api/runs", headers);
    EXPECT_EQ(response.status, 403) << headers.begin()->second;
    EXPECT_EQ(response.body.find("dllogger"), std::string::npos);
  }
  for (const Headers& headers : {Headers{{"host", "localhost:5555"}}, Headers{{"host", "[::1]:4444"}},
                                 Headers{{"origin", "http://127.0.0.1:4444"}}, Headers{{"sec-fetch-site", "same-origin"}}})
    EXPECT_EQ(ask("/api/runs", headers).status, 200) << headers.begin()->second;
  const Headers link{{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}};
  EXPECT_EQ(ask("/", link).status, 200);
  EXPECT_EQ(ask("/api/runs", link).status, 403);
}

TEST_F(RunServerTest, AnOpenAddressNeedsTheToken) {
  access_ = {.host = "0.0.0.0", .token = random_token(), .cookie_name = "trireme_1"};
  EXPECT_EQ(access_.token.size(), 32u);
  EXPECT_NE(access_.token, random_token());
  const std::map<std::string, std::string> other{{"host", "10.1.2.3:4444"}};
  EXPECT_EQ(ask("/", other).status, 403);
  EXPECT_EQ(ask("/?token=wrong", other).status, 403);
  EXPECT_EQ(ask("/metrics", {{"host", "10.1.2.3:4444"}, {"authorization", "Bearer " + access_.token}}).status, 200);
  const HttpResponse page = ask("/?token=" + access_.token, other);
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(std::ranges::any_of(page.headers, [&](const std::string& header) {
    return header.starts_with("Set-Cookie: trireme_1=" + access_.token + "; HttpOnly");
  }));
  EXPECT_EQ(ask("/api/runs", {{"host", "10.1.2.3:4444"}, {"cookie", "a=b; trireme_1=" + access_.token}}).status, 200);
  EXPECT_EQ(ask("/api/runs", {{"host", "rebound.example"}, {"cookie", "trireme_1=" + access_.token}}).status, 403);
}

TEST_F(RunServerTest, ForbidsThePageToAskAnybodyElse) {
  const std::vector<std::string> always = ask("/").headers;
  for (const char* header : {"X-Frame-Options: DENY", "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
                             "Cross-Origin-Resource-Policy: same-origin", "Cache-Control: no-store"})
    EXPECT_EQ(std::ranges::count(always, header), 1) << header;
  const HttpResponse page = ask("/");
  std::string policy;
  for (const std::string& header : page.headers)
    if (header.starts_with("Content-Security-Policy: ")) policy = header;
  EXPECT_TRUE(contains(policy, "default-src 'none'; script-src 'self';"));
  EXPECT_EQ(policy.find("http"), policy.npos);
  for (const std::string path : {"/", "/page.js", "/page.css"}) {
    std::string body = ask(path).body;
    for (size_t at = body.find("http://www.w3.org/2000/svg"); at != body.npos; at = body.find("http://www.w3.org/2000/svg"))
      body.erase(at, 26);
    EXPECT_FALSE(contains(body, "http://")) << path;
    EXPECT_FALSE(contains(body, "https://")) << path;
    EXPECT_FALSE(contains(body, "innerHTML")) << path;
  }
}

TEST_F(RunServerTest, SpeaksToPrometheus) {
  folder_.write("a \"b\"\\\n/dllogger.json", nemo_log(5));
  runs_after_scan();
  const std::string text = ask("/metrics").body;
  EXPECT_TRUE(contains(text, "# TYPE trireme_run_loss gauge\ntrireme_run_loss{run=\"a \\\"b\\\"\\\\\\n\",id=\""));
  EXPECT_TRUE(contains(text, "\"} 9.96"));
  EXPECT_TRUE(contains(text, "trireme_runs{state=\"running\"} 1\n"));
  EXPECT_TRUE(contains(text, "trireme_run_steps_done{"));
}

}  // namespace
}  // namespace trireme
