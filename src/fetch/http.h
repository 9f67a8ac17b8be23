// HTTP by libcurl: one request at a time, with the response headers that a download needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trireme {

// A file as its source describes it.
struct RemoteFile {
  int64_t size = -1;                // -1: unknown
  std::string identity;             // changes with the contents: its ETag, or date and size; empty: unknown
  std::optional<int64_t> modified;  // seconds since 1970
  bool ranges = false;              // supports range requests

  // Whether a later response can show that the contents are unchanged.
  bool has_validator() const { return !identity.empty() || modified.has_value(); }
};

struct HttpLimits {
  double timeout_seconds = 30;   // to connect, and the longest time without a byte
  double connect_seconds = 1e6;  // to connect, if shorter
  const std::atomic<bool>* stop = nullptr;
};

// Not thread-safe. Connections stay open between requests. Follows redirects within HTTP.
class HttpClient {
 public:
  explicit HttpClient(const HttpLimits& limits);  // UserError in a build without libcurl
  ~HttpClient();

  // Returns the server's information about a file without reading it.
  RemoteFile probe(const std::string& address);

  // Reads bytes [begin, end) of the file; end -1 is its end, and 0 to -1 requests the whole file. `answered` is called before the
  // first byte. TransferError for an unexpected response. Exceptions of the two functions pass through.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void read(const std::string& address, int64_t begin, int64_t end, const std::string& identity,
            const std::function<void(const RemoteFile&)>& answered, const Sink& sink);

  // Returns a small page as text.
  std::string page(const std::string& address);

 private:
  struct Exchange;
  void perform(Exchange& exchange);

  HttpLimits limits_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// Parses "Sun, 06 Nov 1994 08:49:37 GMT" or "2021-03-04T05:06:07.000Z" as seconds since 1970; returns nothing for other text.
std::optional<int64_t> parse_date(const std::string& text);

}  // namespace trireme
