// Downloads from a server that behaves well, badly, and differently from one request to the next. The same bytes must come out.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "fetch/fetch.h"
#include "fetch/http_server.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.add(bytes_of(text));
  return hash.finish();
}

class DownloadTest : public testing::Test {
 protected:
  static constexpr int64_t kChunk = 100'000;

  void SetUp() override {
    try {
      HttpClient client{{}};
    } catch (const UserError&) {
      SKIP_FOR(machine) << "built without libcurl";
    }
    request.output = folder / "out";
    request.download.chunk_bytes = kChunk;
    request.download.backoff_seconds = 0.01;
    request.download.timeout_seconds = 5;
  }

  FetchReport fetch() {
    return carry_out(plan_fetch(request), request.download, [](const FetchProgress&) {});
  }
  // Fetches /f and expects it to have this content, and nothing to be left beside it.
  void expect_fetched(const std::string& expected) {
    const FetchReport report = fetch();
    ASSERT_EQ(report.files.size(), 1u);
    EXPECT_EQ(report.files[0].outcome, FetchedFile::Outcome::fetched) << report.files[0].error;
    EXPECT_EQ(report.files[0].sha256, sha256_of(expected));
    EXPECT_EQ(read_file(request.output / "f", 1 << 30), expected);
    EXPECT_EQ(names(), std::vector<std::string>{"f"});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(request.output)) found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }
  std::string failure() {
    const FetchReport report = fetch();
    EXPECT_EQ(report.files.at(0).outcome, FetchedFile::Outcome::failed);
    return report.files.at(0).error;
  }

  TemporaryFolder folder;
  HttpServer server;
  FetchRequest request{.urls = {server.url("/f")}};
  const std::string content = made_up_bytes(1'000'003);
};

TEST_F(DownloadTest, LargeFileComesInPartsAndSmallAndEmptyOnesWhole) {
  server.put("/f", {.body = content, .etag = "\"1\""});
  server.put("/d/small", {.body = "12345"});
  server.put("/empty", {.body = ""});
  request.urls = {server.url("/f"), server.url("/d/small?token=x"), server.url("/empty")};
  server.put("/d/small?token=x", {.body = "12345"});
  const FetchReport report = fetch();
  EXPECT_EQ(report.count(FetchedFile::Outcome::fetched), 3);
  EXPECT_EQ(read_file(request.output / "f", 1 << 30), content);
  EXPECT_EQ(read_file(request.output / "small", 100), "12345");
  EXPECT_EQ(read_file(request.output / "empty", 100), "");
  EXPECT_EQ(report.files[0].sha256, sha256_of(content));
  EXPECT_EQ(report.files[1].url, server.url("/d/small"));  // what follows the question mark may be secret
  int64_t parts = 0;
  for (const HttpServer::Request& asked : server.requests()) parts += asked.target == "/f" && asked.range != "0-0";
  EXPECT_EQ(parts, 11);
}

TEST_F(DownloadTest, WhatIsThereIsNotFetchedAgain) {
  server.put("/f", {.body = content, .last_modified = "Sun, 06 Nov 1994 08:49:37 GMT"});
  expect_fetched(content);
  EXPECT_EQ(fetch().files[0].outcome, FetchedFile::Outcome::unchanged);
  // Newer at its place, with the same size.
  server.put("/f", {.body = made_up_bytes(content.size(), 2), .last_modified = "Mon, 07 Nov 1994 08:49:37 GMT"});
  expect_fetched(made_up_bytes(content.size(), 2));
  // Another size.
  server.put("/f", {.body = "short", .last_modified = "Mon, 07 Nov 1994 08:49:37 GMT"});
  expect_fetched("short");
  // A checksum finds what size and date cannot.
  folder.write("out/f", "stort");
  request.checksums = Checksums::read(sha256_of("short"));
  expect_fetched("short");
  EXPECT_EQ(fetch().files[0].outcome, FetchedFile::Outcome::unchanged);
}

struct BadServer {
  const char* name;
  HttpPage page;
};
class BadServerTest : public DownloadTest, public testing::WithParamInterface<BadServer> {};

TEST_P(BadServerTest, GivesTheSameBytesInTheEnd) {
  HttpPage page = GetParam().page;
  page.body = content;
  server.put("/f", page);
  expect_fetched(content);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadServerTest,
    testing::Values(BadServer{"CutsEveryAnswer", {.etag = "\"1\"", .cut_after = 30'000}},
                    BadServer{"CutsWholeFilesTwice", {.times = 3, .cut_after = 300'000, .ignores_ranges = true}},
                    BadServer{"ClosesBeforeTheFirstByteThreeTimes", {.times = 3, .cut_after = 0}},
                    BadServer{"IgnoresRanges", {.ignores_ranges = true}},
                    BadServer{"IgnoresRangesButTheFirst", {.etag = "\"1\"", .ranges_only_at_start = true}},
                    BadServer{"SaysNoLength", {.ignores_ranges = true, .without_length = true}},
                    BadServer{"ClaimsMoreThanItSendsOnce", {.times = 2, .claimed = 2'000'000, .ignores_ranges = true}},
                    BadServer{"IsOverloadedFourTimes", {.status = 503, .times = 4}},
                    BadServer{"FailsInsideTwice", {.status = 500, .times = 2}},
                    BadServer{"AsksToWait", {.status = 429, .times = 1, .retry_after = 0}},
                    BadServer{"HasAWeakTag", {.etag = "W/\"1\"", .times = 5, .cut_after = 10}}),
    [](const auto& test) { return test.param.name; });

TEST_F(DownloadTest, RedirectsAreFollowed) {
  server.put("/f", {.location = "/elsewhere"});
  server.put("/elsewhere", {.body = content, .etag = "\"1\""});
  expect_fetched(content);
}

TEST_F(DownloadTest, RedirectsOutOfHttpAndInCirclesAreNot) {
  request.download.retries = 1;
  server.put("/f", {.location = "file:///etc/passwd"});
  EXPECT_NE(failure(), "");
  server.put("/f", {.location = "/f"});
  EXPECT_TRUE(contains(failure(), "redirect"));
}

TEST_F(DownloadTest, FileThatChangesMeanwhileStartsAgain) {
  server.put("/f", {.body = content, .etag = "\"1\""});
  const std::string other = made_up_bytes(900'001, 7);
  std::atomic<int> asked = 0;
  server.before_answer([&](const HttpServer::Request&) {
    if (++asked == 6) server.put("/f", {.body = other, .etag = "\"2\""});
  });
  expect_fetched(other);
}

TEST_F(DownloadTest, FileThatNeverStaysTheSameIsGivenUp) {
  std::atomic<int> asked = 0;
  server.put("/f", {.body = content, .etag = "\"0\""});
  server.before_answer(
      [&](const HttpServer::Request&) { server.put("/f", {.body = content, .etag = fmt::format("\"{}\"", ++asked)}); });
  EXPECT_TRUE(contains(failure(), "keeps changing"));
}

TEST_F(DownloadTest, MirrorsAreTriedInOrder) {
  server.put("/second/f", {.body = content, .etag = "\"1\""});
  request.mirrors = {server.url("/first"), server.url("/second/")};
  const FetchReport report = fetch();
  EXPECT_EQ(report.files[0].outcome, FetchedFile::Outcome::fetched) << report.files[0].error;
  EXPECT_EQ(report.files[0].url, server.url("/second/f"));
  EXPECT_EQ(read_file(request.output / "f", 1 << 30), content);
}

TEST_F(DownloadTest, MirrorGoesOnWhereTheFirstPlaceDiedWhenAChecksumTells) {
  request.download.parallel = 1;
  request.download.retries = 0;
  request.checksums = Checksums::read(sha256_of(content));
  request.mirrors = {server.url("/mirror")};
  server.put("/f", {.body = content, .etag = "\"a\""});
  server.put("/mirror/f", {.body = content, .etag = "\"b\""});
  std::atomic<int> asked = 0;
  server.before_answer([&](const HttpServer::Request& each) {
    if (each.target == "/f" && ++asked == 6) server.put("/f", {.status = 500});
  });
  expect_fetched(content);
  int64_t from_mirror = 0;
  for (const HttpServer::Request& each : server.requests()) from_mirror += each.target == "/mirror/f" && each.range != "0-0";
  EXPECT_EQ(from_mirror, 7);  // 4 of the 11 parts had come
}

TEST_F(DownloadTest, FailureNamesEveryPlaceAndReason) {
  request.mirrors = {server.url("/mirror")};
  request.download.retries = 1;
  server.put("/mirror/f", {.status = 500});
  const std::string error = failure();
  EXPECT_TRUE(contains(error, server.url("/f") + ": the server answered 404"));
  EXPECT_TRUE(contains(error, server.url("/mirror/f") + ": the server answered 500"));
  EXPECT_TRUE(names().empty());
}

TEST_F(DownloadTest, OneMissingFileDoesNotStopTheOthers) {
  server.put("/g", {.body = content});
  request.urls = {server.url("/f"), server.url("/g")};
  const FetchReport report = fetch();
  EXPECT_EQ(report.files[0].outcome, FetchedFile::Outcome::failed);
  EXPECT_EQ(report.files[1].outcome, FetchedFile::Outcome::fetched);
}

using DownloadSlow = DownloadTest;  // libcurl takes the mean over five seconds

TEST_F(DownloadSlow, SilentServerTimesOut) {
  request.download.timeout_seconds = 1;
  request.download.retries = 0;
  server.put("/f", {.body = content, .seconds_per_block = 60});
  EXPECT_TRUE(contains(failure(), "too slow"));
}

TEST_F(DownloadTest, NobodyThereIsAFailureOfThatFile) {
  request.urls = {"http://127.0.0.1:1/f"};
  request.download.retries = 1;
  EXPECT_TRUE(contains(failure(), "127.0.0.1"));
}

TEST_F(DownloadTest, WrongChecksumKeepsTheFileAside) {
  server.put("/f", {.body = content, .etag = "\"1\""});
  request.checksums = Checksums::read(std::string(64, '0'));
  const std::string error = failure();
  EXPECT_TRUE(contains(error, sha256_of(content)));
  EXPECT_TRUE(contains(error, "kept as"));
  EXPECT_EQ(names(), std::vector<std::string>{"f.mismatch"});
}

TEST_F(DownloadTest, WrongChecksumIsTriedAtTheMirror) {
  server.put("/f", {.body = made_up_bytes(content.size(), 3), .etag = "\"1\""});
  server.put("/mirror/f", {.body = content, .etag = "\"1\""});
  request.mirrors = {server.url("/mirror")};
  request.checksums = Checksums::read(sha256_of(content));
  expect_fetched(content);
}

TEST_F(DownloadTest, StoppedRunIsGoneOnWith) {
  std::atomic<bool> stop = false;
  request.download.stop = &stop;
  request.download.parallel = 2;
  server.put("/f", {.body = content, .etag = "\"1\"", .seconds_per_block = 0.02});
  const FetchPlan plan = plan_fetch(request);
  const FetchReport report = carry_out(plan, request.download, [&](const FetchProgress& progress) {
    if (progress.bytes_brought > 300'000) stop = true;
  });
  EXPECT_EQ(report.files[0].outcome, FetchedFile::Outcome::stopped);
  EXPECT_EQ(names(), (std::vector<std::string>{"f.partial", "f.partial.json"}));
  stop = false;
  server.put("/f", {.body = content, .etag = "\"1\""});
  const int64_t sent = server.bytes_sent();
  expect_fetched(content);
  EXPECT_LE(server.bytes_sent() - sent, 700'004);  // the rest, and the byte that asks what is there
}

TEST_F(DownloadTest, StoppedRunOfAFileThatChangedStartsAgain) {
  server.put("/f", {.body = content, .etag = "\"2\"", .last_modified = "Sun, 06 Nov 1994 08:49:37 GMT"});
  folder.write("out/f.partial", std::string(content.size(), 'x'));
  folder.write("out/f.partial.json",
               R"({"version":1,"size":1000003,"identity":"\"1\"","modified":784111777,"chunk_bytes":1000003,"done":[1000000]})");
  expect_fetched(content);
}

// Two versions of the same size at a server that says neither a tag nor a time.
TEST_F(DownloadTest, WithoutAValidatorNothingIsResumed) {
  const auto leave_half = [&] {
    fs::remove_all(request.output);
    std::string half = made_up_bytes(content.size(), 9);
    folder.write("out/f.partial", half);
    folder.write("out/f.partial.json",
                 R"({"version":1,"size":1000003,"identity":"","modified":null,"chunk_bytes":1000003,"done":[500000]})");
  };
  server.put("/f", {.body = content});
  leave_half();
  expect_fetched(content);
  // A checksum tells: of the right bytes half is enough, of wrong ones all come again.
  request.checksums = Checksums::read(sha256_of(content));
  leave_half();
  expect_fetched(content);
  leave_half();
  folder.write("out/f.partial", content.substr(0, 500'000));
  const int64_t sent = server.bytes_sent();
  expect_fetched(content);
  EXPECT_LE(server.bytes_sent() - sent, 500'004);
}

// Nor are parts of what may be two files taken at once, or after a connection broke.
TEST_F(DownloadTest, WithoutAValidatorTheFileComesInOnePiece) {
  server.put("/f", {.body = content, .times = 2, .cut_after = 400'000});
  expect_fetched(content);
  for (const HttpServer::Request& asked : server.requests())
    EXPECT_TRUE(asked.range.empty() || asked.range == "0-0") << asked.range;
}

TEST_F(DownloadTest, DamagedStateStartsAgain) {
  for (const char* state :
       {"", "{", "[]", R"({"version":2})",
        R"({"version":1,"size":1000003,"identity":"\"1\"","modified":null,"chunk_bytes":0,"done":[]})",
        R"({"version":1,"size":1000003,"identity":"\"1\"","modified":null,"chunk_bytes":1000003,"done":[2000000]})",
        R"({"version":1,"size":1000003,"identity":"\"1\"","modified":null,"chunk_bytes":1000003,"done":[-1]})",
        R"({"version":1,"size":1000003,"identity":"\"1\"","modified":null,"chunk_bytes":1000003,"done":["x"]})",
        R"({"version":1,"size":1000003,"identity":"\"1\"","modified":null,"chunk_bytes":1000003,"done":[500000]})"}) {
    fs::remove_all(request.output);
    server.put("/f", {.body = content, .etag = "\"1\""});
    folder.write("out/f.partial", "only this");
    folder.write("out/f.partial.json", state);
    expect_fetched(content);
  }
}

TEST_F(DownloadTest, FileThatAnotherProcessBringsIsLeftToIt) {
  server.put("/f", {.body = content});
  folder.write("out/f.partial", "");
  File other = File::open_update(request.output / "f.partial");
  ASSERT_TRUE(other.lock());
  EXPECT_TRUE(contains(message_of<Failure>([&] { fetch(); }), "another process"));
}

}  // namespace
}  // namespace trireme
