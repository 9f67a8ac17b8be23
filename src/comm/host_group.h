// Collectives on host memory, made of point-to-point messages. Every element is summed by one rank, in f32 or better, in the
// order of the ranks. So results do not depend on timing, and all ranks get the same bits.
//
//   reduce_scatter   rank j receives piece j from all ranks and sums it
//   all_gather       every rank sends its piece to all ranks
//   all_reduce       a reduce_scatter, then an all_gather, in pieces of nearly equal size
#pragma once

#include <array>
#include <string>
#include <vector>

#include "comm/group_kind.h"
#include "comm/progress.h"
#include "comm/transport.h"

namespace trireme {

class HostGroup final : public Communicator, public CallGroup {
 public:
  // `members` are ranks of the transport in rising order and include this rank. `group` differs between groups that two ranks
  // share.
  HostGroup(GroupKind group, std::vector<int> members, Transport& transport, Progress& progress);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void all_reduce(Stream stream, Tensor values, Reduce reduce) override;
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) override;
  void all_gather(Stream stream, Tensor from, Tensor to) override;
  void broadcast(Stream stream, Tensor values, int root) override;
  void send(Stream stream, Tensor values, int to) override;
  void receive(Stream stream, Tensor values, int from) override;
  void exchange(Stream stream, std::span<const Message> messages) override;
  void barrier(Stream stream) override;

  // Called by the progress thread.
  int id() const override { return static_cast<int>(group_); }
  Awaited awaited(const Call& call) const override;
  void start(const Call& call) override;
  bool advance(const Call& call) override;
  std::string text(const Call& call) const override;

 private:
  // State of a stream's call in flight.
  struct UnderWay {
    std::vector<Transport::Ticket> tickets;
    std::vector<std::byte> staging;  // pieces of the other ranks, one after the other
    bool gathering = false;          // an all_reduce is in its all_gather half
  };
  struct Piece {
    int64_t begin = 0, count = 0;  // elements
  };

  void enqueue(const Call& call);  // a call on the compute stream is done on return
  UnderWay& under_way(Stream stream) { return under_way_[stream.number()]; }
  int tag(Stream stream) const;
  Piece piece(const Tensor& whole, int rank) const;
  void exchange_to_reduce(const Call& call, UnderWay& way);
  void sum_pieces(const Call& call, UnderWay& way) const;
  void exchange_to_gather(const Call& call, UnderWay& way);

  static constexpr int kMaxRanks = 4096;

  const GroupKind group_;
  const std::vector<int> members_;
  int rank_ = 0;
  Transport& transport_;
  Progress& progress_;
  std::array<UnderWay, kStreams> under_way_;
};

}  // namespace trireme
