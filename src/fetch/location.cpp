#include "fetch/location.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "fetch/partial_file.h"

namespace trireme {
namespace {

struct SchemeName {
  std::string_view prefix;
  Scheme scheme;
};
constexpr std::array kSchemes{SchemeName{"https://", Scheme::http}, SchemeName{"http://", Scheme::http},
                              SchemeName{"s3://", Scheme::s3},      SchemeName{"gs://", Scheme::gs},
                              SchemeName{"az://", Scheme::az},      SchemeName{"file://", Scheme::file}};

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

const SchemeName* scheme_of(const std::string& text) {
  for (const SchemeName& name : kSchemes)
    if (text.starts_with(name.prefix)) return &name;
  // A word before :// is a scheme; any other text is a path.
  if (const size_t colon = text.find("://"); colon != std::string::npos && colon > 0)
    if (std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(colon), [](unsigned char c) { return std::isalnum(c); }))
      throw UserError("{}: {}:// is not known; use https://, http://, s3://, gs://, az://, file:// or a path", text,
                      text.substr(0, colon));
  return nullptr;
}

Location parse_http(const std::string& text, size_t prefix) {
  if (text.find(' ') != std::string::npos) throw UserError("{}: has a space; write it as %20", text);
  const size_t root_end = std::min(text.find_first_of("/?#", prefix), text.size());
  const size_t path_end = std::min(text.find_first_of("?#", root_end), text.size());
  const size_t query_end = std::min(text.find('#', path_end), text.size());
  Location location{Scheme::http, text.substr(0, root_end), text.substr(root_end, path_end - root_end),
                    text.substr(path_end, query_end - path_end)};
  const size_t host = std::min(text.rfind('@', root_end), root_end) == root_end ? prefix : text.rfind('@', root_end) + 1;
  if (host >= root_end || text[host] == ':') throw UserError("{}: has no host; expected https://host/path", text);
  if (location.path.empty()) location.path = "/";
  return location;
}

Location parse_store(const std::string& text, size_t prefix, Scheme scheme) {
  size_t end = std::min(text.find('/', prefix), text.size());
  if (end == prefix) throw UserError("{}: has no {}", text, scheme == Scheme::az ? "account" : "bucket");
  if (scheme == Scheme::az) {
    const size_t container = end + 1;
    end = container < text.size() ? std::min(text.find('/', container), text.size()) : end;
    if (end <= container) throw UserError("{}: has no container; expected az://account/container/name", text);
  }
  const std::string root = text.substr(prefix, end - prefix);
  // Names of buckets, accounts and containers have only these characters; others could redirect to another host.
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == '/' || c == '$';
  };
  if (!std::ranges::all_of(root, allowed)) throw UserError("{}: {} cannot be the name of a bucket", text, root);
  return {scheme, root, end < text.size() ? text.substr(end + 1) : "", ""};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  while (text.ends_with('/')) text.pop_back();
  if (!text.empty() && text.find("://") == std::string::npos) text = "http://" + text;
  return text;
}

}  // namespace

Location parse_location(const std::string& text) {
  if (text.empty()) throw UserError("an address is empty; expected a URL or a path");
  if (std::ranges::any_of(text, is_control)) throw UserError("an address has a control character in it");
  const SchemeName* name = scheme_of(text);
  if (name == nullptr) return {Scheme::file, "", text, ""};
  const size_t prefix = name->prefix.size();
  switch (name->scheme) {
    case Scheme::http:
      return parse_http(text, prefix);
    case Scheme::file: {
      const std::string path = percent_decoded(text.substr(prefix));
      if (!path.starts_with('/')) throw UserError("{}: expected file:///path", text);
      return {Scheme::file, "", path, ""};
    }
    default:
      return parse_store(text, prefix, name->scheme);
  }
}

std::string shown(const Location& location) {
  switch (location.scheme) {
    case Scheme::file:
      return location.path;
    case Scheme::http: {
      const size_t host = location.root.find("://") + 3;
      const size_t secret_end = location.root.rfind('@');
      const std::string name =
          secret_end == std::string::npos ? location.root.substr(host) : location.root.substr(secret_end + 1);
      return location.root.substr(0, host) + name + location.path;
    }
    default:
      for (const SchemeName& name : kSchemes)
        if (name.scheme == location.scheme) return fmt::format("{}{}/{}", name.prefix, location.root, location.path);
      CHECK_NEVER("a store without a name");
  }
}

bool is_store(const Location& location) { return location.scheme != Scheme::file && location.scheme != Scheme::http; }

Location with_path(const Location& location, std::string path) {
  Location other = location;
  other.path = std::move(path);
  return other;
}

Location inside(const Location& folder, const std::string& name) {
  const std::string separator = folder.path.empty() || folder.path.ends_with('/') ? "" : "/";
  return with_path(folder, folder.path + separator + (folder.scheme == Scheme::http ? percent_encoded(name, "/") : name));
}

std::string http_address_of_bucket(const Location& location) {
  switch (location.scheme) {
    case Scheme::s3: {
      std::string endpoint = variable("AWS_ENDPOINT_URL_S3");
      if (endpoint.empty()) endpoint = variable("AWS_ENDPOINT_URL");
      if (!endpoint.empty()) return endpoint + "/" + location.root;
      // The certificate of *.s3.amazonaws.com does not cover names with dots.
      if (location.root.find('.') != std::string::npos) return "https://s3.amazonaws.com/" + location.root;
      return fmt::format("https://{}.s3.amazonaws.com", location.root);
    }
    case Scheme::gs: {
      const std::string endpoint = variable("STORAGE_EMULATOR_HOST");
      return (endpoint.empty() ? "https://storage.googleapis.com" : endpoint) + "/" + location.root;
    }
    case Scheme::az: {
      const size_t slash = location.root.find('/');
      const std::string endpoint = variable("AZURE_STORAGE_BLOB_ENDPOINT");
      if (!endpoint.empty()) return endpoint + location.root.substr(slash);
      return fmt::format("https://{}.blob.core.windows.net{}", location.root.substr(0, slash), location.root.substr(slash));
    }
    default:
      CHECK_NEVER("not a store");
  }
}

std::string http_address(const Location& location) {
  if (location.scheme == Scheme::http) return location.root + location.path + location.query;
  return http_address_of_bucket(location) + "/" + percent_encoded(location.path, "/");
}

std::string file_name_of(const Location& location) {
  std::string name = location.path.substr(location.path.rfind('/') + 1);
  if (location.scheme == Scheme::http) name = percent_decoded(name);
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    throw UserError("{}: does not end with the name of a file", shown(location));
  require_safe_name(name, shown(location));
  return name;
}

void require_safe_name(std::string_view name, const std::string& origin) {
  const auto refuse = [&](std::string_view why) {
    throw Failure("{}: a file called \"{}\" {}; nothing was copied", origin, name, why);
  };
  if (name.empty() || name.starts_with('/')) refuse("would be written outside the output folder");
  if (std::ranges::any_of(name, is_control)) refuse("has a control character in its name");
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == "..") refuse("would be written outside the output folder");
    if (part.empty() || part == ".") refuse("has an empty part in its name");
    if (part.size() > 200) refuse("has a longer name than files can have");
    begin = end + 1;
  }
  if (is_name_of_unfinished(name)) refuse("has a name that is kept for unfinished files");
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-_.~").find(c) != std::string_view::npos ||
        kept.find(c) != std::string_view::npos)
      encoded.push_back(c);
    else
      encoded += fmt::format("%{:02X}", byte);
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() && std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
        std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0) {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
      decoded.push_back(static_cast<char>(value));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace trireme
