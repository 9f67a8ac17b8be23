// The hot loops of tokenizing: finding word starts, looking up known words, merging new words. They are compiled once per
// instruction set (cmake/tokenizer_kernels.cmake); one set is chosen at run time. They must not use standard library code that
// other files could share at link time, since that would run instructions on machines that lack them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/tokenizer/merge_view.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/word_table.h"

namespace trireme {

// Character classes of 64 bytes of text, bit i for byte i. All bytes of a character have its class. A byte that is not letter,
// number or space is "other", including invalid UTF-8.
struct ByteClasses {
  uint64_t letter = 0, number = 0, space = 0;
  uint64_t blank = 0;       // U+0020
  uint64_t apostrophe = 0;  // U+0027
  uint64_t one_byte = 0;    // ASCII
  uint64_t last_wide = 0;   // first byte of a multi-byte white-space character that is followed by something else
  uint64_t valid = 0;       // inside the text
};

// The state of the word search in a document between calls.
struct SplitState {
  const uint8_t* at = nullptr;   // the next block
  const uint8_t* end = nullptr;  // of the document
  ByteClasses block;             // the block before `at`; its last word ends where the next block says
  ByteClasses spilled;           // bytes in the next block of a character that starts in this one
  uint64_t last_letter = 0, last_number = 0, last_other = 0, last_space = 0, last_blank = 0;  // the byte before `block`: 0 or 1
  uint64_t moved_to = 0, moved_from = 0;  // word starts in the next block that a contraction at the end of this one changes
};

struct SplitResult {
  size_t words = 0;
  bool done = false;  // the end of the document is reached
};

// A lookup of known words. `starts` has words + 1 offsets relative to text; 16 bytes must be readable at each but the last. A
// word that is not in its first slot of the table is passed to `missed`, which writes its tokens and returns the next output
// position. Its key is that of WordTable::key_of up to WordTable::kMaxBytes, else that of long_key_of.
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
  // GPT-2's pattern. Writes the word starts, relative to `origin`, of up to `blocks` blocks: at most 64 per block. Needs room for
  // 16 more.
  SplitResult (*split_gpt2)(SplitState& state, const CharClassTable& classes, const uint8_t* origin, size_t blocks,
                            uint32_t* starts);
  int32_t* (*search)(const WordSearch& search, int32_t* out);
  // Writes the tokens of a word of 1 to kMaxShortWord bytes. Returns their number.
  size_t (*merge_short)(const MergeView& view, const char* word, size_t length, int32_t* out);
};

// Returns the fastest set for this machine, or the one that TRIREME_CPU_ISA names.
const WordKernels& choose_word_kernels();

// Returns all sets that this machine supports, fastest first; for tests.
std::span<const WordKernels* const> available_word_kernels();

}  // namespace trireme
