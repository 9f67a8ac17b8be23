// Every collective through nccl_group.cpp with several ranks: NCCL is stood in for, ranks are threads with a FakeDevice each.
#include "comm/nccl_group.h"

#include <gtest/gtest.h>

#include "support/fake_device.h"
#include "support/nccl_stand_in.h"
#include "support/rank_threads.h"

namespace trireme {
namespace {

// Memory of the device with f32 values in it.
class Values {
 public:
  Values(Backend& backend, std::vector<float> values)
      : backend_(backend), memory_(backend.allocate(static_cast<int64_t>(values.size() * sizeof(float)))) {
    tensor = {memory_.block.get(), DType::f32, {std::ssize(values)}, memory_.device};
    backend_.upload(kCompute, values.data(), tensor);
  }
  // As a computation after all that the compute stream waits for sees them.
  std::vector<float> read() const {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    backend_.download(kCompute, tensor, values.data());
    backend_.synchronize(backend_.record(kCompute, "read"));
    return values;
  }

  Tensor tensor;

 private:
  Backend& backend_;
  Memory memory_;
};

constexpr NcclChannel kAllChannels[] = {
    {Channel::forward, 1}, {Channel::backward, -1}, {Channel::ring, 1}, {Channel::ring_grad, 1}};

template <class Work>
void on_ranks(int ranks, Work work) {
  on_rank_threads(ranks, [&](int rank, const std::vector<int>& members, Transport& transport, Progress& progress) {
    FakeDevice device(static_cast<uint64_t>(rank));
    NcclSession session(device, device, progress);
    NcclGroup group(GroupKind::tp, members, kAllChannels, transport, progress, session);
    work(group, device);
    group.barrier(kCompute);
    session.synchronize(kCompute, "done");
  });
}

float value(int rank, size_t i) { return static_cast<float>((rank + 1) * 1000 + static_cast<int>(i % 97)); }

std::vector<float> values_of(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(rank, i);
  return values;
}

std::vector<float> sums_of(int ranks, size_t count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < count; ++i) sums[i] += value(rank, i);
  return sums;
}

void compute_waits_for(Backend& backend, Stream stream) { backend.wait(kCompute, backend.record(stream, "result")); }
void waits_for_compute(Backend& backend, Stream stream) { backend.wait(stream, backend.record(kCompute, "operand")); }

class NcclGroupTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclGroupTest, testing::Values(1, 2, 3, 5));

TEST_P(NcclGroupTest, AllReducesOnTwoStreams) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, Backend& backend) {
    for (const size_t count : {1, 7, 40000}) {
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

// Each call of the stream reads what the one before it has written, in place; then pieces outside the whole.
TEST_P(NcclGroupTest, ScattersAndGathers) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](Communicator& group, Backend& backend) {
    for (const size_t piece : {13, 30000}) {
      const auto count = piece * static_cast<size_t>(ranks);
      Values values(backend, values_of(group.rank(), count)), own(backend, std::vector<float>(piece));
      Values gathered(backend, std::vector<float>(count)), kept(backend, values_of(group.rank(), count));
      const Tensor part = values.tensor.rows(group.rank() * static_cast<int64_t>(piece), static_cast<int64_t>(piece));
      waits_for_compute(backend, kDataParallel);
      group.reduce_scatter(kDataParallel, values.tensor, part, Reduce::sum);
      group.all_gather(kDataParallel, part, values.tensor);
      group.reduce_scatter(kDataParallel, kept.tensor, own.tensor, Reduce::sum);
      group.all_gather(kDataParallel, own.tensor, gathered.tensor);
      compute_waits_for(backend, kDataParallel);
      EXPECT_EQ(values.read(), sums_of(ranks, count));
      EXPECT_EQ(gathered.read(), sums_of(ranks, count));
      EXPECT_EQ(kept.read(), values_of(group.rank(), count)) << "what is only read was written";
    }
  });
}

TEST_P(NcclGroupTest, BroadcastsFromEveryRoot) {
  on_ranks(GetParam(), [&](Communicator& group, Backend& backend) {
    for (int root = 0; root < group.size(); ++root) {
      Values values(backend, values_of(group.rank(), 20000));
      waits_for_compute(backend, kDataParallel);
      group.broadcast(kDataParallel, values.tensor, root);
      compute_waits_for(backend, kDataParallel);
      EXPECT_EQ(values.read(), values_of(root, 20000));
    }
  });
}

// NCCL adds bf16 in bf16: 256 + 1 + 1 stays 256.
TEST(NcclSums, Bf16IsAddedInBf16) {
  on_ranks(3, [&](Communicator& group, Backend& backend) {
    const Memory memory = backend.allocate(2);
    const Tensor sum{memory.block.get(), DType::bf16, {1}, memory.device};
    const bf16 own = to_bf16(group.rank() == 0 ? 256 : 1);
    backend.upload(kCompute, &own, sum);
    group.all_reduce(kCompute, sum, Reduce::sum);
    bf16 result{};
    backend.download(kCompute, sum, &result);
    backend.synchronize(backend.record(kCompute, "read"));
    EXPECT_EQ(to_float(result), 256);
  });
}

// Around the ring on all four channels at once, each on streams of its own.
TEST(NcclMessages, ChannelsDoNotWaitForEachOther) {
  on_ranks(3, [&](Communicator& group, Backend& backend) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    std::vector<std::unique_ptr<Values>> sent, received;
    for (size_t i = 0; i < std::size(kAllChannels); ++i) {
      sent.push_back(std::make_unique<Values>(backend, values_of(group.rank() + static_cast<int>(10 * i), 9000)));
      received.push_back(std::make_unique<Values>(backend, std::vector<float>(9000)));
    }
    for (size_t i = 0; i < std::size(kAllChannels); ++i) {
      const auto& [channel, step] = kAllChannels[i];
      for (const Stream stream : {Stream::sending(channel), Stream::receiving(channel)}) waits_for_compute(backend, stream);
      group.receive(Stream::receiving(channel), received[i]->tensor, step == 1 ? previous : next);
      group.send(Stream::sending(channel), sent[i]->tensor, step == 1 ? next : previous);
    }
    for (size_t i = 0; i < std::size(kAllChannels); ++i) {
      const auto& [channel, step] = kAllChannels[i];
      compute_waits_for(backend, Stream::receiving(channel));
      compute_waits_for(backend, Stream::sending(channel));
      EXPECT_EQ(received[i]->read(), values_of((step == 1 ? previous : next) + static_cast<int>(10 * i), 9000));
    }
  });
}

TEST(NcclMessages, AreExchangedTogether) {
  on_ranks(2, [&](Communicator& group, Backend& backend) {
    const int other = 1 - group.rank();
    Values forward(backend, values_of(group.rank(), 9000)), backward(backend, values_of(group.rank() + 10, 4));
    Values from_before(backend, std::vector<float>(9000)), from_behind(backend, std::vector<float>(4));
    waits_for_compute(backend, kSendForward);
    const Message messages[] = {{Message::Way::send, forward.tensor, other, Channel::forward},
                                {Message::Way::receive, from_behind.tensor, other, Channel::backward},
                                {Message::Way::send, backward.tensor, other, Channel::backward},
                                {Message::Way::receive, from_before.tensor, other, Channel::forward}};
    group.exchange(kSendForward, messages);
    compute_waits_for(backend, kSendForward);
    EXPECT_EQ(from_before.read(), values_of(other, 9000));
    EXPECT_EQ(from_behind.read(), values_of(other + 10, 4));
  });
}

TEST(NcclDescription, NamesLibraryNetworkAndTransport) {
  on_rank_threads(2, [&](int, const std::vector<int>& members, Transport& transport, Progress& progress) {
    FakeDevice device;
    NcclSession session(device, device, progress);
    const NcclGroup group(GroupKind::tp, members, {}, transport, progress, session);
    const std::string text = session.description();
    EXPECT_NE(text.find("NCCL 2.18.0 (" TRIREME_BINARY_DIR "/tests/libnccl_stand_in.so), network stand-in"), std::string::npos)
        << text;
    EXPECT_NE(text.find("; tp over "), std::string::npos) << text;
  });
}

TEST(NcclTimeout, ARankThatDoesNotConnectIsMissed) {
  auto transports = LocalTransport::connect(2);
  Progress progress({.timeout = std::chrono::seconds(1)});
  FakeDevice device;
  NcclSession session(device, device, progress);
  try {
    NcclUniqueId id;
    ASSERT_EQ(session.library().unique_id(&id), NcclResult::success);
    session.connect(id, {2, 0}, "group tp");
    FAIL() << "connected to nobody";
  } catch (const Failure& failure) {
    EXPECT_TRUE(std::string(failure.what()).starts_with("waited 1 s: group tp cannot connect; other ranks did not come; NCCL "))
        << failure.what();
  }
}

// A rank that makes another call than the others is named with both calls, and all ranks leave.
TEST(NcclTimeout, RanksThatDisagreeAreNamed) {
  on_rank_threads(2, [&](int rank, const std::vector<int>& members, Transport& transport, Progress& progress) {
    FakeDevice device;
    NcclSession session(device, device, progress);
    NcclGroup group(GroupKind::dp, members, {}, transport, progress, session);
    Values values(device, values_of(rank, 8));
    group.all_reduce(kCompute, rank == 0 ? values.tensor : values.tensor.rows(0, 4), Reduce::sum);
    try {
      session.synchronize(kCompute, "gradients_reduced");
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Failure& failure) {
      const std::string text = failure.what();
      EXPECT_TRUE(
          text.find("invalid usage (rank 0 calls all_reduce of 8 f32 (sum), where rank 1 calls all_reduce of 4 f32 (sum))") !=
              std::string::npos ||
          text.find("invalid usage (rank 1 calls all_reduce of 4 f32 (sum), where rank 0 calls all_reduce of 8 f32 (sum))") !=
              std::string::npos)
          << text;
      EXPECT_NE(text.find("while waiting for \"gradients_reduced\"; under way: all_reduce of ["), std::string::npos) << text;
    }
  });
}

}  // namespace
}  // namespace trireme
