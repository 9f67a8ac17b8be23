// Collectives on device memory by NCCL, one rank per GPU. Each call maps to one NCCL call on the device's stream of the same
// name. NCCL sums bf16 in bf16, so results differ from those on host memory in the last bits.
//
// NCCL serializes the calls on one communicator, but p2p sends and receives between neighbours must not wait for each other. So
// they have communicators of two ranks: per channel (stream.h) one from each rank of the ring to its neighbour.
#pragma once

#include <map>

#include "comm/nccl_session.h"

namespace trireme {

// Messages from each rank to the rank `step` further along the ring.
struct NcclChannel {
  Channel channel = Channel::forward;
  int step = 1;
};
inline constexpr NcclChannel kNcclStages[] = {{Channel::forward, 1}, {Channel::backward, -1}};  // between pipeline stages
inline constexpr NcclChannel kNcclRing[] = {{Channel::ring, 1}, {Channel::ring_grad, 1}};       // of ring attention

class NcclGroup final : public Communicator {
 public:
  // Connects the group. All its ranks must construct their groups in the same order. Ids are sent over the transport.
  NcclGroup(GroupKind group, std::vector<int> members, std::span<const NcclChannel> channels, Transport& transport,
            Progress& progress, NcclSession& session);

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  void all_reduce(Stream stream, Tensor values, Reduce reduce) override;
  void reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) override;
  void all_gather(Stream stream, Tensor from, Tensor to) override;
  void broadcast(Stream stream, Tensor values, int root) override;
  void send(Stream stream, Tensor values, int to) override;
  void receive(Stream stream, Tensor values, int from) override;
  void exchange(Stream stream, std::span<const Message> messages) override;
  void barrier(Stream stream) override;

 private:
  struct Edge {
    Channel channel = Channel::forward;
    int from = 0, to = 0;
    auto operator<=>(const Edge&) const = default;  // NOLINT(modernize-use-nullptr): false positive in generated code
  };

  NcclUniqueId share_id();
  void connect_edge(const Edge& edge);
  NcclCommunicator* edge(const Edge& edge) const;
  void finish(const Call& call, NcclResult result, NcclCommunicator* communicator);

  const std::string name_;
  HostGroup host_;  // exchanges ids, names calls in messages
  NcclSession& session_;
  const NcclLibrary& nccl_;
  NcclCommunicator* all_ = nullptr;
  std::map<Edge, NcclCommunicator*> edges_;  // edges that start or end at this rank
};

}  // namespace trireme
