// Buckets: lists over HTTP, and the four tools, whose place is taken by scripts that write down how they were called.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "fetch/fetch.h"
#include "fetch/http_server.h"
#include "fetch/push.h"
#include "fetch/transfer_error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_BLOB_ENDPOINT"})
      ::setenv(name, server.url().c_str(), 1);
    ::setenv("PATH", ((folder / "bin").string() + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("CALLS", (folder / "calls").c_str(), 1);
    fs::create_directories(folder / "bin");
    request.output = folder / "out";
    request.download.backoff_seconds = 0.01;
    request.download.retries = 1;
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    for (const char* name : {"AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_BLOB_ENDPOINT"}) ::unsetenv(name);
  }

  // A tool that writes down its arguments, each in brackets, a line a call in one write, and then does what `script` says.
  void install(const std::string& name, const std::string& script) {
    const std::string path = folder.write(
        "bin/" + name,
        "#!/bin/sh\nline=; for a in \"$@\"; do line=\"$line[$a]\"; done; printf '%s\\n' \"$line\" >> \"$CALLS\"\n" + script);
    ::chmod(path.c_str(), 0755);
  }
  std::string calls() const { return fs::exists(folder / "calls") ? read_file(folder / "calls", 1 << 20) : ""; }
  FetchReport fetch(const std::vector<std::string>& urls) {
    request.urls = urls;
    return carry_out(plan_fetch(request), request.download, [](const FetchProgress&) {});
  }
  std::string out(const std::string& name) { return read_file(request.output / name, 1 << 20); }

  TemporaryFolder folder;
  HttpServer server;
  FetchRequest request;
  const std::string path_ = std::getenv("PATH");
};

constexpr const char* kS3Page = R"(<?xml version="1.0"?><ListBucketResult xmlns="x"><Name>b</Name>
<Contents><Key>p/00.txt</Key><LastModified>2021-03-04T05:06:07.000Z</LastModified><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents>
<Contents><Key>p/</Key><Size>0</Size></Contents>
<Contents><Key>p/other.bin</Key><Size>9</Size></Contents>%s</ListBucketResult>)";

std::string s3_page(const std::string& more) {
  std::string page = kS3Page;
  return page.replace(page.find("%s"), 2, more);
}

TEST_F(StoreTest, GlobOfAPublicS3BucketIsListedPageByPage) {
  const std::string list = "/b/?list-type=2&encoding-type=url&prefix=p%2F";
  server.put(list, {.body = s3_page("<NextContinuationToken>a+b</NextContinuationToken>")});
  server.put(list + "&continuation-token=a%2Bb",
             {.body = "<ListBucketResult><Contents><Key>p/sub/a%26b%20c.txt</Key><Size>4</Size></Contents></ListBucketResult>"});
  server.put("/b/p/00.txt", {.body = "abc"});
  server.put("/b/p/sub/a%26b%20c.txt", {.body = "defg"});
  EXPECT_EQ(fetch({"s3://b/p/**.txt"}).count(FetchedFile::Outcome::fetched), 2);
  EXPECT_EQ(out("00.txt"), "abc");
  EXPECT_EQ(out("sub/a&b c.txt"), "defg");
  EXPECT_EQ(fetch({"s3://b/p/**.txt"}).count(FetchedFile::Outcome::unchanged), 2);
  EXPECT_EQ(calls(), "");
}

TEST_F(StoreTest, FolderOfAPublicGoogleBucketIsFetched) {
  server.put("/storage/v1/b/b/o?fields=nextPageToken,items(name,size,updated)&prefix=d%2F",
             {.body = R"({"items":[{"name":"d/x","size":"2","updated":"2021-03-04T05:06:07.000Z"}]})"});
  server.put("/b/d/x", {.body = "hi"});
  EXPECT_EQ(fetch({"gs://b/d/"}).count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(out("x"), "hi");
}

TEST_F(StoreTest, GlobOfAPublicAzureContainerIsFetched) {
  server.put(
      "/con?restype=container&comp=list&prefix=d%2F",
      {.body = "<EnumerationResults><Blobs><Blob><Name>d/a&amp;b</Name><Properties><Last-Modified>Sun, 06 Nov 1994 08:49:37 "
               "GMT</Last-Modified><Content-Length>2</Content-Length></Properties></Blob></Blobs><NextMarker "
               "/></EnumerationResults>"});
  server.put("/con/d/a%26b", {.body = "hi"});
  EXPECT_EQ(fetch({"az://acc/con/d/*"}).count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(out("a&b"), "hi");
}

TEST_F(StoreTest, EmptyGlobIsTheUsersMistake) {
  server.put("/b/?list-type=2&encoding-type=url&prefix=q%2F", {.body = "<ListBucketResult></ListBucketResult>"});
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { fetch({"s3://b/q/*.zst"}); }), "s3://b/q/*.zst: nothing is there that matches"));
}

TEST_F(StoreTest, HostileNamesInAListAreRefused) {
  for (const char* key : {"p/../../etc/x", "p//etc/x", "p/a/./x", "p/x%0Ay", "p/x.partial"}) {
    server.put(
        "/b/?list-type=2&encoding-type=url&prefix=p%2F",
        {.body = fmt::format("<ListBucketResult><Contents><Key>{}</Key><Size>1</Size></Contents></ListBucketResult>", key)});
    EXPECT_TRUE(contains(message_of<Failure>([&] { fetch({"s3://b/p/"}); }), "nothing was copied")) << key;
    EXPECT_FALSE(fs::exists(request.output));
  }
}

TEST_F(StoreTest, DamagedListsAreFailures) {
  EXPECT_THROW(parse_s3_page("<html>"), TransferError);
  EXPECT_THROW(parse_s3_page("<ListBucketResult><Contents><Key>x</Key><Size>1"), TransferError);
  EXPECT_THROW(parse_s3_page("<ListBucketResult><Contents><Key>x</Key><Size>-1</Size></Contents>"), TransferError);
  EXPECT_THROW(parse_gs_page("{"), TransferError);
  EXPECT_THROW(parse_gs_page(R"({"items":[{"name":"x"}]})"), TransferError);
  EXPECT_THROW(parse_gs_page(R"({"items":[{"name":"x","size":"1e9"}]})"), TransferError);
  EXPECT_THROW(parse_az_page(""), TransferError);
}

TEST_F(StoreTest, PrivateObjectComesThroughS5cmdWhenItIsThere) {
  server.put("/b/p/x%20y", {.status = 403});
  install("aws", "exit 9\n");
  install("s5cmd",
          R"(case "$2" in ls) echo '{"key":"s3://b/p/x y","type":"file","size":5,"last_modified":"2021-03-04T05:06:07Z"}' ;;
  *) printf hello > "$4" ;; esac
)");
  EXPECT_EQ(fetch({"s3://b/p/x y"}).files[0].error, "");
  EXPECT_EQ(out("x y"), "hello");
  EXPECT_EQ(calls(),
            "[--json][ls][s3://b/p/x y*]\n[cp][--raw][s3://b/p/x y][" + (request.output / "x y.partial").string() + "]\n");
  EXPECT_EQ(fetch({"s3://b/p/x y"}).count(FetchedFile::Outcome::unchanged), 1);
}

TEST_F(StoreTest, PrivateGlobComesThroughAws) {
  server.put("/b/?list-type=2&encoding-type=url&prefix=p%2F", {.status = 403});
  install("aws", R"(case "$1" in
  s3api) echo '{"Contents":[{"Key":"p/a.zst","Size":1,"LastModified":"2021-03-04T05:06:07+00:00"},{"Key":"p/b.txt","Size":1}]}' ;;
  *) mv "$5" "$5.old"; printf A > "$5" ;; esac
)");
  EXPECT_EQ(fetch({"s3://b/p/*.zst"}).count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(out("a.zst"), "A");
  EXPECT_EQ(calls(),
            "[s3api][list-objects-v2][--bucket][b][--prefix][p/][--output][json]\n[s3][cp][--only-show-errors][s3://b/p/a.zst][" +
                (request.output / "a.zst.partial").string() + "]\n");
}

TEST_F(StoreTest, GcloudAndAzcopyCanBeAskedFor) {
  install(
      "gcloud",
      R"(case "$3" in list) echo '[{"name":"k","size":1,"update_time":"2021-03-04T05:06:07+0000"}]' ;; *) printf G > "$5" ;; esac
)");
  request.via = "gcloud";
  EXPECT_EQ(fetch({"gs://b/k"}).count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(out("k"), "G");
  EXPECT_TRUE(contains(calls(), "[storage][cp][--quiet][gs://b/k]"));
  install("azcopy", R"(case "$1" in list) echo 'INFO: z; LastModifiedTime: 2021-03-04 05:06:07 +0000 GMT; Content Length: 1' ;;
  *) printf Z > "$3" ;; esac
)");
  request.via = "azcopy";
  EXPECT_EQ(fetch({"az://acc/con/d/z"}).count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(out("z"), "Z");
  EXPECT_TRUE(contains(calls(), "[copy][" + server.url("/con/d/z") + "]"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { fetch({"gs://b/k"}); }), "azcopy is not a tool for it; use gcloud"));
}

TEST_F(StoreTest, ToolThatFailsIsQuoted) {
  server.put("/b/k", {.status = 403});
  install("aws", "echo first >&2; echo 'fatal error: no credentials' >&2; exit 7\n");
  const FetchReport report = fetch({"s3://b/k"});
  EXPECT_EQ(report.files[0].outcome, FetchedFile::Outcome::failed);
  EXPECT_TRUE(contains(report.files[0].error, "aws ended with status 7: fatal error: no credentials"));
}

TEST_F(StoreTest, WithoutAToolThatIsSaid) {
  server.put("/b/k", {.status = 403});
  ::setenv("PATH", (folder / "bin").c_str(), 1);
  const FetchReport report = fetch({"s3://b/k"});
  EXPECT_TRUE(contains(report.files[0].error, "needs credentials, and s5cmd or aws is not on PATH"));
}

TEST_F(StoreTest, HostileNamesFromAToolAreRefused) {
  install("aws", R"(echo '{"Contents":[{"Key":"p/../../x","Size":1}]}')");
  request.via = "aws";
  EXPECT_TRUE(contains(message_of<Failure>([&] { fetch({"s3://b/p/"}); }), "nothing was copied"));
}

class PushTest : public StoreTest {
 protected:
  FetchReport push(const std::vector<std::string>& paths) {
    PushRequest asked{.paths = paths, .destination = "s3://b/in"};
    return carry_out(plan_push(asked), asked.transfer, [](const FetchProgress&) {});
  }
};

TEST_F(PushTest, UploadsWhatIsMissingOrDifferent) {
  install("aws", R"(case "$1" in s3api) echo '{"Contents":[{"Key":"in/same","Size":3,"LastModified":"2100-01-01T00:00:00Z"},
  {"Key":"in/d/longer","Size":3,"LastModified":"2100-01-01T00:00:00Z"},{"Key":"in/older","Size":3,"LastModified":"2001-01-01T00:00:00Z"}]}' ;; esac
)");
  folder.write("data/same", "abc");
  folder.write("data/d/longer", "abcd");
  folder.write("data/older", "abc");
  folder.write("data/new; touch x", "abc");
  folder.write("data/half.partial", "abc");
  const FetchReport report = push({(folder / "data").string()});
  EXPECT_EQ(report.count(FetchedFile::Outcome::fetched), 3);
  EXPECT_EQ(report.count(FetchedFile::Outcome::unchanged), 1);
  const std::string made = calls(), root = (folder / "data").string();
  EXPECT_TRUE(contains(made, "[--prefix][in/]"));
  EXPECT_TRUE(contains(made, "[s3][cp][--only-show-errors][" + root + "/d/longer][s3://b/in/d/longer]\n"));
  EXPECT_TRUE(contains(made, "[" + root + "/older][s3://b/in/older]\n"));
  EXPECT_TRUE(contains(made, "[" + root + "/new; touch x][s3://b/in/new; touch x]\n"));
  EXPECT_FALSE(contains(made, "half"));
}

TEST_F(PushTest, FailureOfOneIsReportedAndTheOthersGo) {
  install("aws", R"(case "$4" in */bad) echo denied >&2; exit 1 ;; esac
)");
  folder.write("data/bad", "abc");
  folder.write("data/good", "abc");
  const FetchReport report = push({(folder / "data").string()});
  EXPECT_EQ(report.count(FetchedFile::Outcome::fetched), 1);
  EXPECT_EQ(report.count(FetchedFile::Outcome::failed), 1);
  EXPECT_TRUE(contains(report.files[0].error, "denied"));
}

TEST_F(PushTest, BadRequestsAreTheUsersMistakes) {
  install("aws", "");
  folder.write("a/x", "1");
  folder.write("b/x", "2");
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         push({(folder / "a").string(), (folder / "b/x").string()});
                       }),
                       "both be pushed as x"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { push({(folder / "absent").string()}); }), "no such file or folder"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { push({"https://host/x"}); }), "only files of this machine"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { plan_push({.paths = {}, .destination = "https://host/x"}); }), "cannot be pushed to"));
}

}  // namespace
}  // namespace trireme
