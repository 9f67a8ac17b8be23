// Collectives of device memory by way of the host, on a device that works late, and all that a training step does with them.
#include <gtest/gtest.h>

#include <thread>

#include "comm/staged_group.h"
#include "support/fake_device.h"
#include "support/rank_threads.h"
#include "support/staged_layouts.h"

namespace trireme {
namespace {

// Memory of the device with f32 values in it.
class Values {
 public:
  Values(StagedBackend& backend, std::vector<float> values)
      : backend_(backend), memory_(backend.allocate(static_cast<int64_t>(values.size() * sizeof(float)))) {
    tensor = {memory_.block.get(), DType::f32, {static_cast<int64_t>(values.size())}, memory_.device};
    backend_.upload(kCompute, values.data(), tensor);
  }
  // As a computation behind all that the compute stream waits for sees them.
  std::vector<float> read() const {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    backend_.download(kCompute, tensor, values.data());
    backend_.synchronize(backend_.record(kCompute, "read"));
    return values;
  }

  Tensor tensor;

 private:
  StagedBackend& backend_;
  Memory memory_;
};

// Runs `work` on `ranks` threads that each have a device.
template <class Work>
void on_ranks(int ranks, Work work) {
  on_rank_threads(ranks, [&](int rank, const std::vector<int>& members, Transport& transport, Progress& progress) {
    FakeDevice device(static_cast<uint64_t>(rank));
    StagedBackend backend(device, device, progress);
    StagedGroup group(GroupKind::tp, members, transport, backend);
    work(group, backend);
    group.barrier(kCompute);
  });
}

float value(int rank, size_t i) { return static_cast<float>((rank + 1) * 1000 + static_cast<int>(i)); }

std::vector<float> values_of(int rank, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(value(rank, i));
  return values;
}

std::vector<float> sums_of(int ranks, size_t count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < count; ++i) sums[i] += value(rank, i);
  return sums;
}

void compute_waits_for(StagedBackend& backend, Stream stream) { backend.wait(kCompute, backend.record(stream, "result")); }
void waits_for_compute(StagedBackend& backend, Stream stream) { backend.wait(stream, backend.record(kCompute, "operand")); }

class Staged : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Staged, testing::Values(2, 3));

TEST_P(Staged, AllReduceOnAStreamOfItsOwnAndOnTheComputeStream) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, StagedBackend& backend) {
    for (const size_t count : {1, 7, 1000}) {
      Values beside(backend, values_of(group.rank(), count)), inside(backend, values_of(group.rank(), count));
      waits_for_compute(backend, kTensorParallel);
      group.all_reduce(kTensorParallel, beside.tensor, Reduce::sum);
      group.all_reduce(kCompute, inside.tensor, Reduce::max);
      compute_waits_for(backend, kTensorParallel);
      EXPECT_EQ(beside.read(), sums_of(ranks, count));
      EXPECT_EQ(inside.read(), values_of(ranks - 1, count));
    }
  });
}

// Each call of the stream reads what the one before it has written, which the host does not wait for in between.
TEST_P(Staged, CallsOfOneStreamFollowEachOther) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, StagedBackend& backend) {
    constexpr size_t kPiece = 13;
    const auto count = kPiece * static_cast<size_t>(ranks);
    Values values(backend, values_of(group.rank(), count));
    const Tensor own = values.tensor.rows(group.rank() * static_cast<int64_t>(kPiece), kPiece);
    waits_for_compute(backend, kDataParallel);
    group.reduce_scatter(kDataParallel, values.tensor, own, Reduce::sum);
    group.all_gather(kDataParallel, own, values.tensor);
    compute_waits_for(backend, kDataParallel);
    EXPECT_EQ(values.read(), sums_of(ranks, count));
  });
}

TEST_P(Staged, PiecesNeedNotLieInTheWhole) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, StagedBackend& backend) {
    constexpr size_t kPiece = 5;
    const auto count = kPiece * static_cast<size_t>(ranks);
    Values whole(backend, values_of(group.rank(), count)), own(backend, std::vector<float>(kPiece));
    Values gathered(backend, std::vector<float>(count));
    waits_for_compute(backend, kTensorParallel);
    group.reduce_scatter(kTensorParallel, whole.tensor, own.tensor, Reduce::sum);
    group.all_gather(kTensorParallel, own.tensor, gathered.tensor);
    compute_waits_for(backend, kTensorParallel);
    EXPECT_EQ(gathered.read(), sums_of(ranks, count));
    EXPECT_EQ(whole.read(), values_of(group.rank(), count)) << "what is only read was written";
  });
}

TEST_P(Staged, BroadcastFromEveryRoot) {
  on_ranks(GetParam(), [&](Communicator& group, StagedBackend& backend) {
    for (int root = 0; root < group.size(); ++root) {
      Values values(backend, values_of(group.rank(), 5));
      waits_for_compute(backend, kDataParallel);
      group.broadcast(kDataParallel, values.tensor, root);
      compute_waits_for(backend, kDataParallel);
      EXPECT_EQ(values.read(), values_of(root, 5));
    }
  });
}

// Both send before either receives, more often than there are buffers between them.
TEST(StagedMessages, ManyAreUnderWayAtOnce) {
  on_ranks(2, [&](Communicator& group, StagedBackend& backend) {
    const int other = 1 - group.rank();
    constexpr size_t kMessages = 20;
    std::vector<std::unique_ptr<Values>> sent, received;
    for (size_t i = 0; i < kMessages; ++i) {
      sent.push_back(std::make_unique<Values>(backend, values_of(group.rank(), i + 1)));
      received.push_back(std::make_unique<Values>(backend, std::vector<float>(i + 1)));
    }
    waits_for_compute(backend, kSendForward);
    waits_for_compute(backend, kReceiveForward);
    for (const auto& message : sent) group.send(kSendForward, message->tensor, other);
    for (const auto& message : received) group.receive(kReceiveForward, message->tensor, other);
    compute_waits_for(backend, kReceiveForward);
    for (size_t i = 0; i < kMessages; ++i) EXPECT_EQ(received[i]->read(), values_of(other, i + 1));
    compute_waits_for(backend, kSendForward);
  });
}

TEST(StagedMessages, AreExchangedTogether) {
  on_ranks(2, [&](Communicator& group, StagedBackend& backend) {
    const int other = 1 - group.rank();
    Values forward(backend, values_of(group.rank(), 9)), backward(backend, values_of(group.rank() + 10, 4));
    Values from_before(backend, std::vector<float>(9)), from_behind(backend, std::vector<float>(4));
    waits_for_compute(backend, kSendForward);
    const Message messages[] = {{Message::Way::send, forward.tensor, other, Channel::forward},
                                {Message::Way::receive, from_before.tensor, other, Channel::forward},
                                {Message::Way::send, backward.tensor, other, Channel::backward},
                                {Message::Way::receive, from_behind.tensor, other, Channel::backward}};
    group.exchange(kSendForward, messages);
    compute_waits_for(backend, kSendForward);
    EXPECT_EQ(from_before.read(), values_of(other, 9));
    EXPECT_EQ(from_behind.read(), values_of(other + 10, 4));
  });
}

TEST(StagedTimeout, NamesWhatIsUnderWay) {
  auto transports = LocalTransport::connect(2);
  auto progress = std::make_unique<Progress>(Progress::Options{.timeout = std::chrono::seconds(1)});
  FakeDevice device;
  StagedBackend backend(device, device, *progress);
  StagedGroup group(GroupKind::dp, {0, 1}, *transports[0], backend);
  Values values(backend, std::vector<float>(4));
  waits_for_compute(backend, kDataParallel);
  group.all_reduce(kDataParallel, values.tensor, Reduce::sum);  // nobody else comes
  try {
    backend.wait(kCompute, backend.record(kDataParallel, "gradients_reduced"));
    FAIL() << "nobody waited";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "waited 1 s for \"gradients_reduced\"; under way: all_reduce of [4] f32 in group dp (ranks 0, 1)");
  }
  progress.reset();  // before the group, which it still asks
}

// Whole steps: the ops, the order of everything and the sums are those of host memory, so that the results are too, to the bit.
class StagedTraining : public testing::TestWithParam<Layout> {};
std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts = staged_layouts(Precision::f32);
  std::erase_if(layouts, [&](const Layout& layout) { return layout.shape.size() != ranks; });
  return layouts;
}
std::string name_of(const testing::TestParamInfo<Layout>& test) { return test.param.name; }
INSTANTIATE_TEST_SUITE_P(Layouts, StagedTraining, testing::ValuesIn(layouts_of(2)), name_of);
INSTANTIATE_TEST_SUITE_P(Slow, StagedTraining, testing::ValuesIn(layouts_of(4)), name_of);

TEST_P(StagedTraining, HasTheBitsOfHostMemory) {
  const Layout& layout = GetParam();
  constexpr int kSteps = 2;
  const std::vector<RankRun> host = train(layout, kSteps);
  const std::vector<RankRun> staged =
      train_staged(layout, kSteps, [](int rank) { return std::make_unique<FakeDevice>(static_cast<uint64_t>(rank)); });
  for (size_t rank = 0; rank < host.size(); ++rank) {
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(staged[rank].results[step].loss, host[rank].results[step].loss) << "step " << step;
      EXPECT_EQ(staged[rank].results[step].grad_norm, host[rank].results[step].grad_norm) << "step " << step;
    }
    EXPECT_EQ(staged[rank].evaluated, host[rank].evaluated);
    expect_as_planned(staged[rank]);
  }
}

}  // namespace
}  // namespace trireme
