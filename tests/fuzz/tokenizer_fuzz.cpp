// A libFuzzer target: any bytes as a tokenizer file of each kind, and any bytes as text. Built with clang and -DTRIREME_FUZZ=ON:
//   CXX=clang++ cmake -B build-fuzz -DTRIREME_FUZZ=ON -DTRIREME_TESTS=OFF && cmake --build build-fuzz --target tokenizer_fuzz
//   build-fuzz/tokenizer_fuzz -max_total_time=600 -max_len=65536 CORPUS
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/json_text.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/load_tokenizer.h"

namespace {

using namespace trireme;

void require(bool condition) {
  if (!condition) std::abort();
}

// Refusing is fine, in whatever words; anything else that is not a tokenizer is a bug.
template <class Read>
void load(Read read) {
  try {
    const BpeTokenizer tokenizer(read(), SpecialTokens::recognised);
    tokenizer.decode(tokenizer.encode("a text, 12 words'll  do \xE4\xB8\xAD\n"));
  } catch (const UserError&) {
  }
}

const BpeTokenizer& learnt(WordPattern pattern) {
  static const auto make = [](WordPattern wanted) {
    ThreadPool pool(1);
    WordCounter counter(wanted, pool);
    counter.add(
        {"the cat and the other cat sat on the mat, 12 times; it's what they'll do. \u043F\u0440\u0438\u0432\u0435\u0442 "
         "\u4E2D\u6587"});
    const TrainedVocabulary trained = train_bpe(counter.take(), {.vocabulary = 320, .least_count = 1});
    return BpeDefinition{.model = BpeModel("learnt", trained.tokens, trained.merges, WholeWords::merged), .pattern = wanted};
  };
  static const BpeTokenizer gpt2(make(WordPattern::gpt2), SpecialTokens::ordinary),
      cl100k(make(WordPattern::cl100k), SpecialTokens::ordinary), o200k(make(WordPattern::o200k), SpecialTokens::ordinary);
  return pattern == WordPattern::gpt2 ? gpt2 : pattern == WordPattern::cl100k ? cl100k : o200k;
}

// On every instruction set of this machine the tokens are the same, and decode to the text.
void encode(std::string_view text) {
  for (const WordPattern pattern : {WordPattern::gpt2, WordPattern::cl100k, WordPattern::o200k}) {
    const BpeTokenizer& tokenizer = learnt(pattern);
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    require(tokenizer.decode(tokens) == text);
    for (const WordKernels* kernels : available_word_kernels()) {
      TokenBuffer buffer;
      BpeEncoder(tokenizer.definition().model, pattern, *kernels).encode(text, buffer);
      require(std::equal(tokens.begin(), tokens.end(), buffer.tokens().begin(), buffer.tokens().end()));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      load([&] { return read_tokenizer_json("fuzz", text); });
      break;
    case 1:
      load([&] { return read_rank_file("fuzz", text, WordPattern::o200k); });
      break;
    case 2: {
      const size_t half = text.size() / 2;
      load([&] { return read_vocab_and_merges("fuzz", text.substr(0, half), text.substr(half)); });
      break;
    }
    case 3:
      JsonTextReader("text").read(text);
      break;
    default:
      encode(text);
  }
  return 0;
}
