// Words and their tokens, in a table laid out for the search loop of kernels/: an entry is half a cache line, and a word is in
// one of the four of two neighbouring lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/large_array.h"

namespace trireme {

// Of a word of up to 15 bytes: these, zeros after them, and its length in the last byte. Of a longer one: see long_key_of.
struct WordKey {
  uint64_t low = 0, high = 0;
  bool operator==(const WordKey&) const = default;
};

struct alignas(32) WordEntry {
  static constexpr size_t kMaxTokens = 5;

  WordKey key;         // all zero: nothing here
  uint8_t tokens[15];  // three bytes each, little-endian
  uint8_t count;       // of tokens
};
static_assert(sizeof(WordEntry) == 32);

class WordTable {
 public:
  static constexpr size_t kMaxBytes = 15;      // that a key can hold
  static constexpr size_t kLongestKept = 256;  // bytes; longer words rarely come twice
  static constexpr size_t kWays = 4;

  static constexpr uint32_t kBits = 19;  // 16 MiB
  static constexpr size_t kEntries = size_t{1} << kBits;

  WordTable() : entries_(kEntries) {}
  void clear();
  void add(std::span<const WordEntry> known);

  const WordEntry* entries() const { return entries_.data(); }

  static WordKey key_of(const char* word, size_t length);  // length <= kMaxBytes
  static uint64_t hash_of(WordKey key) { return key.low * 0x9E3779B97F4A7C15U + key.high * 0xC2B2AE3D27D4EB4FU; }

  // Where a word would like to be: the top bits of its hash.
  static size_t place_of(uint64_t hash) { return hash >> (64 - kBits); }

  // A word of more tokens than an entry holds is marked in its key, so that the search loop, which compares whole keys, leaves it
  // to others; the entry then says where its tokens are.
  static constexpr uint64_t kElsewhere = uint64_t{1} << 63;

  // Null: not there. A word found in another place than its first changes to that, where the search loop looks.
  const WordEntry* find(WordKey key, uint64_t hash);

  static WordEntry make_entry(WordKey key, std::span<const int32_t> tokens);  // at most WordEntry::kMaxTokens

  // In the first free of its four places, or in place of another word.
  void insert(WordKey key, uint64_t hash, std::span<const int32_t> tokens);
  void insert_elsewhere(WordKey key, uint64_t hash, uint32_t where);

 private:
  WordEntry& place_for(uint64_t hash);

  LargeArray<WordEntry> entries_;
};

// The key of a word of more than WordTable::kMaxBytes: a hash of its bytes, or of none of them if it is too long to be kept.
// Static: it is compiled anew for every instruction set that uses it.
[[gnu::always_inline]] static inline WordKey long_key_of(const char* word, size_t length) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15U, kSecond = 0xC2B2AE3D27D4EB4FU;
  WordKey key{length * kFirst, length * kSecond};
  for (size_t at = 0; length <= WordTable::kLongestKept; at += 8) {
    if (at > length - 8) at = length - 8;  // the last eight bytes may overlap those before them
    uint64_t eight = 0;
    __builtin_memcpy(&eight, word + at, 8);
    key.low = (key.low ^ eight) * kFirst;
    key.low ^= key.low >> 32;
    key.high = (key.high + eight) * kSecond;
    key.high ^= key.high >> 29;
    if (at + 8 == length) break;
  }
  // No length of a short word, and not the mark of words kept elsewhere.
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
