#include "comm/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/process.h"

namespace trireme {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Precedes every message: its length in bytes, and its kind.
struct Header {
  uint32_t bytes = 0;
  uint8_t kind = 0;
} __attribute__((packed));

constexpr uint32_t kMostBytes = 1 << 30;  // a longer message is not ours

// Waits until the descriptor can be read or written; false if the limit passes first.
bool ready(int descriptor, short events, SteadyClock::time_point limit) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - SteadyClock::now()).count();
  pollfd entry{.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(left, 0))) > 0;
}

int connect_to(const addrinfo& address, SteadyClock::time_point limit) {
  const int descriptor = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
  if (descriptor < 0) return -1;
  int status = ::connect(descriptor, address.ai_addr, address.ai_addrlen);
  if (status != 0 && errno == EINPROGRESS && ready(descriptor, POLLOUT, limit)) {
    socklen_t size = sizeof status;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &status, &size);
  }
  if (status == 0) {
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
    return descriptor;
  }
  ::close(descriptor);
  return -1;
}

}  // namespace

// -------------------------------------------------------------------------------------------------------- one connection

TcpConnection::TcpConnection(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval most{.tv_sec = 5, .tv_usec = 0};  // a stopped process must not block the sender for longer
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

TcpConnection& TcpConnection::operator=(TcpConnection&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(received_, other.received_);
  return *this;
}

TcpConnection TcpConnection::try_open(const std::string& address, int port, std::chrono::milliseconds limit, std::string& why) {
  const addrinfo hints{.ai_flags = AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    why = fmt::format("{} has no address here ({})", address, ::gai_strerror(error));
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    if (const int descriptor = connect_to(*one, SteadyClock::now() + limit); descriptor >= 0) return TcpConnection(descriptor);
  why = "no process answers there";
  return {};
}

void TcpConnection::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool TcpConnection::answers(std::chrono::milliseconds limit) const {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_last_ack_recv <= limit.count();
}

bool TcpConnection::send(const TcpMessage& message) {
  const Header header{.bytes = narrow<uint32_t>(message.text.size()), .kind = message.kind};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += message.text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t sent = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

TcpConnection::State TcpConnection::read(size_t most) {
  char buffer[4096];
  while (most > 0) {
    const ssize_t count = ::recv(descriptor_, buffer, std::min(sizeof buffer, most), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(buffer, static_cast<size_t>(count));
      most -= static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? State::open : State::closed;
  }
  return State::open;
}

std::optional<TcpMessage> TcpConnection::next() {
  Header header;
  if (received_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, received_.data(), sizeof header);
  const uint32_t bytes = header.bytes;
  if (bytes > kMostBytes) throw Failure("a message of {} bytes came over TCP; is that another program?", bytes);
  const size_t end = sizeof header + bytes;
  if (received_.size() < end) return std::nullopt;
  TcpMessage message{.kind = header.kind, .text = received_.substr(sizeof header, bytes)};
  received_.erase(0, end);
  return message;
}

std::optional<TcpMessage> TcpConnection::take_one(size_t most) {
  while (is_open()) {
    const size_t before = received_.size();
    Header header;
    if (before >= sizeof header) std::memcpy(&header, received_.data(), sizeof header);
    if (header.bytes > most) break;
    const size_t end = sizeof header + header.bytes;  // until the header is complete: the end of the header
    if (before >= sizeof header && before >= end) return next();
    const State state = read(end - before);
    if (received_.size() > before) continue;
    if (state == State::open) return std::nullopt;
    break;
  }
  close();
  return std::nullopt;
}

std::optional<TcpMessage> TcpConnection::wait_for_one(size_t most, std::chrono::milliseconds limit) {
  const SteadyClock::time_point end = SteadyClock::now() + limit;
  do {
    if (std::optional<TcpMessage> message = take_one(most)) return message;
  } while (is_open() && ready(descriptor_, POLLIN, end));
  return std::nullopt;
}

// -------------------------------------------------------------------------------------------------------------- listener

TcpListener::TcpListener(int port, Reach reach) : reach_(reach) {
  descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(narrow<uint16_t>(port));
  address.sin_addr.s_addr = htonl(reach == Reach::machine ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof address;
  if (descriptor_ < 0 || ::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(descriptor_, SOMAXCONN) != 0 || ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const std::string reason = std::strerror(errno);
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Failure("cannot listen on TCP port {}: {}", port, reason);
  }
  port_ = ntohs(address.sin_port);
}

TcpListener::~TcpListener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TcpConnection TcpListener::accept() {
  const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  return descriptor < 0 ? TcpConnection() : TcpConnection(descriptor);
}

std::vector<std::string> TcpListener::addresses() const {
  if (reach_ == Reach::machine) return {"127.0.0.1"};
  std::vector<std::string> addresses;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(found, ::freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    addresses.emplace_back(text);
  }
  addresses.push_back(host_name());
  return addresses;
}

}  // namespace trireme
