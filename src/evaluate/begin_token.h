// The token that begins a text, by the files of a tokenizer that transformers reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

struct BeginToken {
  std::optional<int32_t> id;  // bos_token of tokenizer_config.json
  bool is_added = false;      // whether the tokenizer puts it before every text
};

// `tokenizer`: a folder, or a file in it. As transformers decides: by the post-processor of tokenizer.json; without that file, by
// add_bos_token of tokenizer_config.json, which sentencepiece models have on unless it says otherwise.
BeginToken begin_token_of(const std::filesystem::path& tokenizer);

}  // namespace trireme
