#include "data/tokenizer/bpe_model.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

// Finds the last merge that forms `token` from its bytes if adjacent parts merge in order of the id of their concatenation.
// Returns false if the token is never formed. In any text these bytes can become this token only by that merge: as long as
// nothing merges across their ends, the merges between them are the same.
using TokenIds = std::unordered_map<std::string_view, int32_t>;
bool last_merge(const TokenIds& ids, std::string_view token, Merge& last) {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < token.size(); ++i) parts.push_back(token.substr(i, 1));
  while (parts.size() > 1) {
    size_t lowest = parts.size();
    int32_t lowest_id = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ids.find({parts[i].data(), parts[i].size() + parts[i + 1].size()});
      if (found == ids.end() || (lowest != parts.size() && found->second >= lowest_id)) continue;
      lowest = i;
      lowest_id = found->second;
    }
    if (lowest == parts.size()) return false;
    last = {ids.at(parts[lowest]), ids.at(parts[lowest + 1]), lowest_id};
    parts[lowest] = {parts[lowest].data(), parts[lowest].size() + parts[lowest + 1].size()};
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(lowest) + 1);
  }
  return true;
}

}  // namespace

BpeModel::BpeModel(const std::string& source, std::vector<std::string> tokens, const std::vector<Merge>& merges,
                   WholeWords whole_words)
    : tokens_(std::move(tokens)), pairs_(merges), byte_pairs_(BytePair::kCount) {
  if (size() > PairTable::kMaxTokens)
    throw UserError("{}: {} tokens; at most {} can be read", source, size(), PairTable::kMaxTokens);
  byte_tokens_.fill(-1);
  for (size_t id = 0; id < tokens_.size(); ++id)
    if (tokens_[id].size() == 1) byte_tokens_[static_cast<uint8_t>(tokens_[id][0])] = static_cast<int32_t>(id);
  for (size_t byte = 0; byte < 256; ++byte)
    if (byte_tokens_[byte] < 0)
      throw UserError("{}: no token for byte 0x{:02X}; a byte-level vocabulary has one for each of the 256", source, byte);
  find_byte_pairs(merges);
  if (whole_words == WholeWords::looked_up) find_exceptions();
  find_known_words();
}

BpeModel BpeModel::from_ranks(const std::string& source, std::vector<std::string> tokens) {
  TokenIds ids;
  ids.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) ids.try_emplace(tokens[id], static_cast<int32_t>(id));
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (!ids.contains({&text, 1}))
      throw UserError("{}: no token for byte 0x{:02X}; a rank file has one for each of the 256", source, byte);
  }
  std::vector<Merge> merges;
  merges.reserve(tokens.size());
  for (const std::string& token : tokens) {
    Merge last{};
    if (token.size() > 1 && last_merge(ids, token, last)) merges.push_back(last);
  }
  return {source, std::move(tokens), merges, WholeWords::looked_up};
}

void BpeModel::find_byte_pairs(const std::vector<Merge>& merges) {
  const auto pair_at = [&](char first, char second) -> BytePair& {
    const char both[] = {first, second};
    return byte_pairs_[BytePair::place_of(both)];
  };
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second)
      pair_at(static_cast<char>(first), static_cast<char>(second)) = {.first = byte_tokens_[static_cast<size_t>(first)]};
  std::vector<uint32_t> first_use(tokens_.size(),
                                  PairView::kNoRank);  // [token] the lowest rank of a merge with this token as an input
  for (size_t place = 0; place < merges.size(); ++place) {
    const Merge& merge = merges[place];
    const uint32_t rank = pairs_.rank_at(place, merge);
    for (const int32_t part : {merge.left, merge.right})
      first_use[static_cast<size_t>(part)] = std::min(first_use[static_cast<size_t>(part)], rank);
    const std::string &left = bytes(merge.left), &right = bytes(merge.right);
    if (left.empty() || right.empty()) continue;
    BytePair& pair = pair_at(left.back(), right.front());
    if (right.size() == 1) pair.lowest_before = std::min(pair.lowest_before, rank);
    if (left.size() == 1) pair.lowest_after = std::min(pair.lowest_after, rank);
    if (left.size() == 1 && right.size() == 1) pair.rank = std::min(pair.rank, rank);
  }
  for (BytePair& pair : byte_pairs_.span()) {
    if (pair.rank == PairView::kNoRank) continue;
    if (first_use[static_cast<size_t>(pairs_.merged(pair.rank))] <= pair.rank) pair.rank = PairView::kNoRank;
  }
}

void BpeModel::find_known_words() {
  int32_t out[WordTable::kMaxBytes];
  MergeScratch scratch;
  for (int32_t id = 0; id < size() && known_.size() < WordTable::kEntries / 3; ++id) {
    const std::string& token = bytes(id);
    if (token.empty() || token.size() > WordTable::kMaxBytes || merge_word(token, out, scratch, choose_word_kernels()) != 1 ||
        out[0] != id)
      continue;
    known_.push_back(WordTable::make_entry(WordTable::key_of(token.data(), token.size()), {&id, 1}));
  }
}

void BpeModel::find_exceptions() {
  std::vector<int32_t> out;
  MergeScratch scratch;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    out.resize(token.size());
    if (token.empty() ||
        (merge_bytes(token, out.data(), scratch, choose_word_kernels()) == 1 && out[0] == static_cast<int32_t>(id)))
      continue;
    exceptions_.try_emplace(token, static_cast<int32_t>(id));
  }
}

}  // namespace trireme
