// A checkpoint of any layout is loaded in any other: the next losses are those of the run that saved it, on the same layout to
// the last bit.
#include <gtest/gtest.h>

#include "train/reshard_fixture.h"

namespace trireme {
namespace {

constexpr NamedShape kShapes[] = {{"one", {}},
                                  {"tp2", {.tp = 2}},
                                  {"tp4_sp", {.tp = 4}},
                                  {"pp2_vp2", {.pp = 2}},
                                  {"pp4", {.pp = 4}},
                                  {"dp2_plain", {.dp = 2}},
                                  {"dp4_fsdp", {.dp = 4}},
                                  {"cp2_dp2", {.cp = 2, .dp = 2}},
                                  {"tp2_dp2_fsdp", {.tp = 2, .dp = 2}},
                                  {"tp2_dp2_pp2", {.tp = 2, .dp = 2, .pp = 2}}};

class Reshard : public testing::TestWithParam<NamedShape> {};
INSTANTIATE_TEST_SUITE_P(From, Reshard, testing::ValuesIn(kShapes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Reshard, ToEveryLayout) {
  const TemporaryFolder folder;
  const std::vector<double> saved = train_save_train(GetParam().shape, folder.path());
  for (const NamedShape& to : kShapes) {
    SCOPED_TRACE(to.name);
    const std::vector<double> loaded = load_train(to.shape, folder.path());
    if (std::string(to.name) == GetParam().name) {
      EXPECT_EQ(loaded, saved);
      continue;
    }
    // The masters are the same bits. Activations are bf16, and sums of another layout round some of them the other way, by 2^-9
    // of each. Over all targets most of that cancels out, so 2^-9 of the loss is ample.
    for (size_t step = 0; step < saved.size(); ++step) EXPECT_NEAR(loaded[step], saved[step], 2e-3 * saved[step]);
  }
}

}  // namespace
}  // namespace trireme
