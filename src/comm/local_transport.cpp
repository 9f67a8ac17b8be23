#include "comm/local_transport.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

std::vector<std::unique_ptr<LocalTransport>> LocalTransport::connect(int size) {
  const auto wire = std::make_shared<Wire>();
  wire->size = size;
  std::vector<std::unique_ptr<LocalTransport>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(new LocalTransport(wire, rank));
  return ranks;
}

int LocalTransport::size() const { return wire_->size; }

Transport::Ticket LocalTransport::send(int to, int tag, std::span<const std::byte> bytes) {
  CHECK(to >= 0 && to < size() && to != rank_);
  const std::lock_guard lock(wire_->mutex);
  wire_->messages[{rank_, to, tag}].emplace_back(bytes.begin(), bytes.end());
  return next_ticket_++;  // the bytes are already copied, so the send is done
}

Transport::Ticket LocalTransport::receive(int from, int tag, std::span<std::byte> bytes) {
  CHECK(from >= 0 && from < size() && from != rank_);
  waiting_.push_back({next_ticket_, from, tag, bytes});
  return next_ticket_++;
}

bool LocalTransport::done(Ticket ticket) {
  const std::lock_guard lock(wire_->mutex);
  // Every receive that can be served is served, in the order in which they were posted.
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    auto& queue = wire_->messages[{waiting->from, rank_, waiting->tag}];
    const bool earlier = std::any_of(waiting_.begin(), waiting, [&](const Waiting& other) {
      return other.from == waiting->from && other.tag == waiting->tag;
    });
    if (queue.empty() || earlier) {
      ++waiting;
      continue;
    }
    CHECK_EQ(queue.front().size(), waiting->to.size());
    std::ranges::copy(queue.front(), waiting->to.begin());
    queue.pop_front();
    waiting = waiting_.erase(waiting);
  }
  return std::none_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.ticket == ticket; });
}

}  // namespace trireme
