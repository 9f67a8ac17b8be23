// How text is cut into words before pairs are merged: no token crosses a cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {

enum class WordPattern : uint8_t { gpt2, cl100k, llama3, qwen2, o200k };

// Writes the starts of the words of about the next `blocks` * 64 bytes, as WordKernels::split_gpt2 does.
using SplitWords = SplitResult (*)(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks,
                                   uint32_t* starts);
SplitWords splitter_of(WordPattern pattern, const WordKernels& kernels);

std::optional<WordPattern> pattern_named(std::string_view name);  // "gpt2", "cl100k", ...
std::string_view name_of(WordPattern pattern);
std::optional<WordPattern> pattern_of_regex(std::string_view expression);  // one of the expressions that tokenizer files carry
std::string_view regex_of(WordPattern pattern);

}  // namespace trireme
