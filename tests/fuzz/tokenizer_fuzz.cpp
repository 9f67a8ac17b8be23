// A libFuzzer target: any bytes as a tokenizer file of each kind, and any bytes as text. Built with clang and -DTRIREME_FUZZ=ON:
//   CXX=clang++ cmake -B build-fuzz -DTRIREME_FUZZ=ON -DTRIREME_TESTS=OFF && cmake --build build-fuzz --target tokenizer_fuzz
//   build-fuzz/tokenizer_fuzz -max_total_time=600 -max_len=65536 CORPUS
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

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

void load_sentencepiece(std::string_view bytes) {
  try {
    const SentencePieceTokenizer tokenizer(read_sentencepiece_model("fuzz", bytes), SpecialTokens::recognised, {});
    tokenizer.decode(tokenizer.encode("a text, 12 words'll  do \xE4\xB8\xAD\n"));
  } catch (const UserError&) {
  }
}

BpeDefinition learn(WordPattern pattern) {
  ThreadPool pool(1);
  WordCounter counter(pattern, pool);
  counter.add(
      {"the cat and the other cat sat on the mat, 12 times; it's what they'll do. \u043F\u0440\u0438\u0432\u0435\u0442 "
       "\u4E2D\u6587"});
  const TrainedVocabulary trained = train_bpe(counter.take(), {.vocabulary = 320, .least_count = 1});
  return {.model = BpeModel("learnt", trained.tokens, trained.merges, WholeWords::merged), .pattern = pattern};
}

// A vocabulary and an encoder for every instruction set of this machine. They are kept from run to run, since each has a table of
// 16 MiB; so there are words that they know, and words that they do not.
struct Encoders {
  explicit Encoders(WordPattern pattern) : tokenizer(learn(pattern), SpecialTokens::ordinary) {
    for (const WordKernels* kernels : available_word_kernels())
      encoders.push_back(std::make_unique<BpeEncoder>(tokenizer.definition().model, pattern, *kernels));
  }

  BpeTokenizer tokenizer;
  std::vector<std::unique_ptr<BpeEncoder>> encoders;
};

// On every instruction set the tokens are the same, and decode to the text.
void encode(Encoders& all, std::string_view text) {
  const std::vector<int32_t> tokens = all.tokenizer.encode(text);
  require(all.tokenizer.decode(tokens) == text);
  for (const auto& encoder : all.encoders) {
    TokenBuffer buffer;
    encoder->encode(text, buffer);
    require(std::equal(tokens.begin(), tokens.end(), buffer.tokens().begin(), buffer.tokens().end()));
  }
}

// The same of a text that is one word to whoever merges it, without anything known before.
void merge(const BpeModel& model, std::string_view word) {
  std::vector<int32_t> first;
  for (const WordKernels* kernels : available_word_kernels()) {
    MergeScratch scratch;
    std::vector<int32_t> tokens(word.size());
    tokens.resize(model.merge_word(word, tokens.data(), scratch, *kernels));
    std::string text;
    for (const int32_t token : tokens) text += model.bytes(token);
    require(text == word && (first.empty() || first == tokens));
    first = std::move(tokens);
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
      load_sentencepiece(text);
      break;
    default:
      static Encoders gpt2(WordPattern::gpt2), cl100k(WordPattern::cl100k), o200k(WordPattern::o200k);
      for (Encoders* all : {&gpt2, &cl100k, &o200k}) encode(*all, text);
      if (!text.empty()) merge(gpt2.tokenizer.definition().model, std::string_view(text).substr(0, 200));
  }
  return 0;
}
