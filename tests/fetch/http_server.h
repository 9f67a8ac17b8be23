// A web server on this machine that serves what a test puts there and misbehaves as it is told.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trireme {

struct HttpPage {
  std::string body;
  std::string etag;
  std::string last_modified;
  std::string location;    // a redirect to there
  int status = 0;          // answered instead of the body
  int times = 1 << 30;     // how many requests the misbehaviour below, or the status, lasts
  int64_t cut_after = -1;  // closes the connection after so many bytes of an answer
  int64_t claimed = -1;    // the Content-Length that is said instead of the true one
  int retry_after = -1;
  bool ignores_ranges = false;
  bool ranges_only_at_start = false;  // gives the first byte alone when asked, and otherwise the whole
  bool without_length = false;
  double seconds_per_block = 0;  // waits so long after every 16 KiB
};

class HttpServer {
 public:
  struct Request {
    std::string target, range;
  };

  HttpServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen on this machine");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~HttpServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "") const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }

  // What is served at a target (path and query); may be changed at any time.
  void put(const std::string& target, HttpPage page) {
    const std::lock_guard lock(mutex_);
    pages_[target] = std::move(page);
  }
  // Called before each answer, under no lock.
  void before_answer(std::function<void(const Request&)> call) { before_ = std::move(call); }

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  void accept_all() {
    while (!stopping_) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      const std::lock_guard lock(mutex_);
      connections_.push_back(connection);
      threads_.emplace_back([this, connection] {
        while (serve_one(connection)) continue;
        const std::lock_guard closing(mutex_);
        std::erase(connections_, connection);
        ::close(connection);
      });
    }
  }

  // False when the connection is to be closed.
  bool serve_one(int connection) {
    std::string head;
    for (char c = 0; !head.ends_with("\r\n\r\n"); head.push_back(c))
      if (::recv(connection, &c, 1, 0) != 1) return false;
    Request request{head.substr(4, head.find(' ', 4) - 4), header(head, "Range: bytes=")};
    if (before_) before_(request);
    HttpPage page{.status = 404};
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      if (const auto found = pages_.find(request.target); found != pages_.end()) {
        page = found->second;
        if (found->second.times-- <= 0) page = {.body = page.body, .etag = page.etag, .last_modified = page.last_modified};
      }
    }
    return answer(connection, request, page, header(head, "If-Range: "));
  }

  static std::string header(const std::string& head, const std::string& name) {
    const size_t begin = head.find(name);
    if (begin == std::string::npos) return {};
    return head.substr(begin + name.size(), head.find("\r\n", begin) - begin - name.size());
  }

  bool answer(int connection, const Request& request, const HttpPage& page, const std::string& if_range) {
    if (page.status != 0) {
      const std::string retry = page.retry_after < 0 ? "" : fmt::format("Retry-After: {}\r\n", page.retry_after);
      return send_all(connection, fmt::format("HTTP/1.1 {} No\r\n{}Content-Length: {}\r\n\r\n{}", page.status, retry,
                                              page.body.size(), page.body));
    }
    if (!page.location.empty())
      return send_all(connection, fmt::format("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", page.location));
    const bool wants_range = !request.range.empty() && !page.ignores_ranges && (if_range.empty() || if_range == page.etag) &&
                             (!page.ranges_only_at_start || request.range == "0-0");
    const auto size = static_cast<int64_t>(page.body.size());
    int64_t begin = 0, end = size;
    if (wants_range) {
      begin = std::atoll(request.range.c_str());
      const std::string last = request.range.substr(request.range.find('-') + 1);
      end = last.empty() ? size : std::min<int64_t>(std::atoll(last.c_str()) + 1, size);
      if (begin >= size)
        return send_all(connection,
                        fmt::format("HTTP/1.1 416 No\r\nContent-Range: bytes */{}\r\nContent-Length: 0\r\n\r\n", size));
    }
    std::string head = wants_range ? fmt::format("HTTP/1.1 206 Part\r\nContent-Range: bytes {}-{}/{}\r\n", begin, end - 1, size)
                                   : "HTTP/1.1 200 OK\r\n";
    if (!page.etag.empty()) head += fmt::format("ETag: {}\r\n", page.etag);
    if (!page.last_modified.empty()) head += fmt::format("Last-Modified: {}\r\n", page.last_modified);
    if (!page.without_length) head += fmt::format("Content-Length: {}\r\n", page.claimed >= 0 ? page.claimed : end - begin);
    const bool closes = page.cut_after >= 0 || page.claimed >= 0 || page.without_length;
    head += closes ? "Connection: close\r\n\r\n" : "\r\n";
    if (page.cut_after >= 0) end = std::min(end, begin + page.cut_after);
    return send_all(connection, head) && send_body(connection, page, begin, end) && !closes;
  }

  bool send_body(int connection, const HttpPage& page, int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t count = std::min<int64_t>(16384, end - begin);
      if (!send_all(connection, page.body.substr(static_cast<size_t>(begin), static_cast<size_t>(count)))) return false;
      begin += count;
      bytes_sent_ += count;
      for (double left = page.seconds_per_block; left > 0 && !stopping_; left -= 0.01)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  static bool send_all(int connection, const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t count = ::send(connection, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return false;
      at += static_cast<size_t>(count);
    }
    return true;
  }

  int listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> bytes_sent_{0};
  mutable std::mutex mutex_;
  std::map<std::string, HttpPage> pages_;
  std::vector<Request> requests_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::function<void(const Request&)> before_;
  std::thread acceptor_;
};

// Text without a pattern that a shifted or repeated piece would still match.
inline std::string made_up_bytes(size_t size, uint64_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(seed >> 56);
  }
  return bytes;
}

}  // namespace trireme
