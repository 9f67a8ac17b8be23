// numpy's array files, and the texts whose checksums name them.
#include "data/numpy/npy.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/md5.h"
#include "base/python_json.h"
#include "data/expect_user_error.h"
#include "data/samples/index_cache.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(Npy, WritesWhatNumpyWrites) {
  const TemporaryFolder folder;
  NewNumbers array(folder / "a.npy", {.type = NumberType::int32, .rows = 2, .columns = 2});
  const std::vector<int32_t> values{1, -2, 3, 4};
  std::copy(values.begin(), values.end(), array.as<int32_t>().begin());
  EXPECT_FALSE(std::filesystem::exists(folder / "a.npy"));  // not before it is whole
  array.commit();
  const std::string bytes = read_file(folder / "a.npy", 1000);
  ASSERT_EQ(bytes.size(), 128u + 16u);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\1\0\x76\0", 10));
  EXPECT_TRUE(bytes.substr(10).starts_with("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }   "));
  EXPECT_EQ(bytes[127], '\n');
  const NpyFile file(folder / "a.npy");
  EXPECT_EQ(describe(file.shape()), "int32[2,2]");
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(file.numbers()[i], values[static_cast<size_t>(i)]);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Npy, EveryTypeAndNoElementsAtAll) {
  const TemporaryFolder folder;
  for (const NumberType type : {NumberType::uint8, NumberType::int16, NumberType::int32, NumberType::uint32, NumberType::int64})
    for (const int64_t rows : {0, 1, 100}) {
      NewNumbers(folder / "a.npy", {.type = type, .rows = rows, .columns = 0}).commit();
      EXPECT_EQ(NpyFile(folder / "a.npy").shape(), (NpyShape{.type = type, .rows = rows, .columns = 0}));
    }
}

// Header text padded to 64, in the given version of the format.
std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string padded = dictionary + std::string(118 - dictionary.size() - (version == 1 ? 0 : 2), ' ');
  padded.back() = '\n';
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(padded.size());
  bytes += std::string(version == 1 ? 1 : 3, '\0');
  return bytes + padded + data;
}

TEST(Npy, OtherWaysToWriteTheSame) {
  const TemporaryFolder folder;
  for (const char version : {'\1', '\2', '\3'}) {
    folder.write("a.npy", npy("{'shape':(2,),'fortran_order':False,'descr':'<i8'}", std::string(16, '\7'), version));
    EXPECT_EQ(NpyFile(folder / "a.npy").numbers()[1], 0x0707070707070707);
  }
}

TEST(Npy, DamageIsOneLineThatNamesFileAndByte) {
  const TemporaryFolder folder;
  const std::string good = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return npy(text.replace(text.find(from), from.size(), to), std::string(8, '\0'));
  };
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"", {"bad.npy: byte 0", "not a numpy array"}},
      {"hello numpy", {"byte 0"}},
      {std::string("\x93NUMPY\1", 7), {"byte 7", "ends inside its header"}},
      {npy(good, "").substr(0, 60), {"byte 60", "ends inside its header"}},
      {npy(good, std::string(8, 'x'), 4), {"byte 6", "version 4"}},
      {npy(good, std::string(7, 'x')), {"byte 128", "7 bytes of data", "int32[2] takes 8"}},
      {npy(good, std::string(9, 'x')), {"9 bytes of data"}},
      {with("<i4", "<f8"), {"byte 10", "<f8"}},
      {with("False", "True"), {"column order"}},
      {with("(2,)", "()"), {"0 dimensions"}},
      {with("(2,)", "(1,2,1)"), {"3 dimensions"}},
      {with("(2,)", "(-2,)"), {"'shape':"}},
      {with("(2,)", "(x,)"), {"'shape':"}},
      {with("(2,)", "(99999999999999999999,)"), {"'shape':"}},
      {with("(2,)", "(100000000000000000,100)"), {"too large"}},
      {with("(2,)", "(2,0)"), {"no columns"}},
      {with("'shape'", "'shope'"), {"no 'shape':"}},
      {with("'<i4'", "<i4"), {"'descr': is not understood"}},
  };
  for (const auto& [bytes, words] : cases) {
    SCOPED_TRACE(bytes);
    folder.write("bad.npy", bytes);
    expect_user_error([&] { NpyFile file(folder / "bad.npy"); }, words);
  }
  expect_user_error([&] { NpyFile file(folder / "none.npy"); }, {"none.npy"});
}

// RFC 1321.
TEST(Md5, KnownDigests) {
  EXPECT_EQ(md5_hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5_hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

// The text and the checksum were made by Python 3.11's json and hashlib.
TEST(IndexCache, NamesFilesByTheTextThatPythonWrites) {
  const CoreIndexName name{.dataset_path = "/data/é\"x",
                           .samples_needed = 640,
                           .split = Split::validation,
                           .seed = 1234,
                           .sequence = 2048,
                           .splits_string = "99990,8,2",
                           .tokenizer = R"({"class": "A", "tokenizer_path": [], "n": null})"};
  const std::string text = python_json(core_identifiers(name), kMegatronIndent);
  EXPECT_EQ(text,
            "{\n    \"class\": \"GPTDataset\",\n    \"dataset_path\": \"/data/\\u00e9\\\"x\",\n    \"num_samples\": 640,\n"
            "    \"index_split\": \"valid\",\n    \"random_seed\": 1234,\n    \"sequence_length\": 2048,\n"
            "    \"split\": \"99990,8,2\",\n    \"split_matrix\": [\n        [\n            0,\n            0.9999\n        ],\n"
            "        [\n            0.9999,\n            0.99998\n        ],\n        [\n            0.99998,\n            1.0\n"
            "        ]\n    ],\n    \"tokenizer\": {\n        \"class\": \"A\",\n        \"tokenizer_path\": [],\n"
            "        \"n\": null\n    }\n}");
}

}  // namespace
}  // namespace trireme
