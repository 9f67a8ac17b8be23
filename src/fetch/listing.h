// Which objects there are: what a glob or a folder of a store means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fetch/http.h"
#include "fetch/location.h"

namespace trireme {

struct RemoteObject {
  std::string key;
  int64_t size = 0;
  std::optional<int64_t> modified;  // seconds since 1970
};

// The objects whose keys start with location.path, over the public interface of the store. TransferError if it does not answer.
std::vector<RemoteObject> list_public_objects(const Location& prefix, HttpClient& client);

// The answers of the three stores, page by page: what is on one, and where the next begins (empty: there is none).
struct ObjectPage {
  std::vector<RemoteObject> objects;
  std::string next;
};
ObjectPage parse_s3_page(const std::string& xml);
ObjectPage parse_gs_page(const std::string& json);
ObjectPage parse_az_page(const std::string& xml);

}  // namespace trireme
