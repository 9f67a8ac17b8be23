// Text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/token_buffer.h"

namespace trireme {

// Encodes on one thread. It may remember words it has met, so keep one for each thread; what it gives does not depend on that.
// The tokenizer that made it must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // The tokens of one document, added at the end of `tokens`.
  virtual void encode(std::string_view text, TokenBuffer& tokens) = 0;

  // The same for what follows a cut of the document (Tokenizer::last_cut).
  virtual void encode_rest(std::string_view text, TokenBuffer& tokens) { encode(text, tokens); }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;       // tokens are 0 .. vocabulary - 1
  virtual int32_t end_of_document() const = 0;  // stands for no text; encode never gives it unless asked to

  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // For much text, or on several threads at once.
  virtual std::unique_ptr<Encoder> make_encoder() const;

  // The text of tokens. The end of document is left out; a number that is no token becomes U+FFFD, since a model whose
  // vocabulary was rounded up can produce one.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  // The last place in `text`, the beginning of a longer one, where the whole can be cut in two without changing its tokens; 0:
  // there is none. It lies between characters, also those of broken UTF-8. The first `searched` bytes were searched before.
  virtual size_t last_cut(std::string_view /*text*/, size_t /*searched*/) const { return 0; }

  // What one token adds to a text that others have begun. It may be a part of a character.
  virtual std::string decode_within(int32_t token) const { return decode({&token, 1}); }

  // A checksum over what the texts of the tokens do not tell and the tokens of a text depend on, such as scores; 0: nothing.
  virtual uint32_t rules_checksum() const { return 0; }
};

}  // namespace trireme
