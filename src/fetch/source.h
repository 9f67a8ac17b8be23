// A place to read a file from, whatever kind it is: over HTTP, from the file system, or through the tool of a store.
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
  std::optional<StoreTool> tool;  // that has to be used; nothing: its bytes can be read here
};

// Reads from sources, one at a time: each thread has its own. A client for HTTP is made when the first source needs it.
class SourceReader {
 public:
  explicit SourceReader(const HttpLimits& limits) : limits_(limits) {}

  // What is there. Not for sources with a tool.
  RemoteFile probe(const Location& location);

  // Bytes [begin, end) of it, end -1 for the rest; `identity` is what they must belong to, empty if anything will do.
  void read(const Location& location, int64_t begin, int64_t end, const std::string& identity,
            const std::function<void(const RemoteFile&)>& answered, const std::function<void(std::span<const std::byte>)>& sink);

  HttpClient& http();
  const HttpLimits& limits() const { return limits_; }

 private:
  HttpLimits limits_;
  std::unique_ptr<HttpClient> http_;
};

// What a file of this machine is.
RemoteFile local_file(const std::string& path);

}  // namespace trireme
