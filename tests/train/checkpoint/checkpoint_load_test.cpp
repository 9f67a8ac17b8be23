#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "train/checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

using CheckpointLoad = CheckpointTest;

TEST_F(CheckpointLoad, GivesBackWhatWasSaved) {
  const CheckpointInfo info{.step = 100,
                            .consumed_samples = 25600,
                            .validation_loss = 3.0625,
                            .commit = "abc123",
                            .settings = "model:\n  name: \"gpt \u00e9\"\n",
                            .state = {{"scale", 0.1}, {"list", {1, 2, 3}}, {"nothing", nullptr}}};
  for (HeldSlice& slice : model) slice.fill(100);
  CheckpointWriter writer(folder.path(), tensors_of(model), {});
  writer.snapshot(info);
  writer.wait();

  const NewestCheckpoint newest = load();
  ASSERT_TRUE(newest.checkpoint);
  const CheckpointInfo& got = newest.checkpoint->manifest.info;
  EXPECT_EQ(got.step, info.step);
  EXPECT_EQ(got.consumed_samples, info.consumed_samples);
  EXPECT_EQ(got.validation_loss, info.validation_loss);
  EXPECT_EQ(got.commit, info.commit);
  EXPECT_EQ(got.settings, info.settings);
  EXPECT_EQ(got.state, info.state);
  const std::string& created = newest.checkpoint->manifest.created;
  EXPECT_EQ(created.size(), std::string("2026-01-31T12:00:00Z").size());
  EXPECT_TRUE(created.starts_with("20") && created.ends_with("Z")) << created;
  EXPECT_TRUE(newest.skipped.empty());
}

TEST_F(CheckpointLoad, EveryDtypeKeepsItsBits) {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<CheckpointTensor> tensors;
  uint8_t next = 0;
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64, DType::i32, DType::i64}) {
    std::vector<uint8_t>& bytes = memory.emplace_back(5 * size_of(dtype));
    for (uint8_t& byte : bytes) byte = next++;
    tensors.push_back({name_of(dtype), TensorSlice::whole({5}), {bytes.data(), dtype, {5}, Device::host}});
  }
  const auto saved = memory;
  CheckpointWriter writer(folder.path(), tensors, {});
  writer.snapshot({.step = 1});
  writer.wait();
  for (auto& bytes : memory) std::ranges::fill(bytes, uint8_t{0xEE});
  load_checkpoint(open_checkpoint(folder / "step-00000001"), tensors);
  EXPECT_EQ(memory, saved);
}

// How several ranks save: each its own shard, then one of them the manifest.
void save_ranks(const std::filesystem::path& folder, const std::vector<std::vector<HeldSlice>>& ranks, int64_t step) {
  const std::filesystem::path temporary = folder / (checkpoint_name(step) + kWritingSuffix);
  remove_tree(temporary);
  create_folders(temporary);
  CheckpointManifest manifest;
  manifest.info.step = step;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const ShardLayout layout = lay_out_shard(tensors_of(ranks[rank]));
    std::vector<std::byte> image(layout.bytes);
    std::ranges::copy(bytes_of(layout.header), image.begin());
    for (const auto& entry : layout.entries) std::memcpy(image.data() + entry.begin, entry.tensor.data, entry.tensor.bytes());
    manifest.shards.push_back(write_shard(temporary, narrow<int64_t>(rank), layout, image));
  }
  commit_checkpoint(temporary, folder / checkpoint_name(step), manifest);
}

// Layouts of one [12,10] tensor over ranks, as the parallel ways to train cut it.
std::vector<std::vector<HeldSlice>> layout(const std::string& kind) {
  const Shape global{12, 10};
  const TensorSlice whole = TensorSlice::whole(global);
  const auto rectangle = [&](const Shape& offset, const Shape& extent) { return TensorSlice::rectangle(global, offset, extent); };
  std::vector<std::vector<TensorSlice>> ranks;
  if (kind == "whole") ranks = {{whole}};
  if (kind == "rows") ranks = {{rectangle({0, 0}, {5, 10})}, {rectangle({5, 0}, {7, 10})}};
  if (kind == "columns") ranks = {{rectangle({0, 0}, {12, 3})}, {rectangle({0, 3}, {12, 7})}};
  if (kind == "blocks")
    ranks = {{rectangle({0, 0}, {6, 5}), rectangle({6, 5}, {6, 5})}, {rectangle({6, 0}, {6, 5}), rectangle({0, 5}, {6, 5})}};
  if (kind == "flat") ranks = {{whole.part(0, 37)}, {whole.part(37, 40)}, {whole.part(77, 43)}};
  if (kind == "columns, then flat")
    ranks = {{rectangle({0, 0}, {12, 4}).part(0, 25), rectangle({0, 4}, {12, 6}).part(13, 59)},
             {rectangle({0, 0}, {12, 4}).part(25, 23), rectangle({0, 4}, {12, 6}).part(0, 13)}};
  if (kind == "replicas") ranks = {{whole}, {whole}, {rectangle({2, 2}, {3, 3})}};
  std::vector<std::vector<HeldSlice>> held(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const TensorSlice& slice : ranks[rank]) held[rank].emplace_back("w", slice);
  return held;
}

TEST_F(CheckpointLoad, AnyLayoutFromAnyLayout) {
  const std::vector<std::string> kinds = {"whole", "rows", "columns", "blocks", "flat", "columns, then flat", "replicas"};
  for (const std::string& from : kinds) {
    constexpr int64_t kStep = 7;
    auto saved = layout(from);
    for (auto& rank : saved)
      for (HeldSlice& slice : rank) slice.fill(kStep);
    save_ranks(folder.path(), saved, kStep);
    const StoredCheckpoint checkpoint = open_checkpoint(folder / checkpoint_name(kStep));
    for (const std::string& to : kinds) {
      SCOPED_TRACE(from + " -> " + to);
      auto wanted = layout(to);
      for (auto& rank : wanted) {
        load_checkpoint(checkpoint, tensors_of(rank));
        for (HeldSlice& slice : rank) EXPECT_EQ(slice.values(), slice.expected(kStep));
      }
    }
  }
}

TEST_F(CheckpointLoad, NamesWhatIsMissing) {
  auto half = layout("rows");
  half.pop_back();
  save_ranks(folder.path(), half, 5);
  const StoredCheckpoint checkpoint = open_checkpoint(folder / checkpoint_name(5));
  const auto message = [&](const CheckpointTensor& wanted) {
    return message_of<CheckpointMismatch>([&] { load_checkpoint(checkpoint, std::vector{wanted}); });
  };
  EXPECT_TRUE(contains(message(HeldSlice("other", TensorSlice::whole({2}))), "step-00000005: there is no tensor other"));
  EXPECT_TRUE(contains(message(HeldSlice("w", TensorSlice::whole({12, 10}))),
                       "tensor w lacks 70 of the 120 elements of [0:12,0:10] of [12,10], the first of them number 50"));
  EXPECT_TRUE(contains(message(HeldSlice("w", TensorSlice::whole({12, 11}))),
                       "tensor w is f32 [12,10] there, and f32 [12,11] is wanted"));
  CheckpointTensor as_integers = HeldSlice("w", TensorSlice::whole({12, 10}));
  as_integers.tensor.dtype = DType::i32;
  EXPECT_TRUE(contains(message(as_integers), "and i32 [12,10] is wanted"));
}

TEST_F(CheckpointLoad, ConvertsBetweenF32AndBf16) {
  std::vector<float> wide = {1.0f, -2.5f, 3.14159265f, 1e-30f, 65536.5f};
  std::vector<bf16> narrow_values(wide.size());
  const Tensor f32{wide.data(), DType::f32, {5}, Device::host}, bf{narrow_values.data(), DType::bf16, {5}, Device::host};
  const auto named = [](const Tensor& tensor) { return std::vector<CheckpointTensor>{{"x", TensorSlice::whole({5}), tensor}}; };
  const auto save_and_load = [&](int64_t step, const Tensor& from, const Tensor& to) {
    CheckpointWriter writer(folder.path(), named(from), {});
    writer.snapshot({.step = step});
    writer.wait();
    load_checkpoint(open_checkpoint(folder / checkpoint_name(step)), named(to));
  };
  save_and_load(1, f32, bf);
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow_values[i].bits, to_bf16(wide[i]).bits);
  save_and_load(2, bf, f32);
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(wide[i], to_float(narrow_values[i]));
}

// A request that does not fit is not damage: no older checkpoint is tried.
TEST_F(CheckpointLoad, MismatchDoesNotFallBack) {
  save(1);
  save(2);
  model.emplace_back("new.weight", TensorSlice::whole({3}));
  EXPECT_TRUE(contains(message_of<CheckpointMismatch>([&] { load(); }), "step-00000002: there is no tensor new.weight"));
}

TEST_F(CheckpointLoad, NothingThereIsNotAFailure) {
  EXPECT_FALSE(load().checkpoint);
  EXPECT_FALSE(find_latest(folder / "no-such-folder").checkpoint);
}

TEST_F(CheckpointLoad, TensorsLargerThanTheBuffer) {
  const Shape global{1025, 1031};  // 4 MiB and a bit, and cut so that runs cross the pieces in which it is read
  std::vector<HeldSlice> saved = {{"big", TensorSlice::whole(global)}};
  for (size_t i = 0; i < saved[0].values().size(); ++i) saved[0].values()[i] = static_cast<float>(i);
  save_ranks(folder.path(), {saved}, 1);
  HeldSlice wanted("big", TensorSlice::rectangle(global, {1, 2}, {1024, 1029}).part(5, 1'000'000));
  load_checkpoint(open_checkpoint(folder / checkpoint_name(1)), std::vector<CheckpointTensor>{wanted});
  for (int64_t i = 0; i < 1'000'000; ++i) {
    const int64_t number = i + 5, row = 1 + number / 1029, column = 2 + number % 1029;
    ASSERT_EQ(wanted.values()[i], static_cast<float>(row * 1031 + column));
  }
}

}  // namespace
}  // namespace trireme
