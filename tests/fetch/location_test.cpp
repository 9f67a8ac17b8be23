#include "fetch/location.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "fetch/glob.h"
#include "fetch/http_headers.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(Location, IsReadByItsScheme) {
  const Location web = parse_location("https://user:secret@host:81/a%20b/c.zst?token=1#part");
  EXPECT_EQ(web.scheme, Scheme::http);
  EXPECT_EQ(web.root, "https://user:secret@host:81");
  EXPECT_EQ(web.path, "/a%20b/c.zst");
  EXPECT_EQ(web.query, "?token=1");
  EXPECT_EQ(shown(web), "https://host:81/a%20b/c.zst");
  EXPECT_EQ(http_address(web), "https://user:secret@host:81/a%20b/c.zst?token=1");
  EXPECT_EQ(file_name_of(web), "c.zst");

  const Location s3 = parse_location("s3://bucket/a/b c.zst");
  EXPECT_EQ(s3.scheme, Scheme::s3);
  EXPECT_EQ(s3.root, "bucket");
  EXPECT_EQ(s3.path, "a/b c.zst");
  EXPECT_EQ(shown(s3), "s3://bucket/a/b c.zst");

  const Location az = parse_location("az://account/container/a/b");
  EXPECT_EQ(az.root, "account/container");
  EXPECT_EQ(az.path, "a/b");
  EXPECT_EQ(parse_location("file:///tmp/a%20b").path, "/tmp/a b");
  EXPECT_EQ(parse_location("some/path").scheme, Scheme::file);
}

TEST(Location, OfAStoreHasAnAddressOnTheWeb) {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_BLOB_ENDPOINT"})
    ::unsetenv(name);
  EXPECT_EQ(http_address(parse_location("s3://bucket/a b+c")), "https://bucket.s3.amazonaws.com/a%20b%2Bc");
  EXPECT_EQ(http_address(parse_location("s3://dotted.bucket/k")), "https://s3.amazonaws.com/dotted.bucket/k");
  EXPECT_EQ(http_address(parse_location("gs://bucket/k/l")), "https://storage.googleapis.com/bucket/k/l");
  EXPECT_EQ(http_address(parse_location("az://acc/con/k")), "https://acc.blob.core.windows.net/con/k");
  ::setenv("AWS_ENDPOINT_URL", "http://here:9000/", 1);
  EXPECT_EQ(http_address(parse_location("s3://bucket/k")), "http://here:9000/bucket/k");
  ::unsetenv("AWS_ENDPOINT_URL");
}

TEST(Location, InsideAFolderIsJoinedOnce) {
  EXPECT_EQ(shown(inside(parse_location("https://host/a"), "b c")), "https://host/a/b%20c");
  EXPECT_EQ(shown(inside(parse_location("https://host/a/"), "b")), "https://host/a/b");
  EXPECT_EQ(shown(inside(parse_location("s3://bucket"), "x/y")), "s3://bucket/x/y");
}

struct BadAddress {
  const char* text;
  const char* words;
};
class BadAddressTest : public testing::TestWithParam<BadAddress> {};

TEST_P(BadAddressTest, IsTheUsersMistake) {
  EXPECT_TRUE(contains(message_of<UserError>([] { file_name_of(parse_location(GetParam().text)); }), GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(All, BadAddressTest,
                         testing::Values(BadAddress{"", "empty"}, BadAddress{"ftp://host/x", "ftp:// is not known"},
                                         BadAddress{"https://", "has no host"}, BadAddress{"https:///x", "has no host"},
                                         BadAddress{"https://:80/x", "has no host"}, BadAddress{"https://user@/x", "has no host"},
                                         BadAddress{"https://host/a b", "%20"}, BadAddress{"https://host", "name of a file"},
                                         BadAddress{"https://host/dir/", "name of a file"},
                                         BadAddress{"https://host/a/..%2f..%2fb", "name of a file"},
                                         BadAddress{"https://host/%2e%2e", "name of a file"}, BadAddress{"s3://", "bucket"},
                                         BadAddress{"s3:///key", "bucket"}, BadAddress{"s3://evil.host@x/key", "bucket"},
                                         BadAddress{"az://account", "container"}, BadAddress{"az://account/", "container"},
                                         BadAddress{"file://relative", "file:///path"}, BadAddress{"a\nb", "control"}));

TEST(SafeName, StaysInsideTheFolder) {
  require_safe_name("a/b..c/d", "list");
  for (const char* name :
       {"", "/etc/passwd", "../x", "a/../x", "a/..", "a//b", "./a", "a/.", "a\x01", "x.partial", "x.partial.json"})
    EXPECT_TRUE(contains(message_of<Failure>([&] { require_safe_name(name, "list"); }), "nothing was copied")) << name;
}

TEST(Glob, MatchesWithinAndAcrossParts) {
  EXPECT_TRUE(glob_matches("a/*.zst", "a/00.zst"));
  EXPECT_FALSE(glob_matches("a/*.zst", "a/b/00.zst"));
  EXPECT_TRUE(glob_matches("a/**.zst", "a/b/c/00.zst"));
  EXPECT_TRUE(glob_matches("a/**/x*", "a/b/c/x1"));
  EXPECT_TRUE(glob_matches("[0-2][!5].txt", "14.txt"));
  EXPECT_FALSE(glob_matches("[0-2][!5].txt", "15.txt"));
  EXPECT_FALSE(glob_matches("[0-2][!5].txt", "34.txt"));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "a/c"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(glob_matches("*a*b*", "xxbxxaxx"));
  EXPECT_TRUE(glob_matches("[", "["));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("**", "a/b"));
  EXPECT_TRUE(glob_matches("**/b*c/d", "x/bc/bac/d"));
  EXPECT_EQ(literal_prefix_of_glob("a/b*c/d"), "a/b");
}

TEST(Glob, IsNotSlowOnManyStars) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(20000, 'a')));
}

TEST(HttpHeaders, AreReadInAnyCase) {
  HttpHeaders headers;
  for (const char* line : {"HTTP/1.1 302 Found\r\n", "content-length: 5\r\n", "HTTP/2 206\r\n", "ETAG: \"x\"\r\n",
                           "Content-Range: bytes 10-19/1234\r\n", "Last-Modified:  Sun, 06 Nov 1994 08:49:37 GMT\r\n", "\r\n"})
    headers.add_line(line);
  EXPECT_EQ(headers.status, 206);
  EXPECT_EQ(headers.content_length, -1);
  EXPECT_EQ(headers.file().size, 1234);
  EXPECT_EQ(headers.file().identity, "\"x\"");
  EXPECT_EQ(headers.file().modified, 784111777);
  EXPECT_TRUE(headers.file().ranges);
}

TEST(ParseDate, ReadsBothForms) {
  EXPECT_EQ(parse_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
  EXPECT_EQ(parse_date("1994-11-06T08:49:37.000Z"), 784111777);
  EXPECT_EQ(parse_date("1994-11-06 08:49:37 +0000 GMT"), 784111777);
  for (const char* text : {"", "yesterday", "Sun, 06 Xyz 1994 08:49:37 GMT", "1994-11-06"})
    EXPECT_EQ(parse_date(text), std::nullopt);
}

}  // namespace
}  // namespace trireme
