// A cache of words and their tokens, laid out for the search loop of kernels/: an entry is half a cache line, and a word is in
// one of the four entries of two adjacent lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/large_array.h"

namespace trireme {

// The key of a word of up to 15 bytes: its bytes, zeros, and its length in the last byte. For longer words see long_key_of.
struct WordKey {
  uint64_t low = 0, high = 0;
  bool operator==(const WordKey&) const = default;
};

struct alignas(32) WordEntry {
  static constexpr size_t kMaxTokens = 5;

  WordKey key;         // all zero: empty
  uint8_t tokens[15];  // three bytes each, little-endian
  uint8_t count;       // number of tokens
};
static_assert(sizeof(WordEntry) == 32);

class WordTable {
 public:
  static constexpr size_t kMaxBytes = 15;      // longest word that a key can hold
  static constexpr size_t kLongestKept = 256;  // bytes; longer words rarely repeat
  static constexpr size_t kWays = 4;

  static constexpr uint32_t kBits = 19;  // 16 MiB
  static constexpr size_t kEntries = size_t{1} << kBits;

  WordTable() : entries_(kEntries) {}
  void clear();
  void add(std::span<const WordEntry> known);

  const WordEntry* entries() const { return entries_.data(); }

  static WordKey key_of(const char* word, size_t length);  // length <= kMaxBytes
  static uint64_t hash_of(WordKey key) { return key.low * 0x9E3779B97F4A7C15U + key.high * 0xC2B2AE3D27D4EB4FU; }

  // Returns the preferred slot of a word: the top bits of its hash.
  static size_t place_of(uint64_t hash) { return hash >> (64 - kBits); }

  // A word with more tokens than an entry holds is marked in its key, so the search loop, which compares whole keys, does not
  // match it. The entry then says where its tokens are.
  static constexpr uint64_t kElsewhere = uint64_t{1} << 63;

  // Returns null if the word is not there. Moves a word found in another slot to its first slot, where the search loop looks.
  const WordEntry* find(WordKey key, uint64_t hash);

  static WordEntry make_entry(WordKey key, std::span<const int32_t> tokens);  // at most WordEntry::kMaxTokens

  // Inserts into the first free of its four slots, or replaces another word.
  void insert(WordKey key, uint64_t hash, std::span<const int32_t> tokens);
  void insert_elsewhere(WordKey key, uint64_t hash, uint32_t where);

 private:
  WordEntry& place_for(uint64_t hash);

  LargeArray<WordEntry> entries_;
};

// Returns the key of a word of more than WordTable::kMaxBytes: a hash of its bytes, or of none of them if it is too long to be
// cached. Static, so that each instruction set compiles its own copy.
[[gnu::always_inline]] static inline WordKey long_key_of(const char* word, size_t length) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15U, kSecond = 0xC2B2AE3D27D4EB4FU;
  WordKey key{length * kFirst, length * kSecond};
  for (size_t at = 0; length <= WordTable::kLongestKept; at += 8) {
    if (at > length - 8) at = length - 8;  // the last eight bytes may overlap the previous ones
    uint64_t eight = 0;
    __builtin_memcpy(&eight, word + at, 8);
    key.low = (key.low ^ eight) * kFirst;
    key.low ^= key.low >> 32;
    key.high = (key.high + eight) * kSecond;
    key.high ^= key.high >> 29;
    if (at + 8 == length) break;
  }
  // 0x40 differs from the length of every short word and from kElsewhere.
  key.high = (key.high >> 8) | uint64_t{0x40} << 56;
  return key;
}

inline bool is_elsewhere(const WordEntry& entry) { return (entry.key.high & WordTable::kElsewhere) != 0; }

inline uint32_t where_of(const WordEntry& entry) {
  uint32_t where = 0;
  __builtin_memcpy(&where, entry.tokens, sizeof where);
  return where;
}

}  // namespace trireme
