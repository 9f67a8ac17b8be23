#include "fetch/http_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>

#include "base/text.h"

namespace trireme {
namespace {

int64_t number_in(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && value >= 0 ? value : -1;
}

bool is_header(std::string_view name, std::string_view lower_case) {
  return std::ranges::equal(name, lower_case, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

}  // namespace

void HttpHeaders::add_line(std::string_view line) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    *this = {};
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) status = static_cast<int>(std::max<int64_t>(number_in(line.substr(space + 1)), 0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
  if (is_header(name, "content-length")) content_length = number_in(value);
  if (is_header(name, "etag")) etag = value;
  if (is_header(name, "last-modified")) last_modified = value;
  if (is_header(name, "location")) location = value;
  if (is_header(name, "retry-after")) retry_after = static_cast<double>(std::max<int64_t>(number_in(value), 0));
  if (is_header(name, "content-range") && value.starts_with("bytes ")) {
    range_first = number_in(value.substr(6));  // "bytes 0-99/1234", "bytes */1234", "bytes 0-99/*"
    if (const size_t slash = value.find('/'); slash != std::string_view::npos) range_total = number_in(value.substr(slash + 1));
  }
}

RemoteFile HttpHeaders::file() const {
  RemoteFile file;
  file.size = status == 206 || status == 416 ? range_total : content_length;
  file.ranges = status == 206 && range_first >= 0 && range_total >= 0;
  file.modified = parse_date(last_modified);
  if (!etag.empty())
    file.identity = etag;
  else if (!last_modified.empty())
    file.identity = fmt::format("{} {}", last_modified, file.size);
  return file;
}

std::optional<int64_t> parse_date(const std::string& text) {
  // strptime expects month names in the user's language, but these are always English.
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  struct tm parts {};
  std::array<char, 4> month{};
  if (std::sscanf(text.c_str(), "%*3s, %d %3s %d %d:%d:%d", &parts.tm_mday, month.data(), &parts.tm_year, &parts.tm_hour,
                  &parts.tm_min, &parts.tm_sec) == 6) {
    const size_t index = kMonths.find(month.data());
    if (index == std::string_view::npos) return std::nullopt;
    parts.tm_mon = static_cast<int>(index / 3);
  } else if (std::sscanf(text.c_str(), "%d-%d-%d%*1[T ]%d:%d:%d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
                         &parts.tm_min, &parts.tm_sec) == 6) {
    --parts.tm_mon;
  } else {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  return ::timegm(&parts);
}

}  // namespace trireme
