#include "data/tokenizer/load_vocabulary.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/byte_alphabet.h"

namespace trireme {

nlohmann::json parse_json(const std::string& source, std::string_view text) {
  try {
    return parse_json(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw UserError("{}: not JSON at byte {}", source, error.byte);
  }
}

int32_t choose_end_of_document(const std::vector<AddedToken>& added) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<|end▁of▁sentence|>", "</s>", "<eos>", "<|eos|>", "[EOS]"})
    for (const AddedToken& token : added)
      if (token.text == name) return token.id;
  return -1;
}

WrittenVocabulary::WrittenVocabulary(std::string source, const nlohmann::json& vocab) : source_(std::move(source)) {
  if (!vocab.is_object() || vocab.empty())
    throw UserError("{}: the vocabulary is not an object of tokens and their numbers", source_);
  ids_.reserve(vocab.size());
  for (const auto& [written, number] : vocab.items()) {
    if (!number.is_number_integer() || number < 0 || number >= PairTable::kMaxTokens)
      throw UserError("{}: token {} has number {}; numbers are 0 to {}", source_, json_text(nlohmann::json(written), kOneLine),
                      json_text(number, kOneLine), PairTable::kMaxTokens - 1);
    const int32_t id = number.get<int32_t>();
    if (tokens_.size() <= static_cast<size_t>(id)) tokens_.resize(static_cast<size_t>(id) + 1);
    // Text outside the byte alphabet cannot result from merging bytes, so only an added token can have it.
    tokens_[static_cast<size_t>(id)] = ByteAlphabet::get().bytes_of(written).value_or("");
    ids_.emplace(written, id);
  }
}

int32_t WrittenVocabulary::find(std::string_view written) const {
  const auto found = ids_.find(std::string(written));
  return found == ids_.end() ? -1 : found->second;
}

int32_t WrittenVocabulary::require(std::string_view written, std::string_view where) const {
  const int32_t id = find(written);
  if (id < 0)
    throw UserError("{}: {} names {}, which is not in the vocabulary", source_, where,
                    json_text(nlohmann::json(written), kOneLine));
  return id;
}

void WrittenVocabulary::add_merge(std::string_view left, std::string_view right, std::string_view where) {
  if (static_cast<int64_t>(merges_.size()) >= PairTable::kMaxMerges)
    throw UserError("{}: more than {} merges", source_, PairTable::kMaxMerges);
  merges_.push_back({require(left, where), require(right, where), require(std::string(left).append(right), where)});
}

std::vector<AddedToken> WrittenVocabulary::find_special_tokens() const {
  std::set<int32_t> merged;
  for (const Merge& merge : merges_) merged.insert(merge.merged);
  std::vector<AddedToken> found;
  for (const auto& [written, id] : ids_)
    if (written.size() > 2 && written.starts_with('<') && written.ends_with('>') && !merged.contains(id))
      found.push_back({written, id, AddedToken::Kind::special});
  std::ranges::sort(found, {}, &AddedToken::id);
  return found;
}

// The last of repeated merges counts, as in GPT-2's own reader and in Hugging Face tokenizers.
void WrittenVocabulary::drop_repeated_merges() {
  std::set<std::pair<int32_t, int32_t>> seen;
  std::vector<Merge> kept;
  for (auto merge = merges_.rbegin(); merge != merges_.rend(); ++merge)
    if (seen.emplace(merge->left, merge->right).second) kept.push_back(*merge);
  std::ranges::reverse(kept);
  merges_ = std::move(kept);
}

BpeModel WrittenVocabulary::take_model(const std::vector<AddedToken>& added, WholeWords whole_words) {
  drop_repeated_merges();
  std::set<int32_t> merged;
  for (const Merge& merge : merges_) merged.insert(merge.merged);
  for (const AddedToken& token : added)
    if (static_cast<size_t>(token.id) < tokens_.size() && tokens_[static_cast<size_t>(token.id)].size() > 1 &&
        !merged.contains(token.id))
      tokens_[static_cast<size_t>(token.id)].clear();
  return {source_, std::move(tokens_), merges_, whole_words};
}

}  // namespace trireme
