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

  // To a process that listens there now. Closed if there is none, and `why` says so.
  static TcpConnection try_open(const std::string& address, int port, std::chrono::milliseconds limit, std::string& why);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  // False if the other end is gone, or has not taken anything for some seconds.
  bool send(const TcpMessage& message);

  enum class State : uint8_t { open, closed };
  State read(size_t most = std::numeric_limits<size_t>::max());  // takes what has arrived, without waiting
  std::optional<TcpMessage> next();                              // a whole message of what was taken
  // Takes what has arrived of one message and nothing after it, without waiting: whoever reads the connection next finds the rest
  // there. A message longer than `most` bytes closes the connection.
  std::optional<TcpMessage> take_one(size_t most);
  // Waits for it; nothing if the time is over or the connection closed.
  std::optional<TcpMessage> wait_for_one(size_t most, std::chrono::milliseconds limit);

 private:
  int descriptor_ = -1;
  std::string received_;
};

// Who can connect: processes of this machine, or of any that a network reaches it from.
enum class Reach : uint8_t { machine, network };

class TcpListener {
 public:
  explicit TcpListener(int port = 0, Reach reach = Reach::network);  // port 0: any that is free; Failure if it cannot be had
  ~TcpListener();
  TcpListener(TcpListener&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_), reach_(other.reach_) {}
  TcpListener& operator=(TcpListener&&) = delete;

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  std::vector<std::string> addresses() const;  // at which others reach it
  TcpConnection accept();                      // without waiting; closed if there is none

 private:
  int descriptor_ = -1, port_ = 0;
  Reach reach_;
};

std::string host_name();

}  // namespace trireme
