// Lists the objects of a store, for globs and folders.
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

// Returns the objects whose keys start with location.path, using the store's public interface. TransferError if it does not
// answer.
std::vector<RemoteObject> list_public_objects(const Location& prefix, HttpClient& client);

// Parsers of the three stores' responses: the objects of a page, and where the next page starts (empty: no more).
struct ObjectPage {
  std::vector<RemoteObject> objects;
  std::string next;
};
ObjectPage parse_s3_page(const std::string& xml);
ObjectPage parse_gs_page(const std::string& json);
ObjectPage parse_az_page(const std::string& xml);

}  // namespace trireme
