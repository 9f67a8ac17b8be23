#include "cli/tokenizer_options.h"

#include "cli/choice_option.h"

namespace trireme {

void TokenizerArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "--tokenizer", name,
          "tokenizer.json, tokenizer.model, vocab.json beside its merges.txt, a .tiktoken file, a folder with one, or: bytes")
      ->required();
  command.add_flag("--special-tokens", special_tokens,
                   "<|endoftext|> and the like in the text become the special tokens they name");
  command.add_option("--pattern", pattern, "how the tokenizer cuts words, where its files do not tell")
      ->check(one_of(pattern_names()))
      ->option_text("NAME");
  command.add_option("--end-of-document", end_of_document,
                     "the special token that ends documents, where it is none of the usual");
}

std::unique_ptr<Tokenizer> TokenizerArguments::load() const {
  TokenizerOptions options;
  if (special_tokens) options.specials = SpecialTokens::recognised;
  if (!pattern.empty()) options.pattern = pattern_named(pattern);
  if (!end_of_document.empty()) options.end_of_document = end_of_document;
  return load_tokenizer(name, options);
}

}  // namespace trireme
