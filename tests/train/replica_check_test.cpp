// Which ranks have other weights than their replicas, by checksums.
#include "train/replica_check.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/layouts.h"

namespace trireme {
namespace {

// TP 2, DP 3, PP 2: ranks 0, 2, 4 are replicas of each other, and 1, 3, 5; then 6, 8, 10 and 7, 9, 11.
constexpr MeshShape kShape{.tp = 2, .cp = 1, .dp = 3, .pp = 2};
const std::vector<uint32_t> kEqual{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4};

TEST(ReplicaCheck, EqualReplicasAreLeftAlone) { EXPECT_TRUE(replica_differences(kShape, kEqual).empty()); }

TEST(ReplicaCheck, TheOneThatDiffersFromMostIsNamed) {
  std::vector<uint32_t> checksums = kEqual;
  checksums[9] = 77;
  const auto found = replica_differences(kShape, checksums);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].is_majority);
  EXPECT_EQ(found[0].ranks, std::vector<int>{9});
  EXPECT_EQ(found[0].replicas, (std::vector<int>{7, 9, 11}));
}

TEST(ReplicaCheck, WithoutAMajorityAllAreNamed) {
  const auto found = replica_differences({.tp = 1, .cp = 2, .dp = 1, .pp = 1}, {5, 6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].is_majority);
  EXPECT_EQ(found[0].ranks, (std::vector<int>{0, 1})) << "context parallel ranks have equal weights too";
}

TEST(ReplicaCheck, OneBitChangesTheChecksum) {
  ModelSettings model;
  model.num_layers = 1;
  model.hidden_size = model.ffn_hidden_size = 32;
  model.num_attention_heads = 4;
  model.encoder_seq_length = model.max_position_embeddings = 16;
  model.vocab_size = 128;
  EngineFixture fixture({.model = model, .precision = Precision::f32}, std::make_unique<CpuBackend>(1));
  const Engine& engine = *fixture;
  const uint32_t before = weights_checksum(engine);
  EXPECT_EQ(weights_checksum(engine), before);
  const Tensor weights = engine.weights().views().flat();
  static_cast<uint8_t*>(weights.data)[weights.bytes() - 1] ^= 1;
  EXPECT_NE(weights_checksum(engine), before);
}

// Of sharded blocks every rank has another piece.
TEST(ReplicaCheck, ShardedRanksHaveEqualChecksums) {
  ModelSettings model = small_gpt3();
  model.fsdp = true, model.num_layers = 3;
  const Layout layout = layout_of("gpt3_dp2_fsdp", model, {.dp = 2});
  std::array<uint32_t, 2> checksums{};
  on_ranks(2, [&](World& world, RankRun&) {
    auto cpu = std::make_unique<CpuBackend>(1);
    cpu->set_streams(world.streams());
    EngineFixture engine({.model = layout.model, .precision = layout.precision, .gradient_clip = 1.0}, std::move(cpu),
                         Mesh::of(layout.shape, world), {layout.shape, world.rank()});
    engine.step(batches_of(layout.model, layout.shape, world.rank(), 0), 1e-2,
                model.global_batch_size * model.encoder_seq_length);
    checksums[static_cast<size_t>(world.rank())] = weights_checksum(*engine);
  });
  EXPECT_EQ(checksums[0], checksums[1]);
  EXPECT_NE(checksums[0], 0U);
}

}  // namespace
}  // namespace trireme
