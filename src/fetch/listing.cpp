#include "fetch/listing.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "fetch/transfer_error.h"

namespace trireme {
namespace {

constexpr size_t kMaxObjects = 10'000'000;

[[noreturn]] void fail_damaged() { throw TransferError(Remedy::retry, "the list of objects is damaged"); }

int64_t parse_size(std::string_view text) {
  int64_t size = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || end != text.data() + text.size() || size < 0) fail_damaged();
  return size;
}

// Returns the contents of the first <name> element, or nothing. In the stores' responses these elements have no attributes and
// are never nested in themselves.
std::optional<std::string_view> element(std::string_view xml, std::string_view name, size_t* end = nullptr) {
  const std::string open = fmt::format("<{}>", name), close = fmt::format("</{}>", name);
  const size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t text = begin + open.size(), finish = xml.find(close, text);
  if (finish == std::string_view::npos) fail_damaged();
  if (end != nullptr) *end = finish + close.size();
  return xml.substr(text, finish - text);
}

std::string unescaped(std::string_view xml) {
  struct Entity {
    std::string_view name;
    char character;
  };
  static constexpr std::array kEntities{Entity{"&amp;", '&'}, Entity{"&lt;", '<'}, Entity{"&gt;", '>'}, Entity{"&quot;", '"'},
                                        Entity{"&apos;", '\''}};
  std::string text;
  while (!xml.empty()) {
    size_t taken = 1;
    char character = xml.front();
    for (const Entity& entity : kEntities) {
      if (!xml.starts_with(entity.name)) continue;
      taken = entity.name.size();
      character = entity.character;
    }
    text.push_back(character);
    xml.remove_prefix(taken);
  }
  return text;
}

std::string text_of(std::string_view xml, std::string_view name) {
  const auto found = element(xml, name);
  return found ? unescaped(*found) : std::string{};
}

// Element names differ between S3 and Azure, and only S3 is asked to escape keys.
struct XmlNames {
  std::string_view page, object, key, size, next;
  bool escaped_keys;
};

ObjectPage parse_xml_page(const std::string& xml, const XmlNames& names) {
  if (xml.find(fmt::format("<{}", names.page)) == std::string::npos) fail_damaged();
  ObjectPage page;
  std::string_view rest = xml;
  for (size_t end = 0; const auto object = element(rest, names.object, &end); rest.remove_prefix(end)) {
    const std::string key = text_of(*object, names.key);
    page.objects.push_back({names.escaped_keys ? percent_decoded(key) : key, parse_size(text_of(*object, names.size)),
                            parse_date(text_of(*object, "LastModified").empty() ? text_of(*object, "Last-Modified")
                                                                                : text_of(*object, "LastModified"))});
  }
  page.next = text_of(xml, names.next);
  return page;
}

std::string page_address(const Location& prefix, const std::string& next) {
  const std::string bucket = http_address_of_bucket(prefix);
  const std::string key = percent_encoded(prefix.path, ""), marker = percent_encoded(next, "");
  const auto after = [&](const char* name) { return next.empty() ? std::string{} : fmt::format("&{}={}", name, marker); };
  switch (prefix.scheme) {
    case Scheme::s3:
      return fmt::format("{}/?list-type=2&encoding-type=url&prefix={}{}", bucket, key, after("continuation-token"));
    case Scheme::gs: {
      const std::string host = bucket.substr(0, bucket.size() - prefix.root.size() - 1);
      return fmt::format("{}/storage/v1/b/{}/o?fields=nextPageToken,items(name,size,updated)&prefix={}{}", host, prefix.root, key,
                         after("pageToken"));
    }
    case Scheme::az:
      return fmt::format("{}?restype=container&comp=list&prefix={}{}", bucket, key, after("marker"));
    default:
      CHECK_NEVER("not a store");
  }
}

}  // namespace

ObjectPage parse_s3_page(const std::string& xml) {
  return parse_xml_page(xml, {"ListBucketResult", "Contents", "Key", "Size", "NextContinuationToken", true});
}

ObjectPage parse_az_page(const std::string& xml) {
  return parse_xml_page(xml, {"EnumerationResults", "Blob", "Name", "Content-Length", "NextMarker", false});
}

ObjectPage parse_gs_page(const std::string& json) {
  try {
    const auto answer = parse_json(json);
    ObjectPage page{.objects = {}, .next = answer.value("nextPageToken", "")};
    for (const auto& item : answer.value("items", nlohmann::json::array()))
      page.objects.push_back(
          {item.at("name"), parse_size(item.at("size").get<std::string>()), parse_date(item.value("updated", ""))});
    return page;
  } catch (const nlohmann::json::exception&) {
    fail_damaged();
  }
}

std::vector<RemoteObject> list_public_objects(const Location& prefix, HttpClient& client) {
  std::vector<RemoteObject> objects;
  std::string next;
  do {
    const std::string text = client.page(page_address(prefix, next));
    ObjectPage page = prefix.scheme == Scheme::gs   ? parse_gs_page(text)
                      : prefix.scheme == Scheme::s3 ? parse_s3_page(text)
                                                    : parse_az_page(text);
    if (!page.next.empty() && page.next == next)
      throw TransferError(Remedy::other_source, "the list of objects goes in a circle");
    next = std::move(page.next);
    objects.insert(objects.end(), std::make_move_iterator(page.objects.begin()), std::make_move_iterator(page.objects.end()));
    if (objects.size() > kMaxObjects) throw TransferError(Remedy::other_source, "there are too many objects");
  } while (!next.empty());
  return objects;
}

}  // namespace trireme
