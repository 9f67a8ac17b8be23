#include "validate/finding.h"

#include <fmt/format.h>

namespace trireme {

std::string text_of(const Finding& finding) {
  std::string text = fmt::format("{}  {}{}{}", finding.kind == FindingKind::failure ? "FAIL" : "warn", finding.node,
                                 finding.node.empty() ? "" : ": ", finding.what);
  if (!finding.seen.empty()) text += ": " + finding.seen;
  if (!finding.expected.empty()) text += ", expected " + finding.expected;
  if (!finding.advice.empty()) text += "; " + finding.advice;
  return text;
}

}  // namespace trireme
