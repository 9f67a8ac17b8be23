// Tokens as text a person can read on one line.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/tokenizer/tokenizer.h"

namespace trireme {

// The tokenizer that --tokenizer names; nothing for an empty name.
std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name);

// The text of tokens with line breaks and other control characters written out (\n), at most `limit` bytes of it.
std::string one_line(const Tokenizer& tokenizer, std::span<const int32_t> tokens, size_t limit);

}  // namespace trireme
