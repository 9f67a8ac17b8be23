// The tokenizer of a model that is evaluated.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/tokenizer.h"
#include "train/model_source.h"

namespace trireme {

// The model's own, or the one that the user gave with --tokenizer. UserError if there is none that can be read.
std::unique_ptr<Tokenizer> open_model_tokenizer(const ModelSource& source, const std::string& given);

}  // namespace trireme
