#include "data/text/text_corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "data/expect_user_error.h"
#include "data/open/open_dataset.h"
#include "data/text/text_files.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Int32s = std::vector<int32_t>;
using Files = std::vector<std::string>;

DataSettings text_settings(Files files, std::string splits_string = "1") {
  return {.data_impl = DataImpl::text, .data_prefix = std::move(files), .splits_string = std::move(splits_string)};
}

TEST(TextFiles, FilesFoldersAndPatternsInOrder) {
  const TemporaryFolder folder;
  const std::string single = folder.write("z.md", "single");
  const std::string b = folder.write("books/b.txt", "b");
  const std::string a = folder.write("books/deeper/a.txt", "a");
  folder.write("books/notes.md", "not text of a folder");
  folder.write("books/empty.txt", "");
  EXPECT_EQ(find_text_files({single, (folder / "books").string()}), (Files{single, b, a}));
  EXPECT_EQ(find_text_files({(folder / "books/*.txt").string(), (folder / "?.md").string()}), (Files{b, single}));
}

TEST(TextFiles, ANameWithPatternCharactersIsAFileFirst) {
  const TemporaryFolder folder;
  const std::string odd = folder.write("part[1].txt", "one");
  EXPECT_EQ(find_text_files({odd}), Files{odd});
}

TEST(TextFiles, MistakesAreNamed) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("empty.txt", "");
  folder.write("pictures/a.png", "picture");
  ASSERT_EQ(mkfifo((folder / "pipe").string().c_str(), 0600), 0);
  expect_user_error([] { find_text_files({}); }, {"model.data.data_prefix is empty"});
  expect_user_error([&] { find_text_files({(folder / "absent.txt").string()}); }, {"absent.txt' does not exist"});
  expect_user_error([&] { find_text_files({empty}); }, {"empty.txt' is empty"});
  expect_user_error([&] { find_text_files({(folder / "pictures").string()}); }, {"pictures' is a folder without text"});
  expect_user_error([&] { find_text_files({(folder / "*.csv").string()}); }, {"*.csv' matches no file"});
  expect_user_error([&] { find_text_files({(folder / "empty*").string()}); }, {"empty*' matches no file with text"});
  expect_user_error([&] { find_text_files({(folder / "pipe").string()}); }, {"pipe' is neither a file nor a folder"});
  expect_user_error([&] { find_text_files({empty + "/below"}); }, {"below'"});
  expect_user_error([&] { read_text_file((folder / "gone.txt").string()); }, {"gone.txt' cannot be read: No such file"});
  expect_user_error([&] { read_text_file((folder / "pictures").string()); }, {"pictures' cannot be read: Is a directory"});
}

TEST(TextFiles, NothingIsPassedOverWithoutAWord) {
  const TemporaryFolder folder;
  folder.write("in/a.txt", "a");
  folder.write("elsewhere/b.txt", "b");
  const auto find = [&](const char* entry) { return [&folder, entry] { find_text_files({(folder / entry).string()}); }; };
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "in/linked");
  expect_user_error(find("in"), {"in/linked' is a linked folder"});
  std::filesystem::remove(folder / "in/linked");
  std::filesystem::create_symlink(folder / "gone", folder / "in/c.txt");
  expect_user_error(find("in"), {"in/c.txt' is a link to nothing"});
  expect_user_error(find("in/*"), {"in/c.txt' is a link to nothing"});
}

TEST(TextFiles, AFileWithoutPermissionIsNamed) {
  if (geteuid() == 0) SKIP_FOR(machine) << "the superuser may read every file";
  const TemporaryFolder folder;
  const std::string secret = folder.write("secret.txt", "secret");
  ASSERT_EQ(chmod(secret.c_str(), 0), 0);
  expect_user_error([&] { read_text_file(secret); }, {"secret.txt' cannot be read: Permission denied"});
}

// "abcdef" + end and "gh" + end are ten tokens. Of 5,3,2 training has five, validation the end of the first document and the
// beginning of the second, test the rest.
TEST(TextCorpus, SplitsAreRangesOfTokens) {
  const TemporaryFolder folder;
  const Files files = {folder.write("1.txt", "abcdef"), folder.write("2.txt", "gh")};
  const auto split_of = [&](Split split) {
    const TextCorpus corpus(files, ByteTokenizer(), parse_splits("5,3,2"), split);
    std::vector<Int32s> documents;
    for (int64_t document = 0; document < corpus.document_lengths().size(); ++document) {
      documents.emplace_back(static_cast<size_t>(corpus.document_lengths()[document]));
      corpus.read(static_cast<int64_t>(document), 0, documents.back());
    }
    return documents;
  };
  EXPECT_EQ(split_of(Split::train), (std::vector<Int32s>{{'a', 'b', 'c', 'd', 'e'}}));
  EXPECT_EQ(split_of(Split::validation), (std::vector<Int32s>{{'f', 256}, {'g'}}));
  EXPECT_EQ(split_of(Split::test), (std::vector<Int32s>{{'h', 256}}));
}

TEST(TextCorpus, ReadsInsideADocumentOnly) {
  const TemporaryFolder folder;
  const TextCorpus corpus({folder.write("1.txt", "abc"), folder.write("2.txt", "\xff")}, ByteTokenizer(), parse_splits("1"),
                          Split::train);
  Int32s tokens(2);
  corpus.read(0, 2, tokens);
  EXPECT_EQ(tokens, (Int32s{'c', 256}));
  corpus.read(1, 0, tokens);
  EXPECT_EQ(tokens, (Int32s{255, 256}));
  EXPECT_THROW(corpus.read(0, 3, tokens), std::logic_error);
}

// Every window of T + 1 tokens of a one-file corpus occurs once per epoch.
TEST(TextDataset, OneFileIsCutIntoOverlappingSamples) {
  const TemporaryFolder folder;
  const auto dataset = open_dataset(text_settings({folder.write("1.txt", "abcdefghijkl")}), 0, Split::train, 4, 0, 7);
  EXPECT_EQ(dataset->vocabulary(), 257);
  ASSERT_EQ(dataset->size(), 3);
  std::vector<std::pair<Int32s, Int32s>> samples;
  for (int64_t i = 0; i < 3; ++i) {
    Int32s tokens(4), targets(4);
    dataset->sample(i, tokens, targets);
    samples.emplace_back(tokens, targets);
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(samples, (std::vector<std::pair<Int32s, Int32s>>{{{'a', 'b', 'c', 'd'}, {'b', 'c', 'd', 'e'}},
                                                             {{'e', 'f', 'g', 'h'}, {'f', 'g', 'h', 'i'}},
                                                             {{'i', 'j', 'k', 'l'}, {'j', 'k', 'l', 256}}}));
}

TEST(TextDataset, AsManySamplesAsAreNeeded) {
  const TemporaryFolder folder;
  const auto dataset = open_dataset(text_settings({folder.write("1.txt", "abcdefghijkl")}), 300, Split::train, 4, 1000, 7);
  EXPECT_GE(dataset->size(), 1000);
  EXPECT_EQ(dataset->vocabulary(), 300);
  Int32s tokens(4), targets(4);
  for (int64_t i = 0; i < dataset->size(); ++i) {
    dataset->sample(i, tokens, targets);
    for (size_t t = 0; t < 4; ++t)
      EXPECT_TRUE(targets[t] == tokens[t] + 1 || (tokens[t] == 'l' && targets[t] == 256) ||
                  (tokens[t] == 256 && targets[t] == 'a'));
  }
}

TEST(TextDataset, MistakesAreNamed) {
  const TemporaryFolder folder;
  const std::string file = folder.write("1.txt", "abcdefghijkl");
  const auto open = [](const DataSettings& settings, int64_t vocabulary, Split split, int64_t sequence) {
    return [=] { open_dataset(settings, vocabulary, split, sequence, 10, 1); };
  };
  expect_user_error(open(text_settings({file}, "9,1"), 0, Split::validation, 4),
                    {"model.data.splits_string=9,1 leaves 1 tokens", "for validation", "= 5"});
  expect_user_error(open(text_settings({file}), 0, Split::test, 4), {"leaves 0 tokens", "for test"});
  expect_user_error(open(text_settings({file}), 0, Split::train, 13), {"leaves 13 tokens", "= 14"});
  expect_user_error(open(text_settings({file}), 256, Split::train, 4), {"model.vocab_size=256", "at least 257"});
  expect_user_error(open(text_settings({file}, "1,2,x"), 0, Split::train, 4), {"model.data.splits_string=1,2,x"});
  EXPECT_EQ(open_dataset(text_settings({file}), 0, Split::train, 12, 1, 1)->size(), 1);
}

}  // namespace
}  // namespace trireme
