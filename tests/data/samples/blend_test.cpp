// Blends of datasets. Numbers were made with Megatron core's own helpers and numpy.
#include "data/samples/blend.h"

#include <gtest/gtest.h>

#include "data/dataset_fixture.h"
#include "data/expect_user_error.h"

namespace trireme {
namespace {

using Int64s = std::vector<int64_t>;
using Doubles = std::vector<double>;
using Texts = std::vector<std::string>;

Int64s datasets_of(const BlendIndex& index) {
  Int64s numbers;
  for (int64_t i = 0; i < index.samples(); ++i) numbers.push_back(index.dataset(i));
  return numbers;
}

TEST(Blend, ListsWithAndWithoutWeights) {
  const Blend weighted = parse_blend({".3", "a", "0.7", " b "}, "k");
  EXPECT_EQ(weighted.prefixes, (Texts{"a", "b"}));
  EXPECT_EQ(weighted.weights, (Doubles{0.3, 0.7}));
  for (const Texts& list : std::vector<Texts>{{"a"}, {"a", "b"}, {"a", "b", "c"}}) {
    EXPECT_EQ(parse_blend(list, "k").prefixes, list);
    EXPECT_TRUE(parse_blend(list, "k").weights.empty());
  }
}

TEST(Blend, MistakesAreNamed) {
  const auto parse = [](const Texts& list) { return [list] { parse_blend(list, "model.data.data_prefix"); }; };
  expect_user_error(parse({}), {"model.data.data_prefix is empty"});
  expect_user_error(parse({"0.5", "a", "0.5"}), {"model.data.data_prefix has 3 entries", "do not pair up"});
  expect_user_error(parse({"a", "0.5"}), {"entries 0 and 1", "'a' and '0.5'"});
  expect_user_error(parse({"0.5", "a", "b", "c"}), {"entries 2 and 3", "'b' and 'c'"});
  expect_user_error(parse({"0.5", "0.5"}), {"entries 0 and 1"});
  expect_user_error(parse({"-0.5", "a", "1", "b"}), {"weight -0.5 of a"});
  expect_user_error(parse({"0", "a"}), {"weight 0 of a", "leave the dataset out"});
  expect_user_error(parse({"nan", "a"}), {"weight nan of a"});
  expect_user_error(parse({"inf", "a"}), {"weight inf of a"});
}

TEST(Blend, TheDatasetFurthestBehindIsNext) {
  const BlendIndex index = BlendIndex::by_weight({0.3, 0.7}, 12);
  EXPECT_EQ(datasets_of(index), (Int64s{1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(index.taken(), (Int64s{4, 8}));
  EXPECT_EQ(index.dataset_sample(11), 7);
  EXPECT_EQ(datasets_of(BlendIndex::by_weight({0.5, 0.5}, 4)), (Int64s{0, 1, 0, 1}));  // the first of equals
}

TEST(Blend, ExhaustiveBlendsTakeEverything) {
  const BlendIndex index = BlendIndex::exhaustive({1, 5, 2});
  EXPECT_EQ(index.taken(), (Int64s{1, 5, 2}));
  EXPECT_EQ(datasets_of(index), (Int64s{1, 2, 0, 1, 1, 2, 1, 1}));
}

// Thirty weights as the Pile's recipe has them: adding one by one gives a sum that differs in the last bit.
TEST(Blend, WeightsAreAddedUpInNumpysOrder) {
  Doubles weights(29, 0.0333);
  weights.push_back(0.0334);
  const Doubles shares = normalized(weights);
  EXPECT_EQ(shares.front(), 0x1.110a11e288922p-5);
  EXPECT_EQ(shares.back(), 0x1.11dbf95687718p-5);
  Doubles many(300);
  for (size_t i = 0; i < many.size(); ++i) many[i] = 1.0 / static_cast<double>(i + 3);
  EXPECT_EQ(normalized(many).front(), 0x1.1d1480c7c6e76p-4);
}

TEST(Blend, SamplesOfEachDataset) {
  EXPECT_EQ(samples_taken(640, 0.3), 192);
  EXPECT_EQ(samples_made(640, 0.3), 193);
  EXPECT_EQ(samples_made(100, 1.0 / 3), 35);  // 34 taken; 34.17 rounded up
  EXPECT_EQ(samples_made_legacy(100, 1.0 / 3), 34);
  EXPECT_EQ(weights_by_size({100, 300}, 1), (Doubles{0.25, 0.75}));
  EXPECT_EQ(weights_by_size({1, 4, 9}, 0.5), (Doubles{0.166667, 0.333333, 0.5}));
}

TEST(Blend, FilesHoldTheSameIndex) {
  const TemporaryFolder folder;
  const BlendIndex index = BlendIndex::by_weight({0.3, 0.7}, 1000);
  index.save(folder / "d.npy", folder / "s.npy");
  const BlendIndex again = BlendIndex::open(folder / "d.npy", folder / "s.npy", 1000, {300, 700});
  EXPECT_EQ(datasets_of(again), datasets_of(index));
  expect_user_error(
      [&] {
        BlendIndex::open(folder / "d.npy", folder / "s.npy", 1001, {300, 700});
      },
      {"int16[1000]", "int16[1001]"});
  expect_user_error([&] { BlendIndex::open(folder / "d.npy", folder / "s.npy", 1000, {300, 600}); }, {"outside the 2 datasets"});
  expect_user_error([&] { BlendIndex::open(folder / "d.npy", folder / "s.npy", 1000, {1000}); }, {"outside the 1 datasets"});
}

}  // namespace
}  // namespace trireme
