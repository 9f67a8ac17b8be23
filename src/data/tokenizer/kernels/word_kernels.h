// The loops that tokenizing spends its time in: where words begin, which tokens known words have, and those of a new word.
// Compiled once per instruction set (cmake/tokenizer_kernels.cmake); one set is chosen at run time. Nothing of the standard
// library is used here whose code another file could share, since that would carry instructions to machines that lack them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/tokenizer/merge_view.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/word_table.h"

namespace trireme {

// The classes of 64 bytes of text, bit i for byte i. All bytes of a character have its class; a byte in none of letter, number
// and space is "other", and so are bytes that are not UTF-8.
struct ByteClasses {
  uint64_t letter = 0, number = 0, space = 0;
  uint64_t blank = 0;       // U+0020
  uint64_t apostrophe = 0;  // U+0027
  uint64_t one_byte = 0;    // ASCII
  uint64_t last_wide = 0;   // first byte of a white-space character of several bytes that is followed by something else
  uint64_t valid = 0;       // inside the text
};

// Where the search for words stands in a document, between calls.
struct SplitState {
  const uint8_t* at = nullptr;   // the next block
  const uint8_t* end = nullptr;  // of the document
  ByteClasses block;             // the block before `at`, whose words end where the next one tells
  ByteClasses spilled;           // the bytes in the next block of a character that begins in this one
  uint64_t last_letter = 0, last_number = 0, last_other = 0, last_space = 0, last_blank = 0;  // the byte before `block`: 0 or 1
  uint64_t moved_to = 0, moved_from = 0;  // word starts in the next block that a contraction at the end of this one decides
};

struct SplitResult {
  size_t words = 0;
  bool done = false;  // the document is at its end
};

// Known words of a text. `starts` has words + 1 places relative to text; 16 bytes are readable from each but the last. A word
// that is not at its first place in the table is given to `missed`, which writes its tokens and returns where the next go. Its
// key is that of WordTable::key_of where it has at most WordTable::kMaxBytes, else that of long_key_of.
struct WordSearch {
  const char* text;
  const uint32_t* starts;
  size_t words;
  const WordEntry* entries;
  void* context;
  int32_t* (*missed)(void* context, const char* word, size_t length, WordKey key, int32_t* out);
};

constexpr size_t kMaxShortWord = 64;  // bytes

struct WordKernels {
  const char* name;
  // GPT-2's pattern. Writes the starts of words, relative to `origin`, of up to `blocks` blocks; at most 64 a block, and room for
  // 16 more.
  SplitResult (*split_gpt2)(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks,
                            uint32_t* starts);
  int32_t* (*search)(const WordSearch& search, int32_t* out);
  // The tokens of a word of 1 to kMaxShortWord bytes. Returns how many.
  size_t (*merge_short)(const MergeView& view, const char* word, size_t length, int32_t* out);
};

// The best this machine has, or what TRIREME_CPU_ISA names.
const WordKernels& choose_word_kernels();

// One per instruction set, best first; for tests. Only those this machine has.
std::span<const WordKernels* const> available_word_kernels();

}  // namespace trireme
