// How text is cut into words before pairs are merged: no token crosses a cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {

// cl100k_long_numbers is what Hugging Face tokenizers make of tiktoken's own expression for cl100k: to their engine {1,3}+ is not
// a count that gives nothing back but a group that repeats, so that numbers are not cut after three digits.
enum class WordPattern : uint8_t { gpt2, cl100k, cl100k_long_numbers, llama3, qwen2, o200k };

// Writes the starts of the words of about the next `blocks` * 64 bytes, as WordKernels::split_gpt2 does.
using SplitWords = SplitResult (*)(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks,
                                   uint32_t* starts);
SplitWords splitter_of(WordPattern pattern, const WordKernels& kernels);

// What a line break after marks belongs to: white space, in GPT-2's pattern, or the word of the marks, in all later ones.
enum class LineBreaks : uint8_t { are_white_space, belong_to_marks };
LineBreaks line_breaks_of(WordPattern pattern);

std::optional<WordPattern> pattern_named(std::string_view name);  // "gpt2", "cl100k", ...
std::string_view name_of(WordPattern pattern);
std::vector<std::string> pattern_names();  // those that a user may name
// What Hugging Face tokenizers do with the expression of a tokenizer.json: one of those that such files carry.
std::optional<WordPattern> pattern_of_regex(std::string_view expression);
std::string_view regex_of(WordPattern pattern);  // for a tokenizer.json; tiktoken reads it the same, but for cl100k_long_numbers

}  // namespace trireme
