#include "data/tokenizer/word_pattern.h"

#include <array>
#include <string>

#include "base/error.h"
#include "data/tokenizer/word_scanner.h"

namespace trireme {
namespace {

struct PatternRow {
  WordPattern pattern;
  std::string_view name;
  SplitWords split;  // null: uses a kernel
};

// In cl100k white space at the end of the text is one word; elsewhere it is split after its last line break.
constexpr PatternRow kPatterns[] = {
    {WordPattern::gpt2, "gpt2", nullptr},
    {WordPattern::cl100k, "cl100k", split_by<cl100k_word_end<3, FinalSpace::one_word>>},
    {WordPattern::cl100k_long_numbers, "cl100k_long_numbers", split_by<cl100k_word_end<kAnyNumber, FinalSpace::one_word>>},
    {WordPattern::llama3, "llama3", split_by<cl100k_word_end<3, FinalSpace::cut_after_line_break>>},
    {WordPattern::qwen2, "qwen2", split_by<cl100k_word_end<1, FinalSpace::cut_after_line_break>>},
    {WordPattern::o200k, "o200k", split_by<o200k_word_end>},
};

struct RegexRow {
  std::string_view expression;
  WordPattern pattern;
};

#define TRIREME_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define TRIREME_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define TRIREME_SUFFIX R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"

constexpr RegexRow kExpressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", WordPattern::gpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", WordPattern::gpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", WordPattern::gpt2},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     WordPattern::cl100k},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     WordPattern::cl100k_long_numbers},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     WordPattern::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     WordPattern::qwen2},
    {R"([^\r\n\p{L}\p{N}]?)" TRIREME_UPPER "*" TRIREME_LOWER "+" TRIREME_SUFFIX R"(|[^\r\n\p{L}\p{N}]?)" TRIREME_UPPER
     "+" TRIREME_LOWER "*" TRIREME_SUFFIX R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     WordPattern::o200k},
};

}  // namespace

SplitWords splitter_of(WordPattern pattern, const WordKernels& kernels) {
  for (const PatternRow& row : kPatterns)
    if (row.pattern == pattern) return row.split == nullptr ? kernels.split_gpt2 : row.split;
  CHECK_NEVER("a pattern without a row");
}

LineBreaks line_breaks_of(WordPattern pattern) {
  return pattern == WordPattern::gpt2 ? LineBreaks::are_white_space : LineBreaks::belong_to_marks;
}

std::optional<WordPattern> pattern_named(std::string_view name) {
  for (const PatternRow& row : kPatterns)
    if (row.name == name) return row.pattern;
  return std::nullopt;
}

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  for (const PatternRow& row : kPatterns)
    if (row.pattern != WordPattern::cl100k_long_numbers) names.emplace_back(row.name);
  return names;
}

std::string_view name_of(WordPattern pattern) {
  for (const PatternRow& row : kPatterns)
    if (row.pattern == pattern) return row.name;
  CHECK_NEVER("a pattern without a row");
}

std::string_view regex_of(WordPattern pattern) {
  for (const RegexRow& row : kExpressions)
    if (row.pattern == pattern) return row.expression;
  CHECK_NEVER("a pattern without an expression");
}

std::optional<WordPattern> pattern_of_regex(std::string_view expression) {
  for (const RegexRow& row : kExpressions)
    if (row.expression == expression) return row.pattern;
  return std::nullopt;
}

}  // namespace trireme
