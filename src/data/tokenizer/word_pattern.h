// How text is split into words before pairs are merged: no token crosses a word boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {

// cl100k_long_numbers is what Hugging Face tokenizers make of tiktoken's own expression for cl100k. Their engine reads {1,3}+ as
// a repeated group instead of a possessive quantifier, so numbers are not split after three digits.
enum class WordPattern : uint8_t { gpt2, cl100k, cl100k_long_numbers, llama3, qwen2, o200k };

// Writes the word starts of about the next `blocks` * 64 bytes, like WordKernels::split_gpt2.
using SplitWords = SplitResult (*)(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks,
                                   uint32_t* starts);
SplitWords splitter_of(WordPattern pattern, const WordKernels& kernels);

// Whether a line break after marks belongs to white space (GPT-2's pattern) or to the word of the marks (all later ones).
enum class LineBreaks : uint8_t { are_white_space, belong_to_marks };
LineBreaks line_breaks_of(WordPattern pattern);

std::optional<WordPattern> pattern_named(std::string_view name);  // "gpt2", "cl100k", ...
std::string_view name_of(WordPattern pattern);
std::vector<std::string> pattern_names();  // patterns that a user may name
// Returns the pattern equal to what Hugging Face tokenizers do with this expression of a tokenizer.json, if it is a known one.
std::optional<WordPattern> pattern_of_regex(std::string_view expression);
std::string_view regex_of(
    WordPattern pattern);  // for a tokenizer.json; tiktoken reads it the same way, except cl100k_long_numbers

}  // namespace trireme
