// What a check found wrong. Every finding is one line: where, what, what was seen, what was expected, what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

enum class FindingKind : uint8_t {
  failure,  // the node or link must not be used
  warning   // differs from what is usual; a run works
};

struct Finding {
  FindingKind kind = FindingKind::failure;
  std::string check;  // stable name, such as "compute" or "memlock"
  std::string node;   // host name; for a link "h1 - h3"; empty: the whole cluster
  std::string what, seen, expected, advice;
};

constexpr const char* name_of(FindingKind kind) { return kind == FindingKind::failure ? "failure" : "warning"; }

std::string text_of(const Finding& finding);  // one line

}  // namespace trireme
