#include "data/prepare/tally.h"

#include <nlohmann/json.hpp>

namespace trireme::prepare {
namespace {

struct Row {
  FindingKind kind;
  const char* name;
  const char* plural;
};

constexpr std::array<Row, static_cast<size_t>(Finding::count)> kRows{{
    {FindingKind::error, "malformed_json", "lines that are not JSON"},
    {FindingKind::error, "no_key", "lines without the key"},
    {FindingKind::error, "not_text", "lines whose key has no text"},
    {FindingKind::error, "too_long", "documents too long for --memory"},
    {FindingKind::error, "damaged_stream", "damaged files, read up to the damage"},
    {FindingKind::error, "unreadable_file", "files that cannot be read"},
    {FindingKind::repair, "lone_surrogate", "lone surrogates replaced by U+FFFD"},
    {FindingKind::repair, "invalid_utf8", "invalid UTF-8 sequences replaced by U+FFFD"},
    {FindingKind::repair, "byte_order_mark", "byte order marks removed"},
    {FindingKind::note, "blank_line", "blank lines"},
    {FindingKind::note, "empty_document", "empty documents"},
    {FindingKind::note, "empty_file", "empty files"},
}};

const Row& row_of(Finding finding) { return kRows[static_cast<size_t>(finding)]; }

constexpr auto all_findings() {
  std::array<Finding, static_cast<size_t>(Finding::count)> findings{};
  for (size_t i = 0; i < findings.size(); ++i) findings[i] = static_cast<Finding>(i);
  return findings;
}

}  // namespace

FindingKind kind_of(Finding finding) { return row_of(finding).kind; }
const char* name_of(Finding finding) { return row_of(finding).name; }
const char* plural_of(Finding finding) { return row_of(finding).plural; }

void Tally::add(const Tally& later) {
  for (const Finding finding : all_findings()) add(finding, later[finding].count, [&] { return later[finding].first; });
}

int64_t Tally::count(FindingKind kind) const {
  int64_t sum = 0;
  for (const Finding finding : all_findings())
    if (kind_of(finding) == kind) sum += (*this)[finding].count;
  return sum;
}

const Tally::Entry* Tally::first_error() const {
  for (const Finding finding : all_findings())
    if (kind_of(finding) == FindingKind::error && (*this)[finding].count > 0) return &(*this)[finding];
  return nullptr;
}

nlohmann::json to_json(const Tally& tally) {
  nlohmann::json json = nlohmann::json::object();
  for (const Finding finding : all_findings())
    if (const Tally::Entry& entry = tally[finding]; entry.count > 0)
      json[name_of(finding)] = {{"count", entry.count}, {"first", entry.first}};
  return json;
}

Tally tally_from_json(const nlohmann::json& json) {
  Tally tally;
  for (const Finding finding : all_findings())
    if (const auto entry = json.find(name_of(finding)); entry != json.end())
      tally.add(finding, entry->at("count").get<int64_t>(), [&] { return entry->at("first").get<std::string>(); });
  return tally;
}

}  // namespace trireme::prepare
