// Detects whether two machines see the same data without reading all of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace trireme {

// Returns one row per entry of model.data.data_prefix and per file of model.tokenizer: {"data /mnt/pile_text_document", "2 files,
// 1234 bytes, checksum 0123abcd"}. The checksum covers the names, the sizes, and the first and last bytes of a limited number of
// files.
std::vector<std::pair<std::string, std::string>> data_fingerprint(const DataSettings& data, const TokenizerSettings& tokenizer);

}  // namespace trireme
