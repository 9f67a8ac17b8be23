#include "serve/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/start_threads.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr size_t kLongestRequest = 32768, kMostConnections = 128;
constexpr int kIdleSeconds = 60, kSendSeconds = 20;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Returns the text before `separator` and removes both from `rest`.
std::string_view take_until(std::string_view& rest, std::string_view separator) {
  const size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + separator.size());
  return taken;
}

bool parse_target(std::string_view target, HttpRequest& request) {
  if (!target.starts_with('/')) return false;
  const std::optional<std::string> path = decoded(take_until(target, "?"));
  if (!path) return false;
  request.path = *path;
  while (!target.empty()) {
    std::string_view value = take_until(target, "&");
    const std::optional<std::string> name = decoded(take_until(value, "=")), text = decoded(value);
    if (!name || !text) return false;
    request.query[*name] = *text;
  }
  return true;
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string text_of(const HttpResponse& response, bool with_body, bool is_last) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n", response.status,
                  reason_of(response.status), response.type, response.body.size(), is_last ? "close" : "keep-alive");
  for (const std::string& header : response.headers) text += header + "\r\n";
  text += "\r\n";
  return with_body ? text + response.body : text;
}

void limit_waiting(int connection) {
  const timeval receive{.tv_sec = kIdleSeconds, .tv_usec = 0}, send{.tv_sec = kSendSeconds, .tv_usec = 0};
  const int on = 1;
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive));
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send));
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A listening socket at the first of the addresses that can be bound.
int listen_at(const addrinfo* addresses, const std::string& address, int port) {
  int reason = 0;
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    const int listener = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    if (listener < 0) {
      reason = errno;
      continue;
    }
    const int on = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(listener, at->ai_addr, at->ai_addrlen) == 0 && ::listen(listener, 64) == 0) return listener;
    reason = errno;
    ::close(listener);
  }
  if (reason == EADDRINUSE) throw UserError("port {} of {} is in use; choose another one with --port", port, address);
  if (reason == EACCES) throw UserError("port {} needs root's rights; choose one above 1023 with --port", port);
  throw UserError("--host {}: {}; give an address of this machine", address, std::strerror(reason));
}

int port_of(int listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &size);
  const bool is_v6 = bound.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

std::string HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string HttpRequest::parameter(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? "" : found->second;
}

std::optional<HttpRequest> parse_request(std::string_view text) {
  HttpRequest request;
  std::string_view line = take_until(text, "\r\n");
  request.method = take_until(line, " ");
  const std::string_view target = take_until(line, " ");
  if (request.method.empty() || !line.starts_with("HTTP/1.") || !parse_target(target, request)) return std::nullopt;
  while (!text.empty()) {
    std::string_view value = take_until(text, "\r\n");
    if (value.empty()) break;
    if (value.find(':') == value.npos) return std::nullopt;
    const std::string name = lower(take_until(value, ":"));
    // Two hosts or origins would leave open which one counts.
    if (!request.headers.emplace(name, trimmed(value, " \t")).second && (name == "host" || name == "origin")) return std::nullopt;
  }
  return request;
}

HttpServer::HttpServer(const std::string& address, int port, Handler handler) : handler_(std::move(handler)) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    throw UserError("--host {}: {}; give an address of this machine", address, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  listener_ = listen_at(addresses.get(), address, port);
  port_ = port_of(listener_);
}

HttpServer::~HttpServer() {
  if (listener_ >= 0) ::close(listener_);
}

void HttpServer::run(int stop) {
  while (true) {
    std::array<pollfd, 2> waiting{pollfd{.fd = listener_, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
    if (waiting[1].revents != 0) break;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EMFILE || errno == ENFILE) ::poll(nullptr, 0, 100);  // until other connections have ended
      continue;
    }
    limit_waiting(connection);
    std::unique_lock lock(mutex_);
    if (connections_.size() >= kMostConnections) {
      lock.unlock();
      send_all(connection, text_of({.status = 503, .body = "too many connections\n"}, true, true));
      ::close(connection);
      continue;
    }
    connections_.insert(connection);
    lock.unlock();
    try {
      start_thread([this, connection] { serve(connection); }).detach();
    } catch (const Failure&) {
      serve(connection);
    }
  }
  end_all();
}

void HttpServer::end_all() {
  std::unique_lock lock(mutex_);
  for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  ended_.wait(lock, [&] { return connections_.empty(); });
}

void HttpServer::serve(int connection) {
  std::string received;
  std::array<char, 8192> buffer{};
  bool is_last = false;
  while (!is_last) {
    const size_t end = received.find("\r\n\r\n");
    if (end == received.npos) {
      const ssize_t got = received.size() < kLongestRequest ? ::recv(connection, buffer.data(), buffer.size(), 0) : 0;
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      received.append(buffer.data(), static_cast<size_t>(got));
      continue;
    }
    const std::optional<HttpRequest> request = parse_request(std::string_view(received).substr(0, end + 2));
    received.erase(0, end + 4);
    const bool has_body = request && (!request->header("transfer-encoding").empty() ||
                                      (!request->header("content-length").empty() && request->header("content-length") != "0"));
    is_last = !request || has_body || lower(request->header("connection")) == "close";
    if (request)
      answer(connection, *request, is_last);
    else
      send_all(connection, text_of({.status = 400, .body = "this is not an HTTP request\n"}, true, true));
  }
  const std::lock_guard lock(mutex_);
  ::close(connection);
  connections_.erase(connection);
  ended_.notify_all();
}

void HttpServer::answer(int connection, const HttpRequest& request, bool is_last) const {
  HttpResponse response;
  try {
    if (request.method == "GET" || request.method == "HEAD")
      response = handler_(request);
    else
      response = {.status = 405, .body = "only GET is answered\n", .headers = {"Allow: GET, HEAD"}};
  } catch (const std::exception& error) {
    response = {.status = 500, .body = line_of(error) + "\n"};
  }
  if (!send_all(connection, text_of(response, request.method != "HEAD", is_last))) ::shutdown(connection, SHUT_RDWR);
}

}  // namespace trireme
