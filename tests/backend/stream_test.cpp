#include "backend/stream.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

constexpr Stream kWithoutChannel[] = {kCompute, kTensorParallel, kDataParallel, kCopy, kWgrad};
constexpr Channel kEach[] = {Channel::forward, Channel::backward, Channel::ring, Channel::ring_grad};
static_assert(std::size(kEach) == kChannels);

TEST(Streams, HaveNumbersOfTheirOwn) {
  std::set<size_t> numbers;
  for (const Stream stream : kWithoutChannel) numbers.insert(stream.number());
  for (const Channel channel : kEach) numbers.insert({Stream::sending(channel).number(), Stream::receiving(channel).number()});
  EXPECT_EQ(numbers.size(), kStreams);
  EXPECT_EQ(*numbers.rbegin(), kStreams - 1);
}

TEST(Streams, OfAChannelAreEachOthersPeer) {
  for (const Channel channel : kEach) {
    const Stream send = Stream::sending(channel), receive = Stream::receiving(channel);
    EXPECT_EQ(send.channel(), channel);
    EXPECT_EQ(receive.channel(), channel);
    EXPECT_EQ(send.peer_end(), receive);
    EXPECT_EQ(receive.peer_end(), send);
  }
  EXPECT_EQ(kReceiveBackward.peer_end(), kSendBackward);
  EXPECT_EQ(kRingSend.peer_end(), kRingReceive);
}

TEST(Streams, WithoutAChannelAreTheirOwnPeer) {
  for (const Stream stream : kWithoutChannel) {
    EXPECT_EQ(stream.peer_end(), stream);
    EXPECT_THROW(stream.channel(), std::logic_error);
  }
}

}  // namespace
}  // namespace trireme
