// The location of a file: https://host/path, s3://bucket/key, gs://bucket/key, az://account/container/name, file:///path or a
// plain path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class Scheme : uint8_t { file, http, s3, gs, az };

struct Location {
  Scheme scheme = Scheme::file;
  std::string root;   // http: https://host:port, including the user's name if given; stores: the bucket, or account/container
  std::string path;   // http: as typed, from the first /; stores: the key; file: the path
  std::string query;  // http: from the ?
};

// UserError for an unknown scheme, a missing host or bucket, and characters that are invalid in an address.
Location parse_location(const std::string& text);

// Returns the location as typed, without possible secrets: user names and passwords before the host, and the query.
std::string shown(const Location& location);

bool is_store(const Location& location);  // s3, gs or az

// Returns the location with another path.
Location with_path(const Location& location, std::string path);

// Returns the file of that name in `folder`.
Location inside(const Location& folder, const std::string& name);

// Return the HTTP address of a file, and of its bucket or container. Other stores are selected by the variables that the stores'
// tools read too: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST, AZURE_STORAGE_BLOB_ENDPOINT.
std::string http_address(const Location& location);
std::string http_address_of_bucket(const Location& location);

// Returns the last part of the path as a file name. UserError if it is not a valid one.
std::string file_name_of(const Location& location);

// Failure, starting with `origin`, unless the name is a path inside a folder: relative, without empty parts, ".", "..", control
// characters, or the names of our unfinished files.
void require_safe_name(std::string_view name, const std::string& origin);

std::string percent_encoded(std::string_view text, std::string_view kept);  // keeps letters, digits, -_.~ and `kept`
std::string percent_decoded(std::string_view text);                         // keeps invalid escapes

}  // namespace trireme
