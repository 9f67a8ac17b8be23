// Every kind of damage to the newest checkpoint is noticed, said, and survived by falling back to the one before.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "train/checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

class CheckpointDamage : public CheckpointTest {
 protected:
  CheckpointDamage() {
    save(100);
    save(200);
  }

  static std::string contents(const std::filesystem::path& file) { return read_file(file, 1 << 20); }
  static void replace(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::remove(file);  // file systems sync a file that is emptied and written again, which is slow
    File::create(file).write(text);
  }
  static std::string with_flipped_bit(std::string text, size_t byte) {
    text.at(byte) = static_cast<char>(text[byte] ^ 4);
    return text;
  }

  // Loads, expects that step 100 came, and gives the line about step 200.
  std::string fallback_line() {
    const NewestCheckpoint newest = load();
    EXPECT_EQ(newest.checkpoint->manifest.info.step, 100);
    EXPECT_EQ(newest.skipped.size(), 1U);
    return newest.skipped.empty() ? "" : newest.skipped[0];
  }
};

TEST_F(CheckpointDamage, NoneIsTheNewest) {
  EXPECT_EQ(loaded_step(), 200);
  EXPECT_TRUE(load().skipped.empty());
}

TEST_F(CheckpointDamage, TruncatedShard) {
  const auto size = std::filesystem::file_size(shard_of(200));
  std::filesystem::resize_file(shard_of(200), size - 1);
  const std::string line = fmt::format(
      "step-00000200: shard rank-00000.safetensors is truncated ({} of {} bytes); using step-00000100", size - 1, size);
  EXPECT_EQ(find_latest(folder.path()).skipped, Names({line}));
  EXPECT_EQ(fallback_line(), line);
}

TEST_F(CheckpointDamage, ShardTooLong) {
  File::open_append(shard_of(200)).write("more");
  EXPECT_TRUE(contains(fallback_line(), "were expected; using step-00000100"));
}

TEST_F(CheckpointDamage, MissingShard) {
  std::filesystem::remove(shard_of(200));
  EXPECT_TRUE(contains(fallback_line(), "step-00000200: shard rank-00000.safetensors cannot be read: No such file"));
}

TEST_F(CheckpointDamage, GarbageShardOfTheRightSize) {
  replace(shard_of(200), std::string(std::filesystem::file_size(shard_of(200)), '\xAA'));
  EXPECT_TRUE(contains(fallback_line(), "rank-00000.safetensors: a header of"));
}

// Wherever a single bit of the shard turns, header or data, loading notices.
TEST_F(CheckpointDamage, FlippedBitAnywhereInTheShard) {
  const std::string whole = contents(shard_of(200));
  for (size_t byte = 0; byte < whole.size(); byte += 7) {
    SCOPED_TRACE(byte);
    replace(shard_of(200), with_flipped_bit(whole, byte));
    EXPECT_TRUE(contains(fallback_line(), "rank-00000.safetensors"));
  }
  replace(shard_of(200), with_flipped_bit(whole, whole.size() - 1));
  EXPECT_TRUE(contains(fallback_line(), "is damaged: tensor norm.bias, bytes"));
}

// The shard of another checkpoint has the right size and form, and is still not the one.
TEST_F(CheckpointDamage, ShardOfAnotherStep) {
  std::filesystem::copy_file(shard_of(100), shard_of(200), std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(fallback_line(), "is damaged: tensor"));
}

// A bit that turns in the manifest is noticed, or it was in the space between things and changes nothing.
TEST_F(CheckpointDamage, FlippedBitAnywhereInTheManifest) {
  const std::string whole = contents(manifest_of(200));
  for (size_t byte = 0; byte < whole.size(); byte += 3) {
    if (whole[byte] == ' ' || whole[byte] == '\n') continue;
    SCOPED_TRACE(byte);
    replace(manifest_of(200), with_flipped_bit(whole, byte));
    EXPECT_TRUE(contains(fallback_line(), "step-00000200: manifest.json"));
  }
}

TEST_F(CheckpointDamage, MissingEmptyAndGarbageManifest) {
  std::filesystem::remove(manifest_of(200));
  EXPECT_TRUE(contains(fallback_line(), "manifest.json: No such file"));
  for (const std::string text : {"", "garbage", "[]", "{}", "null", R"({"crc32c":"00000000"})", R"({"crc32c":7})"}) {
    SCOPED_TRACE(text);
    replace(manifest_of(200), text);
    EXPECT_TRUE(contains(fallback_line(), "step-00000200: manifest.json"));
  }
  replace(manifest_of(200), std::string(1'000'000, '['));
  EXPECT_TRUE(contains(fallback_line(), "nested deeper"));
}

TEST_F(CheckpointDamage, EmptyFolder) {
  create_folders(folder / "step-00000300");
  const NewestCheckpoint newest = load();
  EXPECT_EQ(newest.checkpoint->manifest.info.step, 200);
  ASSERT_EQ(newest.skipped.size(), 1U);
  EXPECT_TRUE(contains(newest.skipped[0], "step-00000300: "));
}

TEST_F(CheckpointDamage, EverythingDamagedIsAFailureThatNamesAll) {
  const std::string older = contents(shard_of(100));
  replace(shard_of(100), with_flipped_bit(older, older.size() - 1));
  std::filesystem::remove(manifest_of(200));
  const std::string message = message_of<Failure>([&] { load(); });
  for (const char* part : {"no checkpoint in", "step-00000200: ", "step-00000100: "}) EXPECT_TRUE(contains(message, part));
}

// A manifest with a right checksum but wrong contents, as a newer or a hostile program writes it.
class CheckpointManifestText : public CheckpointDamage {
 protected:
  // Changes the JSON of step 200's manifest and gives it the checksum that goes with it.
  template <class Edit>
  void edit(Edit&& change) {
    nlohmann::json manifest = nlohmann::json::parse(original_);
    manifest.erase("crc32c");
    change(manifest);
    manifest["crc32c"] = fmt::format("{:08x}", crc32c(bytes_of(manifest.dump())));
    replace(manifest_of(200), manifest.dump());
  }
  std::string original_ = contents(manifest_of(200));
};

TEST_F(CheckpointManifestText, NewerVersionIsRefused) {
  edit([](auto& manifest) { manifest["format_version"] = 2; });
  const std::string message = message_of<UserError>([&] { load(); });
  EXPECT_TRUE(contains(message, "step-00000200: manifest.json has format version 2, and this binary reads versions up to 1"));
  EXPECT_THROW(find_latest(folder.path()), UserError);
}

TEST_F(CheckpointManifestText, KeysOfLaterMinorChangesAreIgnored) {
  edit([](auto& manifest) { manifest["comment"] = "something new"; });
  EXPECT_EQ(loaded_step(), 200);
}

TEST_F(CheckpointManifestText, HostileContentsAreFailures) {
  const auto tensor = [](auto& manifest) -> nlohmann::json& { return manifest["shards"][0]["tensors"][0]; };
  const std::vector<std::function<void(nlohmann::json&)>> edits = {
      [](auto& m) { m["step"] = -1; },
      [](auto& m) { m["step"] = "200"; },
      [](auto& m) { m.erase("settings"); },
      [](auto& m) { m["shards"] = 5; },
      [](auto& m) { m["shards"][0]["file"] = "../step-00000100/rank-00000.safetensors"; },
      [](auto& m) { m["shards"][0]["file"] = "/etc/passwd"; },
      [](auto& m) { m["shards"][0]["file"] = ""; },
      [](auto& m) { m["shards"][0]["bytes"] = 1; },
      [&](auto& m) {
        tensor(m)["shape"] = {1, 1};
      },
      [&](auto& m) {
        tensor(m)["offset"] = {1, 0};
      },
      [&](auto& m) {
        tensor(m)["offset"] = {INT64_MAX, INT64_MAX};
      },
      [&](auto& m) { tensor(m)["extent"] = nlohmann::json::array(); },
      [&](auto& m) {
        tensor(m)["range"] = {60, 7};
      },
      [&](auto& m) {
        tensor(m)["range"] = {1, INT64_MAX};
      },
      [&](auto& m) { tensor(m)["key"] = "norm.bias"; },
      [&](auto& m) { tensor(m)["key"] = "other"; },
      [&](auto& m) { tensor(m)["crc32c"] = "0x123456"; },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    SCOPED_TRACE(i);
    edit(edits[i]);
    EXPECT_TRUE(contains(fallback_line(), "step-00000200: "));
  }
}

}  // namespace
}  // namespace trireme
