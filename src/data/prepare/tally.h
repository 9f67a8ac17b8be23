// Counts noteworthy findings in the input: how often, and where first.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme::prepare {

// Same order as the table in tally.cpp.
enum class Finding : uint8_t {
  malformed_json,
  no_key,
  not_text,
  too_long,
  damaged_stream,
  unreadable_file,
  lone_surrogate,
  invalid_utf8,
  byte_order_mark,
  blank_line,
  empty_document,
  empty_file,
  count,
};

enum class FindingKind : uint8_t {
  error,   // stops the run, or is skipped if the user says so
  repair,  // the text was changed to make it usable
  note,    // normal
};

FindingKind kind_of(Finding finding);
const char* name_of(Finding finding);    // "invalid_utf8", for files
const char* plural_of(Finding finding);  // "invalid UTF-8 sequences replaced by U+FFFD", for people

class Tally {
 public:
  struct Entry {
    int64_t count = 0;
    std::string first;  // the first place and what was found; empty for most notes
  };

  void add(Finding finding, int64_t count = 1) { at(finding).count += count; }
  // `place` is called only for the first occurrence.
  template <class Place>
  void add(Finding finding, int64_t count, Place&& place) {
    Entry& entry = at(finding);
    if (entry.count == 0 && count > 0) entry.first = place();
    entry.count += count;
  }
  void add(const Tally& later);
  void clear() { *this = {}; }

  const Entry& operator[](Finding finding) const { return entries_[static_cast<size_t>(finding)]; }
  int64_t count(FindingKind kind) const;
  const Entry* first_error() const;  // null if there is none

 private:
  Entry& at(Finding finding) { return entries_[static_cast<size_t>(finding)]; }
  std::array<Entry, static_cast<size_t>(Finding::count)> entries_;
};

nlohmann::json to_json(const Tally& tally);  // those that occurred, by name
Tally tally_from_json(const nlohmann::json& json);

}  // namespace trireme::prepare
