#include "data/prepare/text_cut.h"

#include <cstring>

namespace trireme::prepare {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_safe(std::string_view text, size_t at) {
  return at >= 2 && at < text.size() && is_letter(text[at]) && text[at - 1] == '\n' && text[at - 2] > ' ' && text[at - 2] < 0x7F;
}

}  // namespace

size_t last_safe_cut(std::string_view text) {
  if (text.empty()) return 0;
  for (size_t at = text.size();;) {
    const void* found = ::memrchr(text.data(), '\n', at);
    if (found == nullptr) return 0;
    at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    if (is_safe(text, at + 1)) return at + 1;
  }
}

size_t next_safe_cut(std::string_view text, size_t after) {
  for (size_t at = after;;) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    if (is_safe(text, ++at)) return at;
  }
}

}  // namespace trireme::prepare
