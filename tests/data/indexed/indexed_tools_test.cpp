// Merging, cutting and checking whole datasets.
#include "data/indexed/indexed_tools.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "data/dataset_fixture.h"
#include "data/expect_user_error.h"
#include "data/indexed/indexed_verify.h"

namespace trireme {
namespace {

std::string contents(const std::string& path) { return read_file(path, 1 << 24); }
const auto kNoProgress = [](int64_t) {};

TEST(IndexedTools, APartAndTheRestMergeToTheWhole) {
  const TemporaryFolder folder;
  const std::string whole = write_dataset(folder, "whole", 40000);  // more than one piece
  const std::string front = (folder / "front").string(), back = (folder / "back").string(), again = (folder / "again").string();
  EXPECT_EQ(copy_documents(whole, {0, 12345}, front, Replace::no, kNoProgress).documents, 12345);
  copy_documents(whole, {12345, 40000}, back, Replace::no, kNoProgress);
  int64_t told = 0;
  const CopyTotals totals = merge_datasets({front, back}, again, Replace::no, [&](int64_t bytes) { told = bytes; });
  EXPECT_EQ(totals.documents, 40000);
  EXPECT_EQ(told, totals.tokens * 4);
  EXPECT_EQ(contents(again + ".idx"), contents(whole + ".idx"));
  EXPECT_EQ(contents(again + ".bin"), contents(whole + ".bin"));
}

TEST(IndexedTools, EmptyDocumentsAreKept) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "empty").string();
  {
    IndexedDatasetWriter writer(prefix, TokenType::uint16);
    for (int i = 0; i < 20000; ++i) writer.end_document();
    writer.add_sequence(std::vector<int32_t>{1});
    writer.end_document();
    writer.end_document();
    writer.finish();
  }
  const std::string merged = (folder / "merged").string();
  merge_datasets({prefix, prefix}, merged, Replace::no, kNoProgress);
  const IndexedDataset data(merged);
  EXPECT_EQ(data.documents(), 40004);
  EXPECT_EQ(data.document_start(20000), 0);
  EXPECT_EQ(data.document_start(20001), 1);
  EXPECT_EQ(verify_dataset(data, 2, kNoProgress).empty_documents, 40002);
}

TEST(IndexedTools, WhatCannotBeMergedIsRefused) {
  const TemporaryFolder folder;
  const std::string a = write_dataset(folder, "a", 3), narrow = (folder / "narrow").string(), modes = (folder / "modes").string();
  IndexedDatasetWriter(narrow, TokenType::uint16).finish();
  {
    IndexedDatasetWriter writer(modes, TokenType::int32, Replace::no, SequenceModes::kept);
    writer.add_sequence(std::vector<int32_t>{1}, 1);
    writer.end_document();
    writer.finish();
  }
  const std::string out = (folder / "out").string();
  const auto merge = [&](std::vector<std::string> inputs, const std::string& output) {
    return [=] { merge_datasets(inputs, output, Replace::no, kNoProgress); };
  };
  expect_user_error(merge({a, narrow}, out), {"int32", "uint16", "one type"});
  expect_user_error(merge({a, modes}, out), {"modes has modes", "cannot be merged"});
  expect_user_error(merge({a, a}, a), {"both merged and written"});
  expect_user_error(merge({a, (folder / "none").string()}, out), {"none.idx does not exist"});
  EXPECT_FALSE(std::filesystem::exists(out + ".idx"));
}

TEST(Verify, AGoodDataset) {
  const TemporaryFolder folder;
  const IndexedDataset data(write_dataset(folder, "a", 100000));
  const VerifiedDataset verified = verify_dataset(data, std::nullopt, kNoProgress);
  EXPECT_EQ(verified.documents, 100000);
  EXPECT_EQ(verified.largest_token, 100 * 99999 + (99999 * 7 % 40));
  const LengthSummary lengths = summarize_lengths(data);
  EXPECT_EQ(lengths.tokens, data.tokens());
  EXPECT_EQ(lengths.shortest, 1);
  EXPECT_EQ(lengths.longest, 40);
  EXPECT_EQ(lengths.buckets[1], 2500);      // of one token
  EXPECT_EQ(lengths.buckets[6], 9 * 2500);  // of 32 to 40
}

// The first fault is named, wherever the others are.
TEST(Verify, DamageAnywhereIsNamed) {
  const TemporaryFolder folder;
  constexpr int64_t kDocuments = 70000;
  const std::string prefix = write_dataset(folder, "a", kDocuments);
  const std::string idx = contents(prefix + ".idx"), bin = contents(prefix + ".bin");
  const auto check = [&](size_t at, auto value, const std::vector<std::string>& words, std::string changed, const char* suffix) {
    changed.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
    folder.write("a.idx", idx);
    folder.write("a.bin", bin);
    folder.write(std::string("a") + suffix, changed);
    expect_user_error([&] { verify_dataset(IndexedDataset(prefix), 1 << 24, kNoProgress); }, words);
  };
  check(34 + 4 * 69000, int32_t{-1}, {"a.idx: byte 276034", "sequence 69000 has -1 tokens"}, idx, ".idx");
  check(34 + 4 * 5, int32_t{99}, {"sequence 5 of 99 tokens", "do not add up"}, idx, ".idx");
  check(34 + 4 * kDocuments + 8 * 100, int64_t{0}, {"sequence 99", "do not add up"}, idx, ".idx");
  check(34 + 12 * kDocuments + 8 * 66000, int64_t{1}, {"document 65999 goes from sequence 65999 to 1"}, idx, ".idx");
  check(4 * 1000000, int32_t{-7}, {"a.bin: byte 4000000", "token number 1000000 is -7"}, bin, ".bin");
  check(4 * 1000001, int32_t{1 << 24}, {"a.bin: byte 4000004", "16777216", "the vocabulary has 16777216"}, bin, ".bin");
}

}  // namespace
}  // namespace trireme
