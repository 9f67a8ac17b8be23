// Where parameters lie: buckets of the asked size, whole or shared out.
#include <gtest/gtest.h>

#include "model/weights.h"
#include "support/engine_fixture.h"

namespace trireme {
namespace {

// Blocks of 3.1 million parameters, 12 MiB of gradients.
ModelSettings wide_model() {
  ModelSettings model = small_model();
  model.num_layers = 3;
  model.hidden_size = 512;
  model.ffn_hidden_size = 2048;
  return model;
}

// Rows of the table in order, each in one bucket, each bucket cut into equal pieces.
void expect_sound(const FlatLayout& layout) {
  size_t row = 0;
  int64_t at = 0, state = 0;
  for (const Bucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.first_row, row);
    EXPECT_GT(bucket.end_row, bucket.first_row);
    EXPECT_EQ(bucket.all.begin, at);
    EXPECT_EQ(bucket.own.count * layout.shard.dp_size, bucket.all.count);
    EXPECT_EQ(bucket.state, state);
    row = bucket.end_row, at += bucket.all.count, state += bucket.own.count;
  }
  EXPECT_EQ(row, layout.table.size());
  EXPECT_EQ(at, layout.count);
  EXPECT_EQ(state, layout.state_count);
}

TEST(FlatLayout, OneBucketAUnit) {
  const FlatLayout layout = FlatLayout::of(wide_model(), {.dp_rank = 1, .dp_size = 4});
  expect_sound(layout);
  EXPECT_EQ(layout.buckets.size(), 5u);  // final norm, three blocks, embeddings
  EXPECT_EQ(layout.head.first_bucket, 0u);
  EXPECT_EQ(layout.blocks[2].first_bucket, 1u);
  EXPECT_EQ(layout.blocks[0].end_bucket, 4u);
  EXPECT_EQ(layout.embedding.end_bucket, 5u);
}

TEST(FlatLayout, BucketsHaveAtMostTheAskedSize) {
  for (const int64_t cap : {1, 3, 5, 20, 220}) {
    ModelSettings model = wide_model();
    model.optim.bucket_cap_mb = cap;
    const FlatLayout layout = FlatLayout::of(model, {.dp_rank = 1, .dp_size = 2});
    expect_sound(layout);
    for (const Bucket& bucket : layout.buckets)
      EXPECT_TRUE(bucket.all.count * 4 <= (cap << 20) + 4096 || bucket.end_row == bucket.first_row + 1) << "cap " << cap;
    if (cap == 220) {
      EXPECT_EQ(layout.buckets.size(), 1u) << "all of it fits in one";
    }
    if (cap == 3) {
      EXPECT_GT(layout.blocks[0].end_bucket - layout.blocks[0].first_bucket, 1u) << "a block is cut";
    }
  }
}

}  // namespace
}  // namespace trireme
