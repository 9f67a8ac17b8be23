// The options that select a tokenizer.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "data/tokenizer/load_tokenizer.h"

namespace trireme {

struct TokenizerArguments {
  std::string name;
  std::string pattern, end_of_document;  // empty: from the file
  bool special_tokens = false;

  void add_to(CLI::App& command);
  std::unique_ptr<Tokenizer> load() const;
};

}  // namespace trireme
