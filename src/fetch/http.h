// HTTP by libcurl: one request at a time, with what a download needs to know about the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trireme {

// What a file is at its place.
struct RemoteFile {
  int64_t size = -1;                // -1: not known
  std::string identity;             // changes when the contents do: its ETag, or the date and size; empty: not known
  std::optional<int64_t> modified;  // seconds since 1970
  bool ranges = false;              // parts of it can be had

  // Whether a later answer can show that the contents are still the same.
  bool has_validator() const { return !identity.empty() || modified.has_value(); }
};

struct HttpLimits {
  double timeout_seconds = 30;   // to connect, and the longest time without a byte
  double connect_seconds = 1e6;  // to connect, where that is less
  const std::atomic<bool>* stop = nullptr;
};

// Not to be shared between threads. Connections stay open from request to request. Redirects are followed, within HTTP.
class HttpClient {
 public:
  explicit HttpClient(const HttpLimits& limits);  // UserError in a build without libcurl
  ~HttpClient();

  // What the server says about a file, without reading it.
  RemoteFile probe(const std::string& address);

  // Bytes [begin, end) of the file; end -1 is its end, and 0 to -1 asks for the whole. `answered` is called before the first
  // byte. Whatever is not an answer to that is a TransferError; exceptions of the two functions pass through.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void read(const std::string& address, int64_t begin, int64_t end, const std::string& identity,
            const std::function<void(const RemoteFile&)>& answered, const Sink& sink);

  // A small page as text.
  std::string page(const std::string& address);

 private:
  struct Exchange;
  void perform(Exchange& exchange);

  HttpLimits limits_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// Seconds since 1970 of "Sun, 06 Nov 1994 08:49:37 GMT" or "2021-03-04T05:06:07.000Z"; nothing for other text.
std::optional<int64_t> parse_date(const std::string& text);

}  // namespace trireme
