// Words of up to 15 bytes and their tokens, in a table laid out for the search loop of kernels/: an entry is half a cache line,
// and a word is in one of the four of two neighbouring lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/large_array.h"

namespace trireme {

// The bytes of a word, zeros after them, and its length in the last byte. Length 16 stands for a word that is too long.
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
  static constexpr size_t kMaxBytes = 15;
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

inline bool is_elsewhere(const WordEntry& entry) { return (entry.key.high & WordTable::kElsewhere) != 0; }

inline uint32_t where_of(const WordEntry& entry) {
  uint32_t where = 0;
  __builtin_memcpy(&where, entry.tokens, sizeof where);
  return where;
}

}  // namespace trireme
