// Text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_buffer.h"

namespace trireme {

// Encodes on one thread. It may remember words it has met, so keep one for each thread; what it gives does not depend on that.
// The tokenizer that made it must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // The tokens of one document, added at the end of `tokens`.
  virtual void encode(std::string_view text, TokenBuffer& tokens) = 0;
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

  // Whether a text that is cut after a line feed between a printable character and a letter has the same tokens as the whole.
  virtual bool can_be_cut_at_lines() const = 0;
};

}  // namespace trireme
