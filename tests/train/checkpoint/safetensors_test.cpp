#include "train/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

// A file with this JSON as its header, padded as it comes, followed by `data_bytes` bytes.
std::string file_text(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + json + std::string(data_bytes, 'd');
}

SafetensorsHeader read(const TemporaryFolder& folder, const std::string& contents) {
  remove_tree(folder / "x.safetensors");  // file systems sync a file that is emptied and written again, which is slow
  File::create(folder / "x.safetensors").write(contents);
  return read_safetensors_header(File::open(folder / "x.safetensors"));
}

TEST(Safetensors, RoundTrip) {
  const TemporaryFolder folder;
  const SafetensorsHeader made = make_safetensors_header({{"bytes", DType::u8, {3}},
                                                          {"layers.0.weight", DType::bf16, {2, 3}},
                                                          {"name with \"quotes\" and \u00e9", DType::f32, {4}},
                                                          {"counts", DType::i64, {1, 2}},
                                                          {"empty", DType::i32, {0, 7}},
                                                          {"exact", DType::f64, {1}}},
                                                         {{"format", "pt"}});
  EXPECT_EQ(made.bytes.size() % 8, 0U);
  EXPECT_EQ(made.file_bytes, narrow<int64_t>(made.bytes.size()) + 3 + 12 + 16 + 16 + 0 + 8);

  const SafetensorsHeader got = read(folder, made.bytes + std::string(made.file_bytes - made.bytes.size(), 'd'));
  EXPECT_EQ(got.bytes, made.bytes);
  EXPECT_EQ(got.metadata, made.metadata);
  ASSERT_EQ(got.tensors.size(), made.tensors.size());
  for (const SafetensorsTensor& tensor : got.tensors) {
    EXPECT_EQ(tensor.begin % size_of(tensor.dtype), 0) << tensor.name;
    const auto same = std::ranges::find(made.tensors, tensor.name, &SafetensorsTensor::name);
    ASSERT_NE(same, made.tensors.end());
    EXPECT_EQ(tensor.dtype, same->dtype);
    EXPECT_EQ(tensor.shape, same->shape);
    EXPECT_EQ(tensor.begin, same->begin);
  }
}

// The bytes that the format's definition asks for.
TEST(Safetensors, ExactBytes) {
  const SafetensorsHeader header = make_safetensors_header({{"a", DType::f32, {2}}});
  const std::string json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(header.bytes, file_text(padded, 0));
  EXPECT_EQ(header.tensors[0].begin, narrow<int64_t>(header.bytes.size()));
}

TEST(Safetensors, NamesMustDiffer) {
  EXPECT_THROW(make_safetensors_header({{"a", DType::f32, {1}}, {"a", DType::f32, {1}}}), std::logic_error);
  EXPECT_THROW(make_safetensors_header({{"__metadata__", DType::f32, {1}}}), std::logic_error);
}

struct Hostile {
  const char* name;
  std::string contents;
  const char* message;
};

std::string deep_json(size_t depth) { return R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + "}"; }

TEST(Safetensors, SurvivesHostileFiles) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" +
           second + "}}";
  };
  std::string huge_length(16, '\xff');
  std::string length_past_end = file_text(good, 0);
  length_past_end[0] = static_cast<char>(200);
  const std::vector<Hostile> files = {
      {"empty", "", "too few"},
      {"seven bytes", "1234567", "too few"},
      {"huge header length", huge_length, "more than the 100000000 allowed"},
      {"header longer than the file", length_past_end, "truncated"},
      {"no JSON", file_text("not json", 8), "not valid JSON"},
      {"JSON cut off", file_text(good.substr(0, 20), 8), "not valid JSON"},
      {"not an object", file_text("[1,2]", 0), "not a JSON object"},
      {"not UTF-8", file_text("{\"\xff\xfe\":1}", 0), "not valid JSON"},
      {"entry is a number", file_text(R"({"a":5})", 0), "an object with the key dtype"},
      {"deep", file_text(deep_json(100'000), 0), "nested deeper"},
      {"endless", file_text(std::string(1'000'000, '['), 0), "nested deeper"},
      {"key twice", file_text(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":1})", 1), "\"a\" is given twice"},
      {"dtype twice", file_text(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "is given twice"},
      {"unknown dtype", file_text(entry("\"Q7\"", "[2]", "[0,8]"), 8), "dtype \"Q7\" is not known"},
      {"dtype is a number", file_text(entry("7", "[2]", "[0,8]"), 8), "not a text"},
      {"no shape", file_text(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "shape is missing"},
      {"more keys", file_text(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1), "were expected"},
      {"negative size", file_text(entry("\"F32\"", "[-2]", "[0,8]"), 8), "not a size"},
      {"fractional size", file_text(entry("\"F32\"", "[2.5]", "[0,8]"), 8), "not a size"},
      {"size beyond 64 bits", file_text(entry("\"F32\"", "[99999999999999999999]", "[0,8]"), 8), "not a size"},
      {"size beyond a signed 64 bits", file_text(entry("\"F32\"", "[18446744073709551615]", "[0,8]"), 8), "not a size"},
      {"product overflows", file_text(entry("\"F32\"", "[4294967296,4294967296]", "[0,8]"), 8), "too large"},
      {"product overflows beside a zero", file_text(entry("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), 0), "too large"},
      {"too many dimensions", file_text(entry("\"F32\"", "[1,1,1,1,1,1,2]", "[0,8]"), 8), "at most 4"},
      {"shape is a text", file_text(entry("\"F32\"", "\"2\"", "[0,8]"), 8), "a shape is a list"},
      {"wrong bytes", file_text(entry("\"F32\"", "[2]", "[0,4]"), 4), "do not hold the 8 bytes"},
      {"offsets turned round", file_text(entry("\"F32\"", "[2]", "[8,0]"), 8), "do not hold"},
      {"three offsets", file_text(entry("\"F32\"", "[2]", "[0,8,9]"), 8), "were expected"},
      {"offset near the end of numbers", file_text(entry("\"U8\"", "[0]", "[9223372036854775807,9223372036854775807]"), 0),
       "out of range"},
      {"offset out of range", file_text(entry("\"F32\"", "[2]", "[800,808]"), 8), "overlap or leave a gap"},
      {"data cut off", file_text(good, 7), "truncated"},
      {"bytes left over", file_text(good, 9), "1 bytes follow"},
      {"overlap", file_text(two("[0,4]", "[2,6]"), 6), "overlap or leave a gap"},
      {"same place", file_text(two("[0,4]", "[0,4]"), 4), "overlap or leave a gap"},
      {"gap", file_text(two("[0,4]", "[5,9]"), 9), "overlap or leave a gap"},
      {"metadata is a list", file_text(R"({"__metadata__":[1]})", 0), "not an object"},
      {"metadata holds a number", file_text(R"({"__metadata__":{"a":1}})", 0), "not a text"},
  };
  const TemporaryFolder folder;
  ASSERT_NO_THROW(read(folder, file_text(good, 8)));
  for (const Hostile& file : files) {
    SCOPED_TRACE(file.name);
    const std::string message = message_of<Failure>([&] { read(folder, file.contents); });
    EXPECT_TRUE(contains(message, file.message));
    EXPECT_TRUE(contains(message, "x.safetensors"));
    EXPECT_LT(message.size(), 400U);
  }
}

// Any one byte of the header set to any of a few values gives a header or a Failure, nothing else.
TEST(Safetensors, SurvivesDamageEverywhere) {
  const TemporaryFolder folder;
  const SafetensorsHeader made = make_safetensors_header({{"a", DType::f32, {2}}, {"b", DType::u8, {3}}}, {{"k", "v"}});
  const std::string whole = made.bytes + std::string(11, 'd');
  int refused = 0;
  for (size_t i = 0; i < made.bytes.size(); ++i)
    for (const char value : {'\0', '\xff', '"', '{', '9'}) {
      std::string damaged = whole;
      damaged[i] = value;
      try {
        read(folder, damaged);
      } catch (const Failure&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace trireme
