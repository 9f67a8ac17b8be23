#include "data/tokenizer/kernels/word_kernels.h"

#include <cstring>

#include "data/tokenizer/kernels/byte_classes.h"
#include "data/tokenizer/kernels/merge_short.h"

#define TRIREME_JOIN_NAMES(a, b) a##b
#define TRIREME_KERNELS_OF(isa) TRIREME_JOIN_NAMES(word_kernels_, isa)
#define TRIREME_NAME_AS_TEXT(isa) #isa
#define TRIREME_NAME_OF(isa) TRIREME_NAME_AS_TEXT(isa)

namespace trireme {
namespace {

// ---- where words start ----
//
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ as arithmetic on the bits of a block. A word starts
//   where the class changes to letter, number or other, or at the U+0020 directly before that;
//   where white space starts;
//   at the last character of white space that is followed by text.
// A contraction moves the start after its apostrophe to its own end.

// Returns the length of the contraction ('s, 'll, ...) at `apostrophe`, or 0.
uint32_t contraction_length(const uint8_t* apostrophe, const uint8_t* end) {
  const auto left = static_cast<size_t>(end - apostrophe);
  if (left < 2) return 0;
  const uint8_t first = apostrophe[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (left < 3) return 0;
  const uint8_t second = apostrophe[2];
  return (second == 'e' && (first == 'r' || first == 'v')) || (second == 'l' && first == 'l') ? 3 : 0;
}

void set_bit(uint32_t i, uint64_t& here, uint64_t& next) { (i < 64 ? here : next) |= uint64_t{1} << (i % 64); }

[[gnu::always_inline]] inline uint64_t starts_of_block(SplitState& state, const uint8_t* origin, ptrdiff_t place,
                                                       uint64_t next_is_text) {
  const ByteClasses& block = state.block;
  const uint64_t other = ~(block.letter | block.number | block.space) & block.valid;
  const uint64_t same = (block.letter & (block.letter << 1 | state.last_letter)) |
                        (block.number & (block.number << 1 | state.last_number)) | (other & (other << 1 | state.last_other));
  const uint64_t text = ~block.space & block.valid;
  const uint64_t text_starts = text & ~same & ~(block.blank << 1 | state.last_blank);
  const uint64_t space_starts = block.space & ~(block.space << 1 | state.last_space);
  const uint64_t last_spaces = (block.space & block.one_byte & (text >> 1 | next_is_text << 63)) | block.last_wide;
  uint64_t starts = (text_starts | space_starts | last_spaces) & block.valid;

  uint64_t moved_from = state.moved_from, moved_to = state.moved_to;
  state.moved_from = state.moved_to = 0;
  for (uint64_t marks = block.apostrophe & starts & (block.letter >> 1 | uint64_t{1} << 63); marks != 0; marks &= marks - 1) {
    const auto i = static_cast<uint32_t>(__builtin_ctzll(marks));
    const uint32_t length = contraction_length(origin + place + i, state.end);
    if (length == 0) continue;
    set_bit(i + 1, moved_from, state.moved_from);
    set_bit(i + length, moved_to, state.moved_to);
  }
  starts = ((starts & ~moved_from) | moved_to) & block.valid;

  state.last_letter = block.letter >> 63;
  state.last_number = block.number >> 63;
  state.last_other = other >> 63;
  state.last_space = block.space >> 63;
  state.last_blank = block.blank >> 63;
  return starts;
}

[[gnu::always_inline]] inline ByteClasses classify_next(SplitState& state, const CharClassTable& table) {
  const auto left = static_cast<uint64_t>(state.end - state.at);
  if (left >= 64) [[likely]]
    return classify(state.at, state.end, table, ~uint64_t{0}, state.spilled);
  uint8_t padded[64 + 8] = {};
  std::memcpy(padded, state.at, left);
  // The padding zeros are classified as "other"; `valid` masks them out.
  return classify(padded, padded + left, table, (uint64_t{1} << left) - 1, state.spilled);
}

SplitResult split_gpt2(SplitState& state, const CharClassTable& table, const uint8_t* origin, size_t blocks, uint32_t* starts) {
  size_t words = 0;
  for (size_t i = 0; i < blocks; ++i) {
    const ptrdiff_t place = state.at - origin - 64;  // position of state.block; negative before the first block
    if (state.at >= state.end) {
      words += write_bits(starts_of_block(state, origin, place, 0), static_cast<uint32_t>(place), starts + words);
      return {words, true};
    }
    const ByteClasses next = classify_next(state, table);
    words += write_bits(starts_of_block(state, origin, place, ~next.space & next.valid & 1), static_cast<uint32_t>(place),
                        starts + words);
    state.block = next;
    state.at += 64;
  }
  return {words, false};
}

// ---- tokens of known words ----

constexpr size_t kBatch = 64;  // words whose entries are prefetched before the first is compared

struct KeyMasks {
  WordKey keep[WordTable::kMaxBytes + 1], length[WordTable::kMaxBytes + 1];
};
constexpr KeyMasks make_key_masks() {
  KeyMasks masks{};
  for (uint64_t length = 0; length <= WordTable::kMaxBytes; ++length) {
    const uint64_t low = length < 8 ? length : 8, high = length > 8 ? length - 8 : 0;
    masks.keep[length] = {low == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * low) - 1, (uint64_t{1} << 8 * high) - 1};
    masks.length[length] = {0, length << 56};
  }
  return masks;
}
alignas(64) constexpr KeyMasks kKeyMasks = make_key_masks();

[[gnu::always_inline]] inline WordKey load_key(const char* word, uint32_t length) {
  if (length > WordTable::kMaxBytes) [[unlikely]]
    return long_key_of(word, length);
  WordKey key;
  std::memcpy(&key, word, sizeof key);
  return {key.low & kKeyMasks.keep[length].low, (key.high & kKeyMasks.keep[length].high) | kKeyMasks.length[length].high};
}

[[gnu::always_inline]] inline int32_t* write_tokens(const WordEntry& entry, int32_t* out) {
#if defined(__AVX2__)
  const __m256i packed = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(entry.tokens)));
  const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 12, 13, 14, -1, -1, -1, -1, -1,
                                          -1, -1, -1, -1, -1, -1, -1, -1);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(packed, spread));
#else
  for (size_t i = 0; i < WordEntry::kMaxTokens; ++i)
    out[i] = entry.tokens[3 * i] | entry.tokens[3 * i + 1] << 8 | entry.tokens[3 * i + 2] << 16;
#endif
  return out + entry.count;
}

int32_t* search_words(const WordSearch& search, int32_t* out) {
  WordKey keys[kBatch];
  const WordEntry* places[kBatch];
  for (size_t begin = 0; begin < search.words; begin += kBatch) {
    const size_t count = search.words - begin < kBatch ? search.words - begin : kBatch;
    const uint32_t* starts = search.starts + begin;
    for (size_t i = 0; i < count; ++i) {
      keys[i] = load_key(search.text + starts[i], starts[i + 1] - starts[i]);
      places[i] = search.entries + WordTable::place_of(WordTable::hash_of(keys[i]));
      __builtin_prefetch(places[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      const WordEntry& entry = *places[i];
      if (((entry.key.low ^ keys[i].low) | (entry.key.high ^ keys[i].high)) == 0) [[likely]] {
        out = write_tokens(entry, out);
      } else {
        out = search.missed(search.context, search.text + starts[i], starts[i + 1] - starts[i], keys[i], out);
      }
    }
  }
  return out;
}

}  // namespace

extern const WordKernels TRIREME_KERNELS_OF(TRIREME_ISA);
const WordKernels TRIREME_KERNELS_OF(TRIREME_ISA) = {TRIREME_NAME_OF(TRIREME_ISA), split_gpt2, search_words, merge_short};

}  // namespace trireme
