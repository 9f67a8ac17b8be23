#include <algorithm>

#include "data/byte_tokenizer.h"
#include "data/prepare/text_cut.h"
#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme::prepare {

CutText can_cut_text(const Tokenizer& tokenizer) {
  if (dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr) return CutText::yes;
  const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr || bpe->definition().adds_prefix_space) return CutText::no;
  // An added token with a line feed in it could lie across the place.
  const auto has_line_feed = [](const AddedToken& token) { return token.text.find('\n') != std::string::npos; };
  return std::ranges::any_of(bpe->definition().added, has_line_feed) ? CutText::no : CutText::yes;
}

}  // namespace trireme::prepare
