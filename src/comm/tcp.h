// TCP connections that carry messages: a kind and some bytes, whole or not at all.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct TcpMessage {
  uint8_t kind = 0;
  std::string text;
};

// One end of a connection. One thread at a time sends, one at a time receives.
class TcpConnection {
 public:
  TcpConnection() = default;
  explicit TcpConnection(int descriptor);
  TcpConnection(TcpConnection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}
  TcpConnection& operator=(TcpConnection&& other) noexcept;
  ~TcpConnection() { close(); }

  // To the first of `addresses` that answers within the time; Failure if none does.
  static TcpConnection open(const std::vector<std::string>& addresses, int port, std::chrono::seconds limit);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  // False if the other end is gone, or has not taken anything for some seconds.
  bool send(const TcpMessage& message);

  enum class State : uint8_t { open, closed };
  State read(size_t most = std::numeric_limits<size_t>::max());  // takes what has arrived, without waiting
  std::optional<TcpMessage> next();                              // a whole message of what was taken
  // For the next message, of which nothing was taken, and nothing after it is; Failure if none comes.
  TcpMessage wait(std::chrono::seconds limit);

 private:
  int descriptor_ = -1;
  std::string received_;
};

class TcpListener {
 public:
  explicit TcpListener(int port = 0);  // 0: any that is free
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  TcpConnection accept(std::chrono::seconds limit);  // Failure if nobody comes

 private:
  int descriptor_ = -1, port_ = 0;
};

std::string host_name();
std::vector<std::string> own_addresses();  // of this machine, as others reach it: without the loopback

}  // namespace trireme
