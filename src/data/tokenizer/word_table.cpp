#include "data/tokenizer/word_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace trireme {

namespace {

// Loads the first bytes of a word as a number: at most eight, with at most two loads.
uint64_t load_bytes(const char* word, size_t length) {
  const auto load = [&]<class T>(T value, size_t at) {
    std::memcpy(&value, word + at, sizeof value);
    return uint64_t{value};
  };
  if (length >= 8) return load(uint64_t{}, 0);
  if (length >= 4) return load(uint32_t{}, 0) | load(uint32_t{}, length - 4) << 8 * (length - 4);
  if (length >= 2) return load(uint16_t{}, 0) | load(uint16_t{}, length - 2) << 8 * (length - 2);
  return length == 1 ? load(uint8_t{}, 0) : 0;
}

}  // namespace

WordKey WordTable::key_of(const char* word, size_t length) {
  return {load_bytes(word, length), (length > 8 ? load_bytes(word + 8, length - 8) : 0) | uint64_t{length} << 56};
}

WordEntry WordTable::make_entry(WordKey key, std::span<const int32_t> tokens) {
  CHECK(tokens.size() <= WordEntry::kMaxTokens);
  uint64_t wide[WordEntry::kMaxTokens] = {};
  std::ranges::copy(tokens, wide);
  const uint64_t packed[] = {wide[0] | wide[1] << 24 | wide[2] << 48, wide[2] >> 16 | wide[3] << 8 | wide[4] << 32};
  WordEntry entry{.key = key, .tokens = {}, .count = static_cast<uint8_t>(tokens.size())};
  std::memcpy(entry.tokens, packed, sizeof entry.tokens);
  return entry;
}

const WordEntry* WordTable::find(WordKey key, uint64_t hash) {
  const size_t place = place_of(hash);
  for (size_t way = 0; way < kWays; ++way) {
    WordEntry& entry = entries_[place ^ way];
    if (entry.count == 0) return nullptr;  // slots are filled in this order
    if (entry.key.low != key.low || (entry.key.high & ~kElsewhere) != key.high) continue;
    if (way != 0) std::swap(entries_[place], entry);
    return &entries_[place];
  }
  return nullptr;
}

WordEntry& WordTable::place_for(uint64_t hash) {
  const size_t place = place_of(hash);
  for (size_t way = 0; way < kWays; ++way) {
    if (entries_[place ^ way].count == 0) return entries_[place ^ way];
  }
  return entries_[place ^ (1 + hash % (kWays - 1))];  // any but the first slot, which holds the most recently used word
}

void WordTable::insert(WordKey key, uint64_t hash, std::span<const int32_t> tokens) { place_for(hash) = make_entry(key, tokens); }

void WordTable::insert_elsewhere(WordKey key, uint64_t hash, uint32_t where) {
  WordEntry& entry = place_for(hash);
  entry.key = {key.low, key.high | kElsewhere};
  std::memcpy(entry.tokens, &where, sizeof where);
  entry.count = 1;
}

void WordTable::clear() { std::memset(static_cast<void*>(entries_.data()), 0, entries_.size() * sizeof(WordEntry)); }

void WordTable::add(std::span<const WordEntry> known) {
  for (const WordEntry& entry : known) place_for(hash_of(entry.key)) = entry;
}

}  // namespace trireme
