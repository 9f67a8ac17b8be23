// Every collective through NCCL with one rank, which is where several GPUs are not: that each is the call it should be, on the
// stream it should be on. Runs where a GPU and NCCL are.
#include <gtest/gtest.h>

#include "comm/local_transport.h"
#include "comm/nccl_group.h"
#include "support/gpu.h"
#include "support/skip.h"

namespace trireme {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    try {
      NcclLibrary::load();
    } catch (const UserError& error) {
      SKIP_FOR(gpu) << error.what();
    }
    backend_ = make_cuda_backend();
    session_ = std::make_unique<NcclSession>(*backend_, *backend_->device_streams(), progress_);
    group_ = std::make_unique<NcclGroup>(GroupKind::tp, std::vector<int>{0}, kNcclStages, *transports_[0], progress_, *session_);
  }

  Tensor upload(const std::vector<float>& values) {
    memory_.push_back(backend_->allocate(static_cast<int64_t>(values.size() * sizeof(float))));
    const Tensor tensor{memory_.back().block.get(), DType::f32, {std::ssize(values)}, Device::cuda};
    backend_->upload(kCompute, values.data(), tensor);
    return tensor;
  }
  // What a computation behind `stream` sees.
  std::vector<float> read(Stream stream, const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    backend_->wait(kCompute, backend_->record(stream, "called"));
    backend_->download(kCompute, tensor, values.data());
    backend_->synchronize(backend_->record(kCompute, "read"));
    return values;
  }
  void behind_compute(Stream stream) { backend_->wait(stream, backend_->record(kCompute, "written")); }

  std::vector<std::unique_ptr<LocalTransport>> transports_ = LocalTransport::connect(1);
  Progress progress_{{.timeout = std::chrono::seconds(30)}};
  std::unique_ptr<Backend> backend_;
  std::vector<Memory> memory_;
  std::unique_ptr<NcclSession> session_;
  std::unique_ptr<NcclGroup> group_;
};

const std::vector<float> kValues = {1, 2, 3, 5, 8, 13};

TEST_F(Nccl, CollectivesOfOneRankGiveWhatItHas) {
  const Tensor sum = upload(kValues), largest = upload(kValues), sent = upload(kValues);
  const Tensor scattered = upload(std::vector<float>(6)), gathered = upload(std::vector<float>(6));
  behind_compute(kTensorParallel);
  behind_compute(kDataParallel);
  group_->all_reduce(kTensorParallel, sum, Reduce::sum);
  group_->all_reduce(kCompute, largest, Reduce::max);
  group_->reduce_scatter(kDataParallel, sum, scattered, Reduce::sum);
  group_->all_gather(kDataParallel, sent, gathered);
  group_->broadcast(kTensorParallel, sent, 0);
  group_->barrier(kDataParallel);
  for (const Tensor& result : {sum, sent}) EXPECT_EQ(read(kTensorParallel, result), kValues);
  for (const Tensor& result : {largest, scattered, gathered}) EXPECT_EQ(read(kDataParallel, result), kValues);
}

TEST_F(Nccl, EveryTypeThatIsSummedIs) {
  memory_.push_back(backend_->allocate(1024));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64}) {
    const Tensor zeros{memory_.back().block.get(), dtype, {7}, Device::cuda};
    EXPECT_NO_THROW(group_->all_reduce(kCompute, zeros, Reduce::sum)) << name_of(dtype);
    EXPECT_NO_THROW(group_->all_reduce(kCompute, zeros, Reduce::max)) << name_of(dtype);
  }
  session_->synchronize(kCompute, "summed");
}

TEST_F(Nccl, MessagesToItselfAreExchangedByChannel) {
  const Tensor forward = upload(kValues), backward = upload({21, 34});
  const Tensor from_before = upload(std::vector<float>(6)), from_behind = upload(std::vector<float>(2));
  behind_compute(kSendForward);
  const Message messages[] = {{Message::Way::receive, from_behind, 0, Channel::backward},
                              {Message::Way::send, forward, 0, Channel::forward},
                              {Message::Way::send, backward, 0, Channel::backward},
                              {Message::Way::receive, from_before, 0, Channel::forward}};
  group_->exchange(kSendForward, messages);
  EXPECT_EQ(read(kSendForward, from_before), kValues);
  EXPECT_EQ(read(kSendForward, from_behind), (std::vector<float>{21, 34}));
}

TEST_F(Nccl, DescriptionNamesLibraryAndNetwork) {
  const std::string text = session_->description();
  EXPECT_NE(text.find(session_->library().name()), std::string::npos) << text;
  EXPECT_NE(text.find("network "), std::string::npos) << text;
  EXPECT_EQ(text.find("none yet"), std::string::npos) << text;
  std::printf("%s\n", text.c_str());
}

}  // namespace
}  // namespace trireme
