#include "comm/host_group.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr int kTagsOfGroup = 64;
static_assert(kStreams <= kTagsOfGroup);

std::span<std::byte> bytes_of(const Tensor& tensor, int64_t begin, int64_t count) {
  return {static_cast<std::byte*>(tensor.data) + begin * size_of(tensor.dtype),
          static_cast<size_t>(count * size_of(tensor.dtype))};
}
std::span<std::byte> bytes_of(const Tensor& tensor) { return bytes_of(tensor, 0, tensor.count()); }

float widen(bf16 value) { return to_float(value); }
float widen(f16 value) { return to_float(value); }
float widen(float value) { return value; }
double widen(double value) { return value; }
void narrow_to(bf16& to, float value) { to = to_bf16(value); }
void narrow_to(f16& to, float value) { to = to_f16(value); }
void narrow_to(float& to, float value) { to = value; }
void narrow_to(double& to, double value) { to = value; }

// to[i] = sources[0][i] + sources[1][i] + ..., or their maximum. `to` may be one of the sources.
template <class T>
void reduce_elements(std::span<const std::byte* const> sources, Reduce reduce, int64_t count, std::byte* to) {
  using Sum = decltype(widen(T{}));
  constexpr int64_t kBlock = 256;  // the sums stay in L1 while the sources stream through
  const auto element = [&](size_t source, int64_t i) { return widen(reinterpret_cast<const T*>(sources[source])[i]); };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    Sum sums[kBlock];
    for (int64_t i = 0; i < block; ++i) sums[i] = element(0, begin + i);
    for (size_t source = 1; source < sources.size(); ++source)
      for (int64_t i = 0; i < block; ++i) {
        const Sum x = element(source, begin + i);
        sums[i] = reduce == Reduce::sum ? sums[i] + x : std::max(sums[i], x);
      }
    for (int64_t i = 0; i < block; ++i) narrow_to(reinterpret_cast<T*>(to)[begin + i], sums[i]);
  }
}

const char* name_of(Call::Kind kind) {
  constexpr const char* kNames[] = {"wait",      "note_time", "all_reduce", "reduce_scatter", "all_gather",
                                    "broadcast", "send",      "receive",    "exchange",       "barrier"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

HostGroup::HostGroup(GroupKind group, std::vector<int> members, Transport& transport, Progress& progress)
    : group_(group), members_(std::move(members)), transport_(transport), progress_(progress) {
  CHECK(std::is_sorted(members_.begin(), members_.end()));
  const auto self = std::find(members_.begin(), members_.end(), transport.rank());
  CHECK(self != members_.end());
  if (size() > kMaxRanks) throw UserError("a job of {} ranks is too large; use at most {}", size(), kMaxRanks);
  rank_ = static_cast<int>(self - members_.begin());
}

void HostGroup::enqueue(const Call& call) {
  progress_.enqueue(call);
  if (call.stream == kCompute) progress_.synchronize({name_of(call.kind), kCompute, progress_.enqueued(kCompute)});
}

void HostGroup::all_reduce(Stream stream, Tensor values, Reduce reduce) {
  if (size() > 1) enqueue({Call::Kind::all_reduce, this, {}, stream, values, values, reduce});
}

void HostGroup::reduce_scatter(Stream stream, Tensor from, Tensor to, Reduce reduce) {
  CHECK_EQ(from.count(), to.count() * size());
  CHECK(from.dtype == to.dtype && (size() > 1 || from.data == to.data));
  if (size() > 1) enqueue({Call::Kind::reduce_scatter, this, {}, stream, from, to, reduce});
}

void HostGroup::all_gather(Stream stream, Tensor from, Tensor to) {
  CHECK_EQ(to.count(), from.count() * size());
  CHECK(from.dtype == to.dtype && (size() > 1 || from.data == to.data));
  if (size() > 1) enqueue({Call::Kind::all_gather, this, {}, stream, from, to});
}

void HostGroup::broadcast(Stream stream, Tensor values, int root) {
  CHECK(root >= 0 && root < size());
  if (size() > 1) enqueue({Call::Kind::broadcast, this, {}, stream, values, values, Reduce::sum, root});
}

void HostGroup::send(Stream stream, Tensor values, int to) {
  CHECK(to >= 0 && to < size() && to != rank_);
  enqueue({Call::Kind::send, this, {}, stream, values, {}, Reduce::sum, to});
}

void HostGroup::receive(Stream stream, Tensor values, int from) {
  CHECK(from >= 0 && from < size() && from != rank_);
  enqueue({Call::Kind::receive, this, {}, stream, {}, values, Reduce::sum, from});
}

void HostGroup::exchange(Stream stream, std::span<const Message> messages) {
  CHECK(messages.size() <= kMostMessages);
  if (messages.empty()) return;
  Call call{.kind = Call::Kind::exchange, .group = this, .event = {}, .stream = stream, .from = {}, .to = {}};
  std::ranges::copy(messages, call.messages.begin());
  enqueue(call);
}

void HostGroup::barrier(Stream stream) {
  if (size() > 1) enqueue({Call::Kind::barrier, this, {}, stream, {}, {}});
}

// Both ends of a channel have the same tag.
int HostGroup::tag(Stream stream) const {
  const Stream agreed = stream.has_channel() ? Stream::sending(stream.channel()) : stream;
  return id() * kTagsOfGroup + static_cast<int>(agreed.number());
}

HostGroup::Piece HostGroup::piece(const Tensor& whole, int rank) const {
  const auto begin = [&](int64_t r) { return whole.count() * r / size(); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

// Receives every other rank's part of this rank's piece, and sends each of them this rank's part of theirs.
void HostGroup::exchange_to_reduce(const Call& call, UnderWay& way) {
  const int64_t own_bytes = piece(call.from, rank_).count * size_of(call.from.dtype);
  way.staging.resize(std::max(way.staging.size(), static_cast<size_t>(own_bytes * size())));
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const Piece theirs = piece(call.from, r);
    const std::span<std::byte> place =
        std::span(way.staging).subspan(static_cast<size_t>(own_bytes * r), static_cast<size_t>(own_bytes));
    way.tickets.push_back(transport_.receive(members_[static_cast<size_t>(r)], tag(call.stream), place));
    way.tickets.push_back(
        transport_.send(members_[static_cast<size_t>(r)], tag(call.stream), bytes_of(call.from, theirs.begin, theirs.count)));
  }
}

void HostGroup::sum_pieces(const Call& call, UnderWay& way) const {
  const Piece own = piece(call.from, rank_);
  const int64_t own_bytes = own.count * size_of(call.from.dtype);
  const std::byte* sources[kMaxRanks];
  for (int r = 0; r < size(); ++r)
    sources[r] = r == rank_ ? bytes_of(call.from, own.begin, own.count).data() : way.staging.data() + own_bytes * r;
  const std::span<const std::byte* const> all(sources, members_.size());
  std::byte* to = call.kind == Call::Kind::all_reduce ? bytes_of(call.to, own.begin, own.count).data() : bytes_of(call.to).data();
  switch (call.from.dtype) {
    case DType::f32:
      return reduce_elements<float>(all, call.reduce, own.count, to);
    case DType::bf16:
      return reduce_elements<bf16>(all, call.reduce, own.count, to);
    case DType::f16:
      return reduce_elements<f16>(all, call.reduce, own.count, to);
    case DType::f64:
      return reduce_elements<double>(all, call.reduce, own.count, to);
    default:
      CHECK_NEVER("integers are not reduced");
  }
}

void HostGroup::exchange_to_gather(const Call& call, UnderWay& way) {
  const Piece own = piece(call.to, rank_);
  const std::span<std::byte> place = bytes_of(call.to, own.begin, own.count);
  if (call.kind == Call::Kind::all_gather && call.from.data != place.data())
    std::ranges::copy(bytes_of(call.from), place.begin());
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const Piece theirs = piece(call.to, r);
    const int member = members_[static_cast<size_t>(r)];
    way.tickets.push_back(transport_.receive(member, tag(call.stream), bytes_of(call.to, theirs.begin, theirs.count)));
    way.tickets.push_back(transport_.send(member, tag(call.stream), place));
  }
}

void HostGroup::start(const Call& call) {
  UnderWay& way = under_way(call.stream);
  CHECK(way.tickets.empty());
  way.gathering = false;
  const auto member = [&](int r) { return members_[static_cast<size_t>(r)]; };
  const int message = tag(call.stream);
  switch (call.kind) {
    case Call::Kind::all_reduce:
    case Call::Kind::reduce_scatter:
      return exchange_to_reduce(call, way);
    case Call::Kind::all_gather:
      return exchange_to_gather(call, way);
    case Call::Kind::broadcast:
      if (rank_ != call.peer) {
        way.tickets.push_back(transport_.receive(member(call.peer), message, bytes_of(call.to)));
        return;
      }
      for (int r = 0; r < size(); ++r)
        if (r != rank_) way.tickets.push_back(transport_.send(member(r), message, bytes_of(call.from)));
      return;
    case Call::Kind::send:
      way.tickets.push_back(transport_.send(member(call.peer), message, bytes_of(call.from)));
      return;
    case Call::Kind::receive:
      way.tickets.push_back(transport_.receive(member(call.peer), message, bytes_of(call.to)));
      return;
    case Call::Kind::exchange:
      for (const Message& m : call.messages) {
        if (!m.values) continue;
        const int channel = tag(Stream::sending(m.channel));
        way.tickets.push_back(m.way == Message::Way::send ? transport_.send(member(m.peer), channel, bytes_of(m.values))
                                                          : transport_.receive(member(m.peer), channel, bytes_of(m.values)));
      }
      return;
    case Call::Kind::barrier:
      for (int r = 0; r < size(); ++r) {
        if (r == rank_) continue;
        way.tickets.push_back(transport_.receive(member(r), message, {}));
        way.tickets.push_back(transport_.send(member(r), message, {}));
      }
      return;
    case Call::Kind::wait:
    case Call::Kind::note_time:
      CHECK_NEVER("neither belongs to no group");
  }
}

bool HostGroup::advance(const Call& call) {
  UnderWay& way = under_way(call.stream);
  while (true) {
    while (!way.tickets.empty()) {
      if (!transport_.done(way.tickets.back())) return false;
      way.tickets.pop_back();
    }
    const bool reduces = call.kind == Call::Kind::all_reduce || call.kind == Call::Kind::reduce_scatter;
    if (!reduces || way.gathering) return true;
    sum_pieces(call, way);
    if (call.kind == Call::Kind::reduce_scatter) return true;
    way.gathering = true;
    exchange_to_gather(call, way);
  }
}

Awaited HostGroup::awaited(const Call& call) const {
  if (call.kind == Call::Kind::exchange) {
    std::vector<int> partners;
    for (const Message& message : call.messages)
      if (message.values && std::ranges::find(partners, members_[static_cast<size_t>(message.peer)]) == partners.end())
        partners.push_back(members_[static_cast<size_t>(message.peer)]);
    return {.ranks = partners, .stream = call.stream};
  }
  const bool is_message = call.kind == Call::Kind::send || call.kind == Call::Kind::receive;
  if (!is_message) return {.ranks = members_, .stream = call.stream};
  return {.ranks = {members_[static_cast<size_t>(call.peer)]}, .stream = call.stream.peer_end()};
}

std::string HostGroup::text(const Call& call) const {
  if (call.kind == Call::Kind::exchange)
    return fmt::format("exchange of messages in group {} (ranks {})", name_of(group_), fmt::join(members_, ", "));
  const Tensor& tensor = call.from ? call.from : call.to;
  const std::string what = tensor ? fmt::format(" of {} {}", tensor.shape, trireme::name_of(tensor.dtype)) : "";
  return fmt::format("{}{} in group {} (ranks {})", name_of(call.kind), what, name_of(group_), fmt::join(members_, ", "));
}

}  // namespace trireme
