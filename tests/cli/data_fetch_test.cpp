// trireme data fetch and push as a user runs them: killed in the middle, on a full disk, and asked for what cannot be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cli/run_program.h"
#include "fetch/http.h"
#include "fetch/http_server.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_http() {
  try {
    HttpClient client{{}};
    return true;
  } catch (const UserError&) {
    return false;
  }
}

class DataFetchTest : public testing::Test {
 protected:
  ProgramResult fetch(const std::string& arguments) {
    return run_program("data fetch " + arguments + " --output " + out.string());
  }

  TemporaryFolder folder;
  HttpServer server;
  const fs::path out = folder / "out";
};

pid_t start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

using DataFetchSlow = DataFetchTest;  // waits until something was saved

TEST_F(DataFetchSlow, KilledAgainAndAgainItBringsTheSameBytes) {
  if (!has_http()) SKIP_FOR(machine) << "built without libcurl";
  const std::string content = made_up_bytes(6'000'000);
  const std::vector<std::string> command = {TRIREME_BINARY, "data",       "fetch",   server.url("/f"),
                                            "--output",     out.string(), "--chunk", "1"};
  server.put("/f", {.body = content, .etag = "\"1\"", .seconds_per_block = 0.05});
  int64_t saved = 0;
  for (int round = 0; round < 3; ++round) {
    std::error_code failed;
    const auto before = fs::last_write_time(out / "f.partial.json", failed);
    const bool first = static_cast<bool>(failed);
    const pid_t child = start(command);
    const auto saved_something = [&] {  // which happens every two seconds
      const auto time = fs::last_write_time(out / "f.partial.json", failed);
      return !failed && (first || time > before);
    };
    for (int i = 0; i < 3000 && !saved_something(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(fs::exists(out / "f"));
    int64_t done = 0;
    const auto state = nlohmann::json::parse(read_file(out / "f.partial.json", 1 << 20));
    for (const auto& part : state.at("done")) done += part.get<int64_t>();
    EXPECT_GT(done, saved) << "nothing was kept of round " << round;
    saved = done;
  }
  server.put("/f", {.body = content, .etag = "\"1\""});
  const int64_t sent = server.bytes_sent();
  const ProgramResult result = fetch(server.url("/f") + " --json");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(read_file(out / "f", 1 << 30), content);
  // The rest, the byte that asks what is there, and a block that each of the four killed connections may still have been sending.
  EXPECT_LE(server.bytes_sent() - sent, 6'000'000 - saved + 1 + 4 * 16384);
  EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 1);
}

TEST_F(DataFetchTest, SignalSavesAndSaysSo) {
  if (!has_http()) SKIP_FOR(machine) << "built without libcurl";
  server.put("/f", {.body = made_up_bytes(6'000'000), .etag = "\"1\"", .seconds_per_block = 0.05});
  const pid_t child = start({TRIREME_BINARY, "data", "fetch", server.url("/f"), "--output", out.string()});
  for (int i = 0; i < 3000 && server.bytes_sent() < 100'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_TRUE(fs::exists(out / "f.partial.json"));
}

// A function that throws while an aggregate is being made: what was made before must be destroyed once.
TEST_F(DataFetchTest, AddressesWithoutTheNameOfAFileAreRefused) {
  for (const std::string address :
       {"https://host.invalid/", "https://host.invalid", "https://host.invalid/a/", "s3://bucket/.."}) {
    const ProgramResult result = fetch(address);
    EXPECT_EQ(result.status, 2) << address << ": " << result.output;
    EXPECT_TRUE(contains(result.output, "does not end with the name of a file")) << result.output;
  }
}

TEST_F(DataFetchTest, FoldersPathsAndGlobsAreCopiedOnce) {
  folder.write("data/a.txt", "one");
  folder.write("data/b/c.txt", "two");
  folder.write("data/b/d.bin", "three");
  const std::string data = (folder / "data").string();
  EXPECT_EQ(fetch("'" + data + "/**.txt'").status, 0);
  EXPECT_EQ(read_file(out / "b/c.txt", 100), "two");
  EXPECT_FALSE(fs::exists(out / "b/d.bin"));
  const ProgramResult again = fetch("file://" + data + " --json");
  const auto report = nlohmann::json::parse(again.output);
  EXPECT_EQ(report["files"].size(), 3u);
  EXPECT_EQ(report["files"][0]["outcome"], "unchanged");
  EXPECT_EQ(report["files"][2]["outcome"], "fetched");
  EXPECT_EQ(report["bytes_brought"], 5);
}

// Nothing below a folder is left out without a word: links are followed, or named if they cannot be.
TEST_F(DataFetchTest, LinksInFoldersAreFollowedOrRefused) {
  folder.write("elsewhere/b.txt", "two");
  folder.write("data/a.txt", "one");
  fs::create_directory_symlink(folder / "elsewhere", folder / "data/linked");
  const std::string data = (folder / "data").string();
  EXPECT_EQ(fetch(data).status, 0);
  EXPECT_EQ(read_file(out / "linked/b.txt", 100), "two");
  fs::create_symlink(folder / "gone", folder / "data/c.txt");
  ProgramResult result = fetch(data);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "data/c.txt: a link to nothing")) << result.output;
  fs::remove(folder / "data/c.txt");
  fs::create_directory_symlink(folder / "data", folder / "data/round");
  result = fetch(data);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.output, "data/round: a link that leads back")) << result.output;
}

TEST_F(DataFetchTest, PushToAFolderCopiesWhatDiffers) {
  folder.write("data/a", "one");
  folder.write("data/b", "two");
  const std::string command = "data push " + (folder / "data").string() + " " + out.string();
  EXPECT_TRUE(contains(run_program(command).output, "2 files pushed"));
  folder.write("data/b", "three");
  EXPECT_TRUE(contains(run_program(command).output, "1 file pushed, 1 unchanged"));
  EXPECT_EQ(read_file(out / "b", 100), "three");
}

TEST_F(DataFetchTest, MirrorTakesOneAddressAndUrlsMayFollow) {
  folder.write("mirror/a", "one");
  folder.write("other/b", "two");
  const std::string root = folder.path().string();
  const ProgramResult result =
      fetch("--mirror " + root + "/other --mirror " + root + "/mirror " + root + "/absent/a " + root + "/absent/b");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(read_file(out / "a", 100), "one");
  EXPECT_EQ(read_file(out / "b", 100), "two");
}

TEST_F(DataFetchTest, DryRunWritesNothing) {
  folder.write("data/a", "one");
  const ProgramResult result = fetch((folder / "data/a").string() + " --dry-run");
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.output, "1 file, 3 B to fetch"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(DataFetchTest, ChecksumsComeFromAFileOfThem) {
  folder.write("data/a", "abc");
  folder.write("data/b", "abc");
  const std::string sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::string sums = folder.write("SUMS", sum + "  a\n" + sum + " *./b\n");
  EXPECT_EQ(fetch((folder / "data").string() + " --sha256 " + sums).status, 0);
  folder.write("SUMS", sum + "  a\n" + std::string(64, '0') + "  b\n");
  const ProgramResult wrong = fetch((folder / "data").string() + " --sha256 " + sums);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(contains(wrong.output, "kept as " + (out / "b.mismatch").string()));
  EXPECT_EQ(read_file(out / "b", 100), "abc");  // what was there stays
}

TEST_F(DataFetchTest, FullDiskIsOneLineAndWhatCameIsKept) {
  if (!has_http()) SKIP_FOR(machine) << "built without libcurl";
  server.put("/f", {.body = made_up_bytes(3'000'000), .etag = "\"1\""});
  // The shell's limit counts blocks of 512 or 1024 bytes; either stops the file before its end.
  const std::string command = fmt::format("trap '' XFSZ; ulimit -f 1024; {} data fetch {} --output {} 2>&1", TRIREME_BINARY,
                                          server.url("/f"), out.string());
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output(4096, '\0');
  output.resize(std::fread(output.data(), 1, output.size(), pipe));
  EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), 1) << output;
  EXPECT_TRUE(contains(output, "cannot write " + (out / "f.partial").string()));
  EXPECT_EQ(lines_of(output), 1);
  EXPECT_EQ(fetch(server.url("/f")).status, 0);
  EXPECT_EQ(read_file(out / "f", 1 << 30), made_up_bytes(3'000'000));
}

struct BadRequest {
  const char* name;
  const char* arguments;  // OUT and DATA stand for folders
  int status;
  const char* words;
};
class BadRequestTest : public DataFetchTest, public testing::WithParamInterface<BadRequest> {};

TEST_P(BadRequestTest, IsAnsweredInOneLine) {
  folder.write("data/a", "abc");
  folder.write("data/b/a", "abc");
  folder.write("file", "abc");
  std::string arguments = GetParam().arguments;
  for (const auto& [word, path] :
       {std::pair<std::string, fs::path>{"OUT", out}, {"DATA", folder / "data"}, {"FILE", folder / "file"}})
    for (size_t at = 0; (at = arguments.find(word)) != std::string::npos;) arguments.replace(at, word.size(), path.string());
  const ProgramResult result = run_program("data fetch " + arguments);
  EXPECT_EQ(result.status, GetParam().status) << result.output;
  EXPECT_TRUE(contains(result.output, GetParam().words));
  EXPECT_FALSE(fs::exists(out / "a"));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRequestTest,
    testing::Values(BadRequest{"NoScheme", "ftp://host/x --output OUT", 2, "ftp:// is not known"},
                    BadRequest{"NoHost", "https:///x --output OUT", 2, "has no host"},
                    BadRequest{"NoFileName", "https://host/ --output OUT", 2, "name of a file"},
                    BadRequest{"GlobOnTheWeb", "'https://host/*.zst' --output OUT", 2, "name each file"},
                    BadRequest{"NothingThere", "DATA/absent --output OUT", 2, "no such file or folder"},
                    BadRequest{"EmptyGlob", "'DATA/*.zst' --output OUT", 2, "nothing is there that matches"},
                    BadRequest{"OutputIsAFile", "DATA/a --output FILE", 2, "is a file; expected a folder"},
                    BadRequest{"SameName", "DATA/a DATA/b/a --output OUT", 2, "would both be written to"},
                    BadRequest{"WrongDigits", "DATA/a --output OUT --sha256 abc", 2, "neither 64 hexadecimal digits nor a file"},
                    BadRequest{"BadList", "DATA/a --output OUT --sha256 FILE", 2, ":1: expected 64 hexadecimal digits"},
                    BadRequest{"OneSumForTwo",
                               "DATA --output OUT --sha256 "
                               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                               2, "for 2 files"},
                    BadRequest{"UnknownTool", "DATA/a --output OUT --via curl", 2, "expected auto, https, s5cmd"},
                    BadRequest{"NoOutput", "DATA/a", 2, "--output"},
                    BadRequest{"Nobody", "http://127.0.0.1:1/a --output OUT --retries 0", 1,
                               "cannot reach http://127.0.0.1:1: "}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme
