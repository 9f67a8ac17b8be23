// Text to tokens and back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocabulary() const = 0;       // tokens are 0 .. vocabulary - 1
  virtual int32_t end_of_document() const = 0;  // stands for no text; encode never gives it

  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The text of tokens. The end of document is left out; a number that is no token becomes U+FFFD, since a model whose
  // vocabulary was rounded up can produce one.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

}  // namespace trireme
