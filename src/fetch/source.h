// A source of a file of any kind: HTTP, the file system, or a store's tool.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "fetch/http.h"
#include "fetch/location.h"
#include "fetch/store_tool.h"

namespace trireme {

struct Source {
  Location location;
  std::optional<StoreTool> tool;  // the tool to use; no value: read directly
};

// Reads from sources. Not thread-safe: each thread has its own. The HTTP client is created at the first use.
class SourceReader {
 public:
  explicit SourceReader(const HttpLimits& limits) : limits_(limits) {}

  // Describes the file. Not for sources with a tool.
  RemoteFile probe(const Location& location);

  // Reads bytes [begin, end), end -1 for the rest. `identity` is the expected identity of the file; empty: any.
  void read(const Location& location, int64_t begin, int64_t end, const std::string& identity,
            const std::function<void(const RemoteFile&)>& answered, const std::function<void(std::span<const std::byte>)>& sink);

  HttpClient& http();
  const HttpLimits& limits() const { return limits_; }

 private:
  HttpLimits limits_;
  std::unique_ptr<HttpClient> http_;
};

// Describes a file of this machine.
RemoteFile local_file(const std::string& path);

}  // namespace trireme
