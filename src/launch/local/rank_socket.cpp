#include "launch/local/rank_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/process.h"

namespace trireme {
namespace {

constexpr int kMostWaiting = 4096;
constexpr time_t kReportSeconds = 5;

// In the abstract name space: nothing is left in any folder, whatever happens to the processes.
std::pair<sockaddr_un, socklen_t> address_of_socket(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

}  // namespace

RankSocket::RankSocket() {
  name_ = fmt::format("trireme-launch-{}-{:08x}{:08x}", ::getpid(), random_bits(), random_bits());
  descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto [address, size] = address_of_socket(name_);
  if (descriptor_ < 0 || ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(descriptor_, kMostWaiting) != 0)
    throw Failure("the supervisor cannot listen for its ranks: {}", std::strerror(errno));
}

RankSocket::~RankSocket() { ::close(descriptor_); }

std::optional<ReportedRank> RankSocket::accept() const {
  const int connection = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return std::nullopt;
  ucred peer{};
  socklen_t size = sizeof peer;
  const timeval limit{kReportSeconds, 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  int64_t local_rank = -1;
  const bool is_rank = ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid() &&
                       ::recv(connection, &local_rank, sizeof local_rank, MSG_WAITALL) == static_cast<ssize_t>(sizeof local_rank);
  if (!is_rank) {
    ::close(connection);
    return std::nullopt;
  }
  ::fcntl(connection, F_SETFL, O_NONBLOCK);
  return ReportedRank{.local_rank = local_rank, .process = peer.pid, .output = connection};
}

void report_to_supervisor(const std::string& socket, int64_t local_rank) {
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto [address, size] = address_of_socket(socket);
  if (connection < 0 || ::connect(connection, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::send(connection, &local_rank, sizeof local_rank, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof local_rank))
    throw Failure("the supervisor of this rank is gone");
  ::dup2(connection, STDOUT_FILENO);
  ::dup2(connection, STDERR_FILENO);
  ::close(connection);
}

}  // namespace trireme
