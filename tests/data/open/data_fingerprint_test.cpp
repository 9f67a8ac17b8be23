// What tells that two machines have different data under the same name.
#include "data/open/data_fingerprint.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(DataFingerprintTest, FollowsFilesOfEveryKindOfEntry) {
  const TemporaryFolder folder;
  folder.write("p.bin", std::string(200'000, 'b'));
  folder.write("p.idx", "index");
  folder.write("texts/a.txt", "one");
  folder.write("texts/deeper/b.txt", "two");
  folder.write("vocab.json", "{}");
  const DataSettings data{.data_impl = DataImpl::mmap,
                          .data_prefix = {"0.3", folder / "p", "0.7", folder / "texts", folder / "texts/*.txt", folder / "none"}};
  const TokenizerSettings tokenizer{.vocab_file = folder / "vocab.json"};
  const auto rows = data_fingerprint(data, tokenizer);
  ASSERT_EQ(rows.size(), 5u);  // no weights
  EXPECT_TRUE(rows[0].second.starts_with("2 files, 200005 bytes, checksum "));
  EXPECT_TRUE(rows[1].second.starts_with("2 files, 6 bytes, checksum "));
  EXPECT_TRUE(rows[2].second.starts_with("1 file, 3 bytes, checksum "));
  EXPECT_EQ(rows[3].second, "not found");
  EXPECT_EQ(rows[4].first, "tokenizer " + (folder / "vocab.json").string());
  EXPECT_EQ(data_fingerprint(data, tokenizer), rows);

  const auto after = [&](const std::string& file, const std::string& text) {
    folder.write(file, text);
    return data_fingerprint(data, tokenizer);
  };
  std::string changed(200'000, 'b');
  changed.back() = 'c';  // of the same size
  EXPECT_NE(after("p.bin", changed)[0], rows[0]);
  EXPECT_NE(after("texts/deeper/b.txt", "owt")[1], rows[1]);
  EXPECT_NE(after("vocab.json", "[]")[4], rows[4]);
}

TEST(DataFingerprintTest, MockDataHasNoFiles) {
  EXPECT_TRUE(data_fingerprint({.data_impl = DataImpl::mock, .data_prefix = {"x"}}, {.vocab_file = "y"}).empty());
}

}  // namespace
}  // namespace trireme
