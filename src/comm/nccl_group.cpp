#include "comm/nccl_group.h"

#include <algorithm>

namespace trireme {
namespace {

NcclType type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return NcclType::f32;
    case DType::bf16:
      return NcclType::bf16;
    case DType::f16:
      return NcclType::f16;
    case DType::f64:
      return NcclType::f64;
    case DType::i32:
      return NcclType::i32;
    case DType::i64:
      return NcclType::i64;
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return NcclType::u8;  // bytes are moved, never summed
  }
  CHECK_NEVER("unknown dtype");
}

NcclReduce reduce_of(Reduce reduce, DType dtype) {
  CHECK(type_of(dtype) != NcclType::u8);
  return reduce == Reduce::sum ? NcclReduce::sum : NcclReduce::max;
}

size_t count_of(const Tensor& tensor) { return static_cast<size_t>(tensor.count()); }
Tensor view(NcclUniqueId& id) { return {id.bytes.data(), DType::u8, {std::ssize(id.bytes)}, Device::host}; }

}  // namespace

NcclGroup::NcclGroup(GroupKind group, std::vector<int> members, std::span<const NcclChannel> channels, Transport& transport,
                     Progress& progress, NcclSession& session)
    : name_(name_of(group)), host_(group, std::move(members), transport, progress), session_(session), nccl_(session.library()) {
  all_ = session_.connect(share_id(), {size(), rank()}, "group " + name_);
  barrier(kCompute);
  session_.synchronize(kCompute, "group_connected");
  session_.note_transport(name_);
  if (size() == 1) return;
  // Edges without a common rank connect at the same time. All ranks take the edges in the same order.
  for (const NcclChannel& way : channels)
    for (const int parity : {0, 1})
      for (int from = parity; from < size(); from += 2) connect_edge({way.channel, from, (from + way.step + size()) % size()});
}

NcclUniqueId NcclGroup::share_id() {
  NcclUniqueId id;
  if (rank() == 0) session_.check(nccl_.unique_id(&id), nullptr, [&] { return "group " + name_ + " cannot connect"; });
  host_.broadcast(kCompute, view(id), 0);
  return id;
}

// Also sends one number along the edge: NCCL connects on the first message, and both ends must wait for it together.
void NcclGroup::connect_edge(const Edge& edge) {
  if (rank() != edge.from && rank() != edge.to) return;
  const auto text = [&] { return fmt::format("group {}, from its rank {} to {}, cannot connect", name_, edge.from, edge.to); };
  NcclUniqueId id;
  const bool sends = rank() == edge.from;
  if (sends) session_.check(nccl_.unique_id(&id), nullptr, text);
  sends ? host_.send(kCompute, view(id), edge.to) : host_.receive(kCompute, view(id), edge.from);
  NcclCommunicator* made = session_.connect(id, {2, sends ? 0 : 1}, text());
  edges_[edge] = made;
  const Tensor number = session_.one_number();
  const NcclStream stream = session_.native(kCompute);
  session_.check(sends ? nccl_.send(number.data, 1, NcclType::f32, 1, made, stream)
                       : nccl_.receive(number.data, 1, NcclType::f32, 0, made, stream),
                 made, text);
  session_.synchronize(kCompute, "edge_connected");
}

NcclCommunicator* NcclGroup::edge(const Edge& edge) const {
  const auto found = edges_.find(edge);
  CHECK(found != edges_.end());
  return found->second;
}

void NcclGroup::finish(const Call& call, NcclResult result, NcclCommunicator* communicator) {
  session_.check(result, communicator, [&] { return host_.text(call); });
  session_.add(call, host_);
}

void NcclGroup::all_reduce(Stream stream, Tensor values, Reduce reduce) {
  const NcclResult result = nccl_.all_reduce(values.data, values.data, count_of(values), type_of(values.dtype),
                                             reduce_of(reduce, values.dtype), all_, session_.native(stream));
  finish({Call::Kind::all_reduce, nullptr, {}, stream, values, values, reduce}, result, all_);
}

void NcclGroup::reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) {
  CHECK_EQ(from.count(), to.count() * size());
  const NcclResult result = nccl_.reduce_scatter(from.data, to.data, count_of(to), type_of(to.dtype), reduce_of(reduce, to.dtype),
                                                 all_, session_.native(stream));
  finish({Call::Kind::reduce_scatter, nullptr, {}, stream, from, to, reduce}, result, all_);
}

void NcclGroup::all_gather(Stream stream, Tensor from, Tensor to) {
  CHECK_EQ(to.count(), from.count() * size());
  const NcclResult result =
      nccl_.all_gather(from.data, to.data, count_of(from), type_of(from.dtype), all_, session_.native(stream));
  finish({Call::Kind::all_gather, nullptr, {}, stream, from, to}, result, all_);
}

void NcclGroup::broadcast(Stream stream, Tensor values, int root) {
  CHECK(root >= 0 && root < size());
  const NcclResult result =
      nccl_.broadcast(values.data, values.data, count_of(values), type_of(values.dtype), root, all_, session_.native(stream));
  finish({Call::Kind::broadcast, nullptr, {}, stream, values, values, Reduce::sum, root}, result, all_);
}

void NcclGroup::send(Stream stream, Tensor values, int to) {
  NcclCommunicator* there = edge({stream.channel(), rank(), to});
  const NcclResult result = nccl_.send(values.data, count_of(values), type_of(values.dtype), 1, there, session_.native(stream));
  finish({Call::Kind::send, nullptr, {}, stream, values, {}, Reduce::sum, to}, result, there);
}

void NcclGroup::receive(Stream stream, Tensor values, int from) {
  NcclCommunicator* here = edge({stream.channel(), from, rank()});
  const NcclResult result = nccl_.receive(values.data, count_of(values), type_of(values.dtype), 0, here, session_.native(stream));
  finish({Call::Kind::receive, nullptr, {}, stream, {}, values, Reduce::sum, from}, result, here);
}

// NCCL matches messages between two ranks only by their order, so both sides sort them by channel.
void NcclGroup::exchange(Stream stream, std::span<const Message> messages) {
  CHECK(messages.size() <= kMostMessages);
  if (messages.empty()) return;
  Call call{.kind = Call::Kind::exchange, .group = nullptr, .event = {}, .stream = stream, .from = {}, .to = {}};
  const auto end = std::ranges::copy(messages, call.messages.begin()).out;
  std::stable_sort(call.messages.begin(), end, [](const Message& a, const Message& b) { return a.channel < b.channel; });
  const auto text = [&] { return host_.text(call); };
  session_.check(nccl_.group_start(), all_, text);
  for (const Message& m : std::span(call.messages).first(messages.size())) {
    const NcclType type = type_of(m.values.dtype);
    const NcclResult result = m.way == Message::Way::send
                                  ? nccl_.send(m.values.data, count_of(m.values), type, m.peer, all_, session_.native(stream))
                                  : nccl_.receive(m.values.data, count_of(m.values), type, m.peer, all_, session_.native(stream));
    if (result != NcclResult::in_progress) session_.check(result, all_, text);  // finish() waits for the group
  }
  finish(call, nccl_.group_end(), all_);
}

void NcclGroup::barrier(Stream stream) {
  const Tensor number = session_.one_number();
  const NcclResult result =
      nccl_.all_reduce(number.data, number.data, 1, NcclType::f32, NcclReduce::max, all_, session_.native(stream));
  finish({Call::Kind::barrier, nullptr, {}, stream, {}, {}}, result, all_);
}

}  // namespace trireme
