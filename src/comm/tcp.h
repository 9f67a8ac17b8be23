// TCP connections that carry messages. A message is a kind and some bytes, and arrives whole or not at all.
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

// One end of a connection. At most one thread sends and one receives at a time.
class TcpConnection {
 public:
  TcpConnection() = default;
  explicit TcpConnection(int descriptor);
  TcpConnection(TcpConnection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}
  TcpConnection& operator=(TcpConnection&& other) noexcept;
  ~TcpConnection() { close(); }

  // Connects to a process that already listens. Returns a closed connection and sets `why` if that fails.
  static TcpConnection try_open(const std::string& address, int port, std::chrono::milliseconds limit, std::string& why);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  // Whether the machine of the other end has acknowledged something within `limit`. The caller sends something more often than
  // that. A process that is stopped still answers in this sense.
  bool answers(std::chrono::milliseconds limit) const;

  // False if the other end is gone or has accepted nothing for some seconds.
  bool send(const TcpMessage& message);

  enum class State : uint8_t { open, closed };
  State read(size_t most = std::numeric_limits<size_t>::max());  // reads what has arrived, without waiting
  std::optional<TcpMessage> next();                              // a whole message, if one has been read
  // Reads what has arrived of one message and nothing after it, without waiting, so that a later reader of the connection finds
  // the rest. A message longer than `most` bytes closes the connection.
  std::optional<TcpMessage> take_one(size_t most);
  // Waits for one message; nullopt if the limit passes or the connection closes.
  std::optional<TcpMessage> wait_for_one(size_t most, std::chrono::milliseconds limit);

 private:
  int descriptor_ = -1;
  std::string received_;
};

// Who can connect: processes of this machine only, or any that the network lets through.
enum class Reach : uint8_t { machine, network };

class TcpListener {
 public:
  explicit TcpListener(int port = 0, Reach reach = Reach::network);  // port 0: any free port; Failure if it cannot be bound
  ~TcpListener();
  TcpListener(TcpListener&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_), reach_(other.reach_) {}
  TcpListener& operator=(TcpListener&&) = delete;

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  std::vector<std::string> addresses() const;  // at which other machines reach it
  TcpConnection accept();                      // does not wait; closed if no connection is pending

 private:
  int descriptor_ = -1, port_ = 0;
  Reach reach_;
};

}  // namespace trireme
