// Converts text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/token_buffer.h"

namespace trireme {

// Encodes on one thread. It may cache words, so keep one per thread; its results do not depend on the cache. The tokenizer that
// made it must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the tokens of one document to `tokens`.
  virtual void encode(std::string_view text, TokenBuffer& tokens) = 0;

  // The same for the text after a cut of the document (Tokenizer::last_cut).
  virtual void encode_rest(std::string_view text, TokenBuffer& tokens) { encode(text, tokens); }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;       // tokens are 0 .. vocabulary - 1
  virtual int32_t end_of_document() const = 0;  // represents no text; encode never returns it unless asked to

  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // Returns an encoder for large amounts of text or for concurrent use.
  virtual std::unique_ptr<Encoder> make_encoder() const;

  // Returns the text of tokens without end-of-document tokens. A number that is not a token becomes U+FFFD, since a model with a
  // padded vocabulary can produce one.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  // Returns the last place in `text`, the start of a longer text, where the whole can be cut without changing its tokens; 0 if
  // there is none. It is between characters, also in invalid UTF-8. The caller has searched the first `searched` bytes before.
  virtual size_t last_cut(std::string_view /*text*/, size_t /*searched*/) const { return 0; }

  // Returns what one token adds to a text that other tokens have started. It may be part of a character.
  virtual std::string decode_within(int32_t token) const { return decode({&token, 1}); }

  // Returns a checksum of data that affects the encoding but is not visible in the tokens' texts, such as scores; 0 if there is
  // none.
  virtual uint32_t rules_checksum() const { return 0; }
};

}  // namespace trireme
