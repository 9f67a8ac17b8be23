// The headers of an answer that a download looks at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fetch/http.h"

namespace trireme {

struct HttpHeaders {
  int status = 0;
  int64_t content_length = -1;
  int64_t range_first = -1, range_total = -1;  // of Content-Range; -1: not said
  std::string etag, last_modified, location;
  double retry_after = 0;  // seconds

  void add_line(std::string_view line);  // a status line starts a new answer
  RemoteFile file() const;
};

}  // namespace trireme
