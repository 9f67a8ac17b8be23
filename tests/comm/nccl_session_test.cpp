// What is said when NCCL fails or another rank does not come. NCCL is loaded, and asked nothing that needs a GPU.
#include "comm/nccl_session.h"

#include <gtest/gtest.h>

#include "comm/local_transport.h"
#include "support/fake_device.h"
#include "support/nccl_stand_in.h"
#include "support/skip.h"

namespace trireme {
namespace {

class NcclSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      session_ = std::make_unique<NcclSession>(device_, device_, progress_);
    } catch (const UserError& error) {
      SKIP_FOR(gpu) << error.what();
    }
  }
  template <class Do>
  std::string failure_of(const Do& act) {
    try {
      act();
    } catch (const Failure& failure) {
      return failure.what();
    }
    ADD_FAILURE() << "nothing failed";
    return "";
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  std::vector<std::unique_ptr<LocalTransport>> transports_ = LocalTransport::connect(2);
  Progress progress_{{.timeout = std::chrono::seconds(1)}};
  FakeDevice device_;
  HostGroup group_{GroupKind::dp, {0, 1}, *transports_[0], progress_};
  std::unique_ptr<NcclSession> session_;
};

TEST_F(NcclSessionTest, AFailedCallIsNamedWithTheLibrary) {
  const auto invalid_usage = static_cast<NcclResult>(5);
  const std::string line = failure_of([&] { session_->check(invalid_usage, nullptr, [] { return "all_reduce in group tp"; }); });
  expect_in("all_reduce in group tp: invalid usage", line);
  expect_in(session_->library().name() + ", network none yet, no net plugin", line);
}

TEST_F(NcclSessionTest, AWaitThatIsTooLongNamesTheCallUnderWay) {
  // The data parallel stream waits for something on the tensor parallel one that comes only at the end.
  Event later = device_.record(kTensorParallel, "later");
  later.ticket += 1;
  device_.wait(kDataParallel, later);
  const Tensor values{nullptr, DType::f32, {4}, Device::cuda};
  session_->add({Call::Kind::all_reduce, nullptr, {}, kDataParallel, values, values}, group_);
  const Event awaited = device_.record(kDataParallel, "gradients_reduced");
  ASSERT_TRUE(device_.watch());
  EXPECT_NO_THROW(device_.watch()(awaited, 0.5));
  const std::string line = failure_of([&] { device_.watch()(awaited, 1.5); });
  expect_in("waited 1 s for \"gradients_reduced\"; under way: all_reduce of [4] f32 in group dp (ranks 0, 1); NCCL ", line);
  device_.wait(kTensorParallel, {});
  device_.synchronize(awaited);
}

// A job that has ended elsewhere ends here too, while the device still waits.
TEST_F(NcclSessionTest, AFailureElsewhereEndsTheWait) {
  progress_.fail(std::make_exception_ptr(Failure("rank 1 died")));
  EXPECT_EQ(failure_of([&] { device_.watch()(device_.record(kCompute, "scalars_read"), 0); }), "rank 1 died");
}

}  // namespace
}  // namespace trireme
