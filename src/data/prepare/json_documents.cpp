#include "data/prepare/json_documents.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace trireme::prepare {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

std::optional<std::string_view> JsonDocuments::next_line() {
  size_t searched = at_;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && at_ < buffer_.size())) {
      const std::string_view line = std::string_view(buffer_).substr(at_, end == std::string::npos ? end : end - at_);
      at_ = end == std::string::npos ? buffer_.size() : end + 1;
      ++line_;
      return line;
    }
    if (ended_) return std::nullopt;
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    buffer_.resize(searched + kReadBytes);
    const size_t count = source_.read(std::span(buffer_).subspan(searched));
    buffer_.resize(searched + count);
    ended_ = count < kReadBytes;
  }
}

std::optional<JsonDocument> JsonDocuments::next() {
  while (std::optional<std::string_view> line = next_line()) {
    if (line_ == 1 && line->starts_with(kByteOrderMark)) line->remove_prefix(kByteOrderMark.size());
    scratch_.reset(line->size());
    const LineText found = reader_.read(*line, scratch_);
    if (found.status == LineStatus::blank) continue;
    JsonDocument document{.text = found.text, .line = line_, .lone_surrogates = found.lone_surrogates};
    if (found.status != LineStatus::text) {
      document.problem = describe_problem(found, key_);
      if (found.status == LineStatus::malformed) document.problem += fmt::format(", at byte {}", found.problem_at);
    } else if (!found.ascii && valid_utf8_prefix(found.text) < found.text.size()) {
      document.invalid_utf8 = replace_invalid_utf8(found.text, repaired_);
      document.text = repaired_;
    }
    return document;
  }
  return std::nullopt;
}

}  // namespace trireme::prepare
