#include "comm/staged_group.h"

#include <vector>

namespace trireme {

Tensor StagedGroup::own_piece(const Tensor& whole, const Tensor& like) const {
  return {static_cast<std::byte*>(whole.data) + rank() * like.bytes(), like.dtype, like.shape, Device::host};
}

void StagedGroup::all_reduce(Stream stream, Tensor values, Reduce reduce) {
  if (size() == 1) return;
  const StagedCopy copy{values, backend_.stage(values)};
  backend_.enqueue({Call::Kind::all_reduce, this, {}, stream, copy.host, copy.host, reduce}, {&copy, 1}, {&copy, 1});
}

void StagedGroup::reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) {
  CHECK_EQ(from.count(), to.count() * size());
  CHECK(from.dtype == to.dtype && (size() > 1 || from.data == to.data));
  if (size() == 1) return;
  const StagedCopy down{from, backend_.stage(from)}, up{to, own_piece(down.host, to)};
  backend_.enqueue({Call::Kind::reduce_scatter, this, {}, stream, down.host, up.host, reduce}, {&down, 1}, {&up, 1});
}

void StagedGroup::all_gather(Stream stream, Tensor from, Tensor to) {
  CHECK_EQ(to.count(), from.count() * size());
  CHECK(from.dtype == to.dtype && (size() > 1 || from.data == to.data));
  if (size() == 1) return;
  const StagedCopy up{to, backend_.stage(to)}, down{from, own_piece(up.host, from)};
  backend_.enqueue({Call::Kind::all_gather, this, {}, stream, down.host, up.host}, {&down, 1}, {&up, 1});
}

void StagedGroup::broadcast(Stream stream, Tensor values, int root) {
  CHECK(root >= 0 && root < size());
  if (size() == 1) return;
  const StagedCopy copy{values, backend_.stage(values)};
  const size_t sends = rank() == root ? 1 : 0;
  backend_.enqueue({Call::Kind::broadcast, this, {}, stream, copy.host, copy.host, Reduce::sum, root}, {&copy, sends},
                   {&copy, 1 - sends});
}

void StagedGroup::send(Stream stream, Tensor values, int to) {
  CHECK(to >= 0 && to < size() && to != rank());
  const StagedCopy copy{values, backend_.stage(values)};
  backend_.enqueue({Call::Kind::send, this, {}, stream, copy.host, {}, Reduce::sum, to}, {&copy, 1}, {});
}

void StagedGroup::receive(Stream stream, Tensor values, int from) {
  CHECK(from >= 0 && from < size() && from != rank());
  const StagedCopy copy{values, backend_.stage(values)};
  backend_.enqueue({Call::Kind::receive, this, {}, stream, {}, copy.host, Reduce::sum, from}, {}, {&copy, 1});
}

void StagedGroup::exchange(Stream stream, std::span<const Message> messages) {
  CHECK(messages.size() <= kMostMessages);
  if (messages.empty()) return;
  Call call{.kind = Call::Kind::exchange, .group = this, .event = {}, .stream = stream, .from = {}, .to = {}};
  std::array<StagedCopy, kMostMessages> downloads, uploads;
  size_t sent = 0, received = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const StagedCopy copy{messages[i].values, backend_.stage(messages[i].values)};
    (messages[i].way == Message::Way::send ? downloads[sent++] : uploads[received++]) = copy;
    call.messages[i] = messages[i];
    call.messages[i].values = copy.host;
  }
  backend_.enqueue(call, {downloads.data(), sent}, {uploads.data(), received});
}

void StagedGroup::barrier(Stream stream) {
  if (size() > 1) backend_.enqueue({Call::Kind::barrier, this, {}, stream, {}, {}}, {}, {});
}

}  // namespace trireme
