#include "data/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

constexpr size_t kBlocksAtATime = 64;       // of 64 bytes each; few enough that their words stay in the L1 and L2 caches
constexpr size_t kMaxElsewhere = 1 << 20;   // tokens; 4 MiB
constexpr size_t kMoreElsewhere = 1 << 17;  // upper bound of what one run of words adds

int32_t* write_tokens(const WordEntry& entry, int32_t* out) {
  for (size_t i = 0; i < entry.count; ++i)
    *out++ = entry.tokens[3 * i] | entry.tokens[3 * i + 1] << 8 | entry.tokens[3 * i + 2] << 16;
  return out;
}

}  // namespace

BpeEncoder::BpeEncoder(const BpeModel& model, WordPattern pattern, const WordKernels& kernels)
    : model_(model),
      kernels_(kernels),
      split_(splitter_of(pattern, kernels)),
      classes_(CharClassTable::get()),
      elsewhere_(kMaxElsewhere + kMoreElsewhere),
      starts_(1 + 64 * kBlocksAtATime + 16) {
  words_.add(model.known_words());
  elsewhere_[0] = 0;  // touches the large page now, so that the first text does not wait for it
}

void BpeEncoder::encode(std::string_view text, TokenBuffer& tokens) {
  const char* word = text.data();  // the first word whose end is not known yet
  const char* end = word + text.size();
  SplitState state{.at = reinterpret_cast<const uint8_t*>(word), .end = reinterpret_cast<const uint8_t*>(end)};
  starts_[0] = 0;
  for (bool done = false; !done;) {
    const SplitResult result = split_(state, classes_, reinterpret_cast<const uint8_t*>(word), kBlocksAtATime, &starts_[1]);
    done = result.done;
    if (result.words == 0) continue;
    make_room();
    const uint32_t* starts =
        starts_[1] == 0 ? &starts_[1] : &starts_[0];  // at the start of the text the splitter itself reports 0
    const uint32_t* last = &starts_[result.words];
    int32_t* out = tokens.room(*last);
    // A 16-byte key cannot be loaded near the end of the text.
    const uint32_t* unsafe = last;
    while (unsafe > starts && word + unsafe[-1] + sizeof(WordKey) > end) --unsafe;
    out = kernels_.search({.text = word,
                           .starts = starts,
                           .words = static_cast<size_t>(unsafe - starts),
                           .entries = words_.entries(),
                           .context = this,
                           .missed = missed},
                          out);
    for (; unsafe < last; ++unsafe) out = encode_final(word + unsafe[0], unsafe[1] - unsafe[0], out);
    tokens.end_at(out);
    word += *last;
  }
  if (word != end) {
    const auto length = static_cast<size_t>(end - word);
    tokens.end_at(encode_final(word, length, tokens.room(length)));
  }
}

int32_t* BpeEncoder::missed(void* encoder, const char* word, size_t length, WordKey key, int32_t* out) {
  auto& self = *static_cast<BpeEncoder*>(encoder);
  return length > WordTable::kMaxBytes ? self.encode_long_word({word, length}, key, out)
                                       : self.encode_word({word, length}, key, out);
}

int32_t* BpeEncoder::encode_final(const char* word, size_t length, int32_t* out) {
  return missed(this, word, length, length > WordTable::kMaxBytes ? long_key_of(word, length) : WordTable::key_of(word, length),
                out);
}

int32_t* BpeEncoder::encode_word(std::string_view word, WordKey key, int32_t* out) {
  const uint64_t hash = WordTable::hash_of(key);
  if (const WordEntry* entry = words_.find(key, hash))
    return is_elsewhere(*entry) ? copy_elsewhere(where_of(*entry), out) : write_tokens(*entry, out);
  const size_t count = model_.merge_word(word, out, scratch_, kernels_);
  keep(key, hash, {out, count});
  return out + count;
}

void BpeEncoder::keep(WordKey key, uint64_t hash, std::span<const int32_t> tokens) {
  if (tokens.size() <= WordEntry::kMaxTokens)
    words_.insert(key, hash, tokens);
  else
    words_.insert_elsewhere(key, hash, keep_elsewhere({}, tokens));
}

// The key of a long word is a hash, so the bytes stored with the tokens are compared.
int32_t* BpeEncoder::encode_long_word(std::string_view word, WordKey key, int32_t* out) {
  if (word.size() > WordTable::kLongestKept) return out + model_.merge_word(word, out, scratch_, kernels_);
  const uint64_t hash = WordTable::hash_of(key);
  if (const WordEntry* entry = words_.find(key, hash)) {
    const uint32_t where = where_of(*entry);
    if (word == word_elsewhere(where)) return copy_elsewhere(where, out);
  }
  const size_t count = model_.merge_word(word, out, scratch_, kernels_);
  words_.insert_elsewhere(key, hash, keep_elsewhere(word, {out, count}));
  return out + count;
}

// Layout of an entry in elsewhere_: the number of bytes and of tokens, 16 bits each; the tokens; the bytes.
int32_t* BpeEncoder::copy_elsewhere(uint32_t where, int32_t* out) const {
  const size_t count = static_cast<size_t>(elsewhere_[where]) & 0xFFFF;
  const int32_t* from = &elsewhere_[where + 1];
  // Always copies kSlack tokens, because a loop over `count` would mispredict its end.
  std::memcpy(out, from, TokenBuffer::kSlack * sizeof(int32_t));
  if (count > TokenBuffer::kSlack) [[unlikely]]
    std::copy(from + TokenBuffer::kSlack, from + count, out + TokenBuffer::kSlack);
  return out + count;
}

std::string_view BpeEncoder::word_elsewhere(uint32_t where) const {
  const int32_t* begin = &elsewhere_[where];
  return {reinterpret_cast<const char*>(begin + 1 + (*begin & 0xFFFF)), static_cast<size_t>(*begin >> 16)};
}

uint32_t BpeEncoder::keep_elsewhere(std::string_view word, std::span<const int32_t> tokens) {
  const size_t where = elsewhere_used_;
  int32_t* to = &elsewhere_[where];
  *to++ = static_cast<int32_t>(word.size() << 16 | tokens.size());
  to = std::ranges::copy(tokens, to).out;
  if (!word.empty()) std::memcpy(to, word.data(), word.size());
  elsewhere_used_ += 1 + tokens.size() + (word.size() + 3) / 4;
  return static_cast<uint32_t>(where);
}

// Called between runs of words, when the search loop holds no position in the table.
void BpeEncoder::make_room() {
  if (elsewhere_used_ <= kMaxElsewhere) return;
  elsewhere_used_ = 0;
  words_.clear();
  words_.add(model_.known_words());
}

}  // namespace trireme
