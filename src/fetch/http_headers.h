// The response headers that a download uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fetch/http.h"

namespace trireme {

struct HttpHeaders {
  int status = 0;
  int64_t content_length = -1;
  int64_t range_first = -1, range_total = -1;  // from Content-Range; -1: not given
  std::string etag, last_modified, location;
  double retry_after = 0;  // seconds

  void add_line(std::string_view line);  // a status line starts a new response
  RemoteFile file() const;
};

}  // namespace trireme
