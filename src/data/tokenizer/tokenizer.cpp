#include "data/tokenizer/tokenizer.h"

namespace trireme {
namespace {

class PlainEncoder final : public Encoder {
 public:
  explicit PlainEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void encode(std::string_view text, TokenBuffer& tokens) override { tokens.append(tokenizer_.encode(text)); }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<Encoder> Tokenizer::make_encoder() const { return std::make_unique<PlainEncoder>(*this); }

}  // namespace trireme
