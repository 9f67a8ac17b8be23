#include "comm/tcp_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/process.h"

namespace trireme {
namespace {

using std::chrono::seconds;

// Precedes the bytes of a message.
struct TransportHeader {
  uint64_t bytes = 0;
  int64_t tag = 0;
};

struct Sending {
  Transport::Ticket ticket = 0;
  TransportHeader header;
  std::span<const std::byte> bytes;
  size_t done = 0;  // bytes sent, header included
};

struct Receiving {
  Transport::Ticket ticket = 0;
  std::span<std::byte> to;
};

// The connection between this rank and another. A message that has a matching receive is read straight into its buffer; others
// are kept.
class Wire {
 public:
  Wire(TcpConnection connection, int rank) : connection_(std::move(connection)), rank_(rank) {}

  int descriptor() const { return connection_.descriptor(); }
  bool is_closed() const { return closed_; }
  bool has_to_send() const { return !sending_.empty(); }
  void send(Sending message);
  void receive(int64_t tag, Receiving wanted, std::set<Transport::Ticket>& done);
  void advance_sends(std::set<Transport::Ticket>& done);
  void advance_receives(std::set<Transport::Ticket>& done);

 private:
  struct Arrival {  // the message being read
    TransportHeader header;
    size_t done = 0;  // bytes read, header included
    std::vector<std::byte> kept;
    std::span<std::byte> to;
    Transport::Ticket ticket = -1;  // of the matching receive; -1: none yet
  };

  [[noreturn]] void complain() const { throw Failure("the connection to rank {} is gone", rank_); }
  bool is_awaited() const;
  void begin_body();
  void end_body(std::set<Transport::Ticket>& done);

  TcpConnection connection_;
  int rank_;
  bool closed_ = false;  // by the other end; an error only if a send or receive is outstanding
  std::deque<Sending> sending_;
  Arrival arrival_;
  std::map<int64_t, std::deque<Receiving>> wanted_;                // by tag
  std::map<int64_t, std::deque<std::vector<std::byte>>> waiting_;  // whole messages without a matching receive, by tag
};

bool Wire::is_awaited() const {
  const auto has_some = [](const auto& entry) { return !entry.second.empty(); };
  return has_to_send() || arrival_.done > 0 || std::ranges::any_of(wanted_, has_some);
}

void Wire::send(Sending message) {
  if (closed_) complain();
  sending_.push_back(message);
}

void Wire::receive(int64_t tag, Receiving wanted, std::set<Transport::Ticket>& done) {
  std::deque<std::vector<std::byte>>& messages = waiting_[tag];
  if (messages.empty()) {
    if (closed_) complain();
    wanted_[tag].push_back(wanted);
    return;
  }
  CHECK_EQ(messages.front().size(), wanted.to.size());
  std::ranges::copy(messages.front(), wanted.to.begin());
  messages.pop_front();
  done.insert(wanted.ticket);
}

void Wire::advance_sends(std::set<Transport::Ticket>& done) {
  while (!sending_.empty()) {
    Sending& message = sending_.front();
    const size_t in_header = std::min(message.done, sizeof(TransportHeader)), in_bytes = message.done - in_header;
    iovec parts[] = {{reinterpret_cast<std::byte*>(&message.header) + in_header, sizeof(TransportHeader) - in_header},
                     {const_cast<std::byte*>(message.bytes.data()) + in_bytes, message.bytes.size() - in_bytes}};
    const msghdr request{.msg_iov = parts, .msg_iovlen = 2};
    const ssize_t sent = ::sendmsg(descriptor(), &request, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (sent < 0) throw Failure("cannot send to rank {}: {}", rank_, std::strerror(errno));
    message.done += static_cast<size_t>(sent);
    if (message.done < sizeof(TransportHeader) + message.bytes.size()) return;
    done.insert(message.ticket);
    sending_.pop_front();
  }
}

void Wire::begin_body() {
  std::deque<Receiving>& asked = wanted_[arrival_.header.tag];
  // Receives are matched in order, so with none outstanding this message has to be kept.
  if (asked.empty()) {
    arrival_.kept.resize(arrival_.header.bytes);
    arrival_.to = arrival_.kept;
    return;
  }
  CHECK_EQ(asked.front().to.size(), arrival_.header.bytes);
  arrival_.to = asked.front().to;
  arrival_.ticket = asked.front().ticket;
  asked.pop_front();
}

void Wire::end_body(std::set<Transport::Ticket>& done) {
  Arrival whole = std::exchange(arrival_, {});
  if (whole.ticket >= 0) {
    done.insert(whole.ticket);
    return;
  }
  std::deque<Receiving>& asked = wanted_[whole.header.tag];
  if (asked.empty()) {
    waiting_[whole.header.tag].push_back(std::move(whole.kept));
    return;
  }
  CHECK_EQ(asked.front().to.size(), whole.kept.size());  // the receive was posted while the message arrived
  std::ranges::copy(whole.kept, asked.front().to.begin());
  done.insert(asked.front().ticket);
  asked.pop_front();
}

void Wire::advance_receives(std::set<Transport::Ticket>& done) {
  while (true) {
    const bool in_header = arrival_.done < sizeof(TransportHeader);
    const size_t at = in_header ? arrival_.done : arrival_.done - sizeof(TransportHeader);
    std::byte* const to = in_header ? reinterpret_cast<std::byte*>(&arrival_.header) : arrival_.to.data();
    const size_t most = (in_header ? sizeof(TransportHeader) : arrival_.to.size()) - at;
    if (most > 0) {
      const ssize_t count = ::recv(descriptor(), to + at, most, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
      if (count <= 0) {
        closed_ = true;
        if (is_awaited()) complain();
        return;
      }
      arrival_.done += static_cast<size_t>(count);
      if (static_cast<size_t>(count) < most) continue;
    }
    if (in_header) begin_body();
    if (arrival_.done == sizeof(TransportHeader) + arrival_.to.size()) end_body(done);
  }
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<std::unique_ptr<Wire>> wires) : rank_(rank), wires_(std::move(wires)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(wires_.size()); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override;
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override;
  bool done(Ticket ticket) override;

 private:
  Wire& wire(int rank) { return *wires_[static_cast<size_t>(rank)]; }

  int rank_;
  std::vector<std::unique_ptr<Wire>> wires_;  // by rank; null for this rank
  Ticket next_ticket_ = 1;
  std::set<Ticket> done_;  // tickets that done() has not yet reported
};

Transport::Ticket TcpTransport::send(int to, int tag, std::span<const std::byte> bytes) {
  const Ticket ticket = next_ticket_++;
  wire(to).send({.ticket = ticket, .header = {.bytes = bytes.size(), .tag = tag}, .bytes = bytes, .done = 0});
  wire(to).advance_sends(done_);
  return ticket;
}

Transport::Ticket TcpTransport::receive(int from, int tag, std::span<std::byte> bytes) {
  const Ticket ticket = next_ticket_++;
  wire(from).receive(tag, {.ticket = ticket, .to = bytes}, done_);
  return ticket;
}

bool TcpTransport::done(Ticket ticket) {
  if (done_.erase(ticket) > 0) return true;
  std::vector<pollfd> entries;
  std::vector<Wire*> asked;
  for (const auto& between : wires_) {
    if (between == nullptr || between->is_closed()) continue;
    const int events = between->has_to_send() ? POLLIN | POLLOUT : POLLIN;
    entries.push_back({.fd = between->descriptor(), .events = static_cast<short>(events), .revents = 0});
    asked.push_back(between.get());
  }
  ::poll(entries.data(), entries.size(), 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    if ((entries[i].revents & POLLOUT) != 0) asked[i]->advance_sends(done_);
    if ((entries[i].revents & ~POLLOUT) != 0) asked[i]->advance_receives(done_);
  }
  return done_.erase(ticket) > 0;
}

// Connects to every lower rank and accepts every higher one, concurrently.
class Connecting {
 public:
  Connecting(const DataConnections& request, TcpListener listener)
      : request_(request), door_(std::move(listener), request.secret, size()), wires_(request.ranks.size()) {
    own_.secret = request.secret;
    own_.rank = request.rank;
    own_.size = size();
    for (int lower = 0; lower < request.rank; ++lower) calls_.push_back({.rank = lower});
  }

  std::vector<std::unique_ptr<Wire>> finish(const Control& control);

 private:
  struct Call {
    int rank = 0;
    TcpConnection connection;  // open once the greeting is sent
    std::chrono::steady_clock::time_point since{};
    size_t address = 0;  // index of the rank's next address to try
    bool is_done = false;
  };

  int size() const { return static_cast<int>(request_.ranks.size()); }
  void add(TcpConnection connection, int rank) {
    wires_[static_cast<size_t>(rank)] = std::make_unique<Wire>(std::move(connection), rank);
  }
  void advance(Call& call);
  void take_visitor(Visitor visitor);
  std::vector<int> missing() const;

  const DataConnections& request_;
  Greeting own_;
  Door door_;
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Wire>> wires_;
};

std::vector<int> Connecting::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (rank != request_.rank && wires_[static_cast<size_t>(rank)] == nullptr) ranks.push_back(rank);
  return ranks;
}

// A rank on the same machine is tried at 127.0.0.1 first. Addresses of another machine may lead to a different process, so only a
// welcome counts, not a connection.
void Connecting::advance(Call& call) {
  if (!call.connection.is_open()) {
    const Greeting& other = request_.ranks[static_cast<size_t>(call.rank)];
    std::vector<std::string> addresses = other.addresses;
    if (other.place.host == host_name()) addresses.insert(addresses.begin(), "127.0.0.1");
    std::string why;
    const std::string& address = addresses[call.address++ % addresses.size()];
    call.connection = TcpConnection::try_open(address, other.port, seconds(2), why);
    call.since = std::chrono::steady_clock::now();
    if (call.connection.is_open() && !greet(call.connection, own_)) call.connection.close();
    return;
  }
  std::optional<DoorAnswer> answer = take_answer(call.connection, own_);
  constexpr seconds kTimeToAnswer{30};  // a rank answers as soon as it knows the others' addresses
  if (!answer && std::chrono::steady_clock::now() > call.since + kTimeToAnswer) answer.emplace();
  if (!answer) return;
  call.is_done = answer->kind == DoorAnswer::Kind::welcome;
  if (call.is_done)
    add(std::move(call.connection), call.rank);
  else
    call.connection.close();
}

void Connecting::take_visitor(Visitor visitor) {
  const int rank = visitor.greeting.rank;
  if (rank <= request_.rank || rank >= size()) return door_.send_away(std::move(visitor), "not a higher rank");
  add(door_.let_in(std::move(visitor)), rank);
}

std::vector<std::unique_ptr<Wire>> Connecting::finish(const Control& control) {
  const auto end = std::chrono::steady_clock::now() + request_.limit;
  while (!missing().empty()) {
    control.require_going_on();
    for (Call& call : calls_)
      if (!call.is_done) advance(call);
    auto wait = std::chrono::milliseconds(10);
    while (std::optional<Visitor> visitor = door_.next(std::exchange(wait, std::chrono::milliseconds(0))))
      take_visitor(std::move(*visitor));
    if (std::chrono::steady_clock::now() > end)
      throw Failure("rank {} waited {} s for data connections to {}", request_.rank, request_.limit.count(),
                    control.name_of(missing().front()));
  }
  return std::move(wires_);
}

}  // namespace

std::unique_ptr<Transport> connect_through_tcp(const DataConnections& request, TcpListener listener, const Control& control) {
  return std::make_unique<TcpTransport>(request.rank, Connecting(request, std::move(listener)).finish(control));
}

}  // namespace trireme
