// Whether two machines see the same data, without reading it all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace trireme {

// One row per entry of model.data.data_prefix and per file of model.tokenizer: {"data /mnt/pile_text_document", "2 files, 1234
// bytes, checksum 0123abcd"}. The checksum is of the names, the sizes, and the first and last bytes of up to some files.
std::vector<std::pair<std::string, std::string>> data_fingerprint(const DataSettings& data, const TokenizerSettings& tokenizer);

}  // namespace trireme
