// Shows tokens as readable text on one line.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/tokenizer/tokenizer.h"

namespace trireme {

// Returns the tokenizer that --tokenizer names; null for an empty name.
std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name);

// Returns the text of tokens with line breaks and other control characters escaped (\n), at most `limit` bytes.
std::string one_line(const Tokenizer& tokenizer, std::span<const int32_t> tokens, size_t limit);

}  // namespace trireme
