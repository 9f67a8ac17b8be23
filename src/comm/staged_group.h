// Collectives on device memory through the host: a HostGroup on staged copies, see staged_backend.h. The host sums, in f32 or
// better and in the order of the ranks.
#pragma once

#include "comm/host_group.h"
#include "comm/staged_backend.h"

namespace trireme {

class StagedGroup final : public Communicator, private CallGroup {
 public:
  StagedGroup(GroupKind group, std::vector<int> members, Transport& transport, StagedBackend& backend)
      : host_(group, std::move(members), transport, backend.progress()), backend_(backend) {}

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
  int id() const override { return host_.id(); }
  Awaited awaited(const Call& call) const override { return host_.awaited(call); }
  bool ready(const Call& call) const override { return backend_.downloaded(call); }
  void start(const Call& call) override { host_.start(call); }
  bool advance(const Call& call) override { return host_.advance(call); }
  std::string text(const Call& call) const override { return host_.text(call); }

  Tensor own_piece(const Tensor& whole, const Tensor& like) const;

  HostGroup host_;
  StagedBackend& backend_;
};

}  // namespace trireme
