#include "convert/hf_import.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/utf8.h"
#include "convert/imported_run.h"
#include "convert/tokenizer_files.h"
#include "data/tokenizer/load_tokenizer.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns "model.layers.0.norm" without "model.".
std::string without_prefix(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// NaN or infinite weights would spread to every output.
void require_finite(const HfFiles::Place& place, std::span<const float> values) {
  const auto is_bad = [](float value) { return !std::isfinite(value); };
  const auto first = std::ranges::find_if(values, is_bad);
  if (first == values.end()) return;
  throw UserError("{}: tensor {} has {} values of {} that are NaN or infinite, the first is element {}; save the model again",
                  place.file.string(), json_excerpt(place.tensor.name), std::count_if(first, values.end(), is_bad), values.size(),
                  first - values.begin());
}

// A tokenizer with more tokens than the model belongs to another model. One that cannot be read here is kept unchecked.
void require_tokenizer_fits(const fs::path& folder, int64_t vocabulary) {
  int64_t tokens = 0;
  try {
    tokens = load_tokenizer(folder.string())->vocabulary();
  } catch (const UserError&) {
    return;
  }
  if (tokens > vocabulary)
    throw UserError("{}: its tokenizer has {} tokens, and by config.json the model has {}: they do not belong together",
                    folder.string(), tokens, vocabulary);
}

}  // namespace

HfImport::HfImport(const fs::path& named) : files_(named), model_(read_hf_config(files_.config(), files_.config_name())) {
  find_tensors();
  require_nothing_else();
  const SafetensorsTensor& word = pieces_.at("embedding.word").front().place->tensor;
  require_tokenizer_fits(files_.folder(), model_.settings.model.vocab_size);
  stored_as_ = word.foreign != nullptr ? word.foreign->name : safetensors_name_of(word.dtype);
  model_.settings.trainer.precision = word.type_name() == "F32" ? Precision::f32 : Precision::bf16;
}

int64_t HfImport::parameters() const { return parameters_of(model_.settings.model); }

const HfFiles::Place* HfImport::find(const std::string& name) const {
  auto found = files_.tensors().find(name);
  // If only the blocks were saved, without a head, the names have no prefix.
  if (found == files_.tensors().end()) found = files_.tensors().find(without_prefix(name, model_.family->prefix));
  return found == files_.tensors().end() ? nullptr : &found->second;
}

void HfImport::find_tensors() {
  const auto is_readable = [](const SafetensorsTensor& tensor) {
    return tensor.type_name() == "F32" || tensor.type_name() == "BF16" || tensor.type_name() == "F16";
  };
  for (MappedTensor& tensor : map_tensors(model_)) {
    CHECK(tensor.side != TensorSide::theirs_only);
    Piece piece{.tensor = std::move(tensor)};
    if (piece.tensor.side == TensorSide::both) {
      piece.place = find(piece.tensor.theirs);
      if (piece.place == nullptr)
        throw UserError("{}: tensor {} is missing; config.json says that this is {} with {} layers", files_.folder().string(),
                        piece.tensor.theirs, model_.family->name, model_.settings.model.num_layers);
      const SafetensorsTensor& stored = piece.place->tensor;
      if (stored.shape != piece.tensor.shape)
        throw UserError("{}: tensor {} is {}, and by config.json it should be {}", piece.place->file.string(),
                        piece.tensor.theirs, stored.shape, piece.tensor.shape);
      if (!is_readable(stored))
        throw UserError("{}: tensor {} is {}; weights are read as F32, BF16 or F16", piece.place->file.string(),
                        piece.tensor.theirs, stored.type_name());
    }
    pieces_[piece.tensor.ours].push_back(std::move(piece));
  }
}

// An unused tensor would change what the model computes, so it is an error.
void HfImport::require_nothing_else() const {
  std::set<std::string> used;
  for (const auto& [ours, pieces] : pieces_)
    for (const Piece& piece : pieces)
      if (piece.place != nullptr) used.insert(piece.place->tensor.name);
  const auto is_tied_head = [&](const std::string& name) {
    return model_.settings.model.share_embeddings_and_output_weights && name == model_.family->tensors.back().theirs;
  };
  for (const auto& [name, place] : files_.tensors()) {
    const bool constant =
        std::ranges::any_of(model_.family->constants, [&name = name](const char* ending) { return name.ends_with(ending); });
    if (!used.contains(name) && !constant && !is_tied_head(name))
      throw UserError("{}: tensor {} has no place in {} with {} layers, as config.json says this is", place.file.string(),
                      json_excerpt(name), model_.family->name, model_.settings.model.num_layers);
  }
}

void HfImport::fill(const std::string& parameter, std::span<float> to) const {
  std::vector<float> values;
  for (const Piece& piece : pieces_.at(parameter)) {
    const auto rows =
        to.subspan(static_cast<size_t>(piece.tensor.first_row * piece.tensor.width), static_cast<size_t>(piece.tensor.count()));
    if (piece.place == nullptr) {
      std::ranges::fill(rows, 0.0f);
      continue;
    }
    values.resize(rows.size());
    HfFiles::read(*piece.place, values);
    require_finite(*piece.place, values);
    rearrange_to_ours(piece.tensor, values, rows);
  }
}

void HfImport::load(std::span<const CheckpointTensor> tensors) const {
  std::vector<float> whole;
  std::string in_whole;
  for (const CheckpointTensor& wanted : tensors) {
    CHECK(wanted.tensor.dtype == DType::f32 && pieces_.contains(wanted.name));
    if (in_whole != wanted.name) {  // the parts of a parameter follow each other
      whole.resize(static_cast<size_t>(wanted.slice.global.count()));
      fill(in_whole = wanted.name, whole);
    }
    for (const CopyRun& run : common_runs(TensorSlice::whole(wanted.slice.global), wanted.slice))
      copy_elements(whole.data() + run.from, wanted, run.to, run.count);
  }
}

std::vector<fs::path> HfImport::files() const {
  std::set<fs::path> files;
  for (const auto& [name, place] : files_.tensors()) files.insert(place.file);
  return {files.begin(), files.end()};
}

std::string HfImport::write(const fs::path& output) const {
  return write_imported_run(
      output, {.settings = model_.settings,
               .heading = fmt::format("# {} of {} parameters, from {}\n", model_.family->name, parameters(),
                                      as_utf8(files_.folder().string())),
               .fill = [this](const std::string& name, std::span<float> to) { fill(name, to); },
               .tokenizer = [this](const fs::path& to, const fs::path& final_place,
                                   Tree& recipe) { return import_tokenizer(files_.folder(), to, final_place, recipe); }});
}

}  // namespace trireme
