// Where a file is: https://host/path, s3://bucket/key, gs://bucket/key, az://account/container/name, file:///path or a plain
// path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class Scheme : uint8_t { file, http, s3, gs, az };

struct Location {
  Scheme scheme = Scheme::file;
  std::string root;   // http: https://host:port, with the user's name if it was typed; stores: the bucket, or account/container
  std::string path;   // http: as typed, from the first /; stores: the key; file: the path
  std::string query;  // http: from the ? on
};

// UserError for an unknown scheme, a missing host or bucket, and characters that cannot be in an address.
Location parse_location(const std::string& text);

// As typed, less what may be secret: names and passwords before the host, and what follows a question mark.
std::string shown(const Location& location);

bool is_store(const Location& location);  // s3, gs or az

// The same place with `path` instead of its own.
Location with_path(const Location& location, std::string path);

// The file of that name in the folder that `folder` is.
Location inside(const Location& folder, const std::string& name);

// The address to ask over HTTP: of a file, and of the bucket or container it is in. Stores other than the clouds' own are named
// by the variables that their tools read too: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST,
// AZURE_STORAGE_BLOB_ENDPOINT.
std::string http_address(const Location& location);
std::string http_address_of_bucket(const Location& location);

// The last part of the path, as a file should be called. UserError if it has none that a file can have.
std::string file_name_of(const Location& location);

// A path inside a folder: relative, without empty parts, "." or "..", control characters, or a name that we give to unfinished
// files. `origin` begins the Failure.
void require_safe_name(std::string_view name, const std::string& origin);

std::string percent_encoded(std::string_view text, std::string_view kept);  // letters, digits, -_.~ and `kept` stay
std::string percent_decoded(std::string_view text);                         // what is not an escape stays

}  // namespace trireme
