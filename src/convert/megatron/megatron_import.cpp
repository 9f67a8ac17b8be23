#include "convert/megatron/megatron_import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "convert/imported_run.h"
#include "convert/megatron/parameter_names.h"
#include "convert/megatron/qkv_rows.h"
#include "convert/tokenizer_files.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecondHalf = ".second";  // of mlp.up, as NeMo stores it apart
constexpr const char* kFirstMoment = "first_moment.";
constexpr const char* kSecondMoment = "second_moment.";

Shape with_rows(const Shape& shape, int64_t rows) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = rows;
  return Shape(dims);
}

Shape zeros_like(const Shape& shape) { return Shape(std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0)); }

Shape with_front(int64_t front, const Shape& shape) {
  std::vector<int64_t> dims{front};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

// "blocks.12.norm1.weight" as "blocks.*.norm1.weight"; the layer is -1 for other names.
std::pair<std::string, int64_t> without_layer(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return {name, -1};
  const size_t dot = name.find('.', kBlocks.size());
  return {"blocks.*" + name.substr(dot), std::stoll(name.substr(kBlocks.size(), dot - kBlocks.size()))};
}

// Adds a tensor as a piece at `offset`.
void add_piece(ShardedTensor& to, const TorchTensor& tensor, const Shape& offset) {
  to.pieces.push_back({offset, tensor.shape, [tensor] { return tensor; }});
}

// The number of tokens in a vocab.json.
int64_t tokens_in(const ByteView& vocabulary) {
  const nlohmann::json tokens = parse_strict_json(vocabulary.text(), vocabulary.where);
  constexpr int64_t kMostTokens = int64_t{1} << 32;
  int64_t count = 0;
  if (tokens.is_object())
    for (const auto& [text, id] : tokens.items())
      if (id.is_number_unsigned()) count = std::max(count, std::min(json_size(id, vocabulary.where), kMostTokens) + 1);
  return count;
}

}  // namespace

MegatronImport::MegatronImport(const fs::path& named, const MegatronImportOptions& options)
    : files_(named), description_(describe_megatron(files_, options.config)) {
  read_facts(options);
  const bool gated = model_.settings.model.activation == MlpActivation::swiglu;
  for (const auto& [name, ranks] : files_.shards()) {
    if (name.ends_with(kSecondHalf)) continue;
    const auto second = files_.shards().find(name + kSecondHalf);
    if (second != files_.shards().end() && !gated)
      throw UserError("{}: tensor {} has a second half, and the settings say that the MLP is not gated", files_.where(), name);
    merged_.emplace(name, merge(name, ranks, second == files_.shards().end() ? nullptr : &second->second));
  }
  sources_ = files_.sharded().empty() ? find_sources(merged_, true) : find_sources(files_.sharded(), false);
  require_nothing_else();
  find_optimizer();
}

void MegatronImport::read_facts(const MegatronImportOptions& options) {
  int64_t rows = 0;
  TorchTypeFacts type;
  if (const auto shards = files_.shards().find("embedding.word"); shards != files_.shards().end()) {
    for (const TorchTensor& rank : shards->second) rows += rank.shape.rank() == 2 ? rank.shape[0] : 0;
    type = shards->second.front().type;
  } else if (const auto sharded = files_.sharded().find("embedding.word");
             sharded != files_.sharded().end() && !sharded->second.pieces.empty()) {
    rows = sharded->second.shape[0];
    type = sharded->second.pieces.front().open().type;
  }
  if (rows == 0) throw UserError("{} has no word embedding; it is not a GPT model, or files are missing", files_.where());
  rows_ = rows;
  stored_as_ = type.name;
  const Precision precision = type.type == TorchType::f32 || type.type == TorchType::f64 ? Precision::f32 : Precision::bf16;
  model_ = read_megatron_settings(description_, count_vocabulary(options), precision);
  if (files_.version() < 2 && model_.settings.model.groups() != model_.settings.model.num_attention_heads)
    throw UserError("{}: checkpoint_version={} with query groups, which Megatron had only later", files_.where(),
                    files_.version());
}

int64_t MegatronImport::count_vocabulary(const MegatronImportOptions& options) const {
  if (options.vocabulary > rows_)
    throw UserError("--vocab-size {} is more than the {} rows of the embedding in {}", options.vocabulary, rows_, files_.where());
  if (options.vocabulary > 0) return options.vocabulary;
  for (const auto& [member, name] : tokenizer_members())
    if (name == "vocab.json")
      if (const int64_t tokens = tokens_in(files_.files().view(member)); tokens > 0) {
        if (tokens > rows_)
          throw UserError("{}: its tokenizer has {} tokens, and its embedding {} rows: they do not belong together",
                          files_.where(), tokens, rows_);
        return tokens;
      }
  const Tree* stated = description_.values.find("true_vocab_size");  // in what export writes
  const bool is_stated = stated != nullptr && stated->kind() == Tree::Kind::integer && stated->integer() > 0;
  return is_stated ? std::min(stated->integer(), rows_) : rows_;
}

// Joins the tensors of the tensor parallel ranks.
ShardedTensor MegatronImport::merge(const std::string& name, const std::vector<TorchTensor>& ranks,
                                    const std::vector<TorchTensor>* second) const {
  const MegatronCut cut = megatron_cut(name);
  const int rank_of_shape = ranks.front().shape.rank();
  const int dimension = cut == MegatronCut::columns ? 1 : 0;
  ShardedTensor whole;
  std::vector<int64_t> dims(ranks.front().shape.dims().begin(), ranks.front().shape.dims().end());
  const auto fail = [&](const char* what) { throw UserError("{}: tensor {} {}", files_.where(), name, what); };
  if (rank_of_shape <= dimension) fail("has too few dimensions");
  const bool is_whole = cut == MegatronCut::whole;
  if (!is_whole && narrow<int64_t>(ranks.size()) != files_.tensor_parallel()) fail("is not in the files of all ranks");
  if (second != nullptr && second->size() != ranks.size()) fail("has two halves in different ranks");
  if (!is_whole) {
    dims[static_cast<size_t>(dimension)] = 0;
    for (const TorchTensor& rank : ranks) {
      if (rank.shape.rank() != rank_of_shape || with_rows(rank.shape, 1).count() != with_rows(ranks.front().shape, 1).count() ||
          rank.shape != ranks.front().shape)
        fail("differs in shape between ranks");
      dims[static_cast<size_t>(dimension)] += rank.shape[dimension];
    }
  }
  const int64_t joined = dims[static_cast<size_t>(dimension)];
  if (second != nullptr) dims[0] *= 2;
  whole.shape = Shape(dims);
  int64_t at = 0;
  const auto offset_of = [&](int64_t first) {
    std::vector<int64_t> offset(static_cast<size_t>(rank_of_shape), 0);
    offset[static_cast<size_t>(dimension)] = first;
    return Shape(offset);
  };
  // A rank holds its rows of each part: of gate and up, and before version 1 of q, k and v.
  const bool is_gated = is_mlp_up(name) && second == nullptr && model_.settings.model.activation == MlpActivation::swiglu;
  const int64_t parts = is_gated ? 2 : is_qkv(name) && files_.version() < 1 ? 3 : 1;
  for (size_t rank = 0; rank < (is_whole ? 1 : ranks.size()); ++rank) {
    const TorchTensor& tensor = ranks[rank];
    if (parts > 1 && tensor.shape[0] % parts != 0) fail("has rows that are no multiple of its parts");
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t rows = parts > 1 ? tensor.shape[0] / parts : tensor.shape[0];
      add_piece(whole, parts > 1 ? tensor.rows(part * rows, rows) : tensor, offset_of(part * joined / parts + at));
    }
    if (second != nullptr) {
      if ((*second)[rank].shape != tensor.shape) fail("has two halves that differ in shape");
      add_piece(whole, (*second)[rank], offset_of(joined + at));
    }
    at += parts > 1 ? tensor.shape[0] / parts : tensor.shape[dimension];
  }
  return whole;
}

std::optional<MegatronImport::Source> MegatronImport::find_source(const ParameterRow& row, const MegatronFiles::Sharded& sharded,
                                                                  bool is_merged) const {
  auto found = sharded.find(row.name);
  Source source{.tensor = {}, .offset = zeros_like(row.shape), .extent = row.shape};
  Shape expected = row.shape;
  if (found == sharded.end()) {
    const auto [name, layer] = without_layer(row.name);
    found = sharded.find(name);
    if (layer < 0 || found == sharded.end()) return std::nullopt;
    expected = with_front(model_.settings.model.num_layers, row.shape);
    source.offset = with_front(layer, source.offset);
    source.extent = with_front(1, source.extent);
  }
  source.tensor = found->second;
  const Shape& there = source.tensor.shape;
  // Checked before memory for the whole is taken.
  int64_t held = 0;
  for (const ShardedTensor::Piece& piece : source.tensor.pieces) held += piece.extent.count();
  if (held < there.count())
    throw UserError("{}: tensor {} of {} is not complete: its parts have {} elements; copy the files of all ranks",
                    files_.where(), row.name, there, held);
  const bool has_padding = is_of_vocabulary(row.name) && there.rank() == 2 && there[0] >= expected[0];
  if (there != (has_padding ? with_rows(expected, there[0]) : expected))
    throw UserError("{}: tensor {} is {}, and by the settings of {} it should be {}", files_.where(), row.name, there,
                    description_.where, expected);
  if (is_qkv(row.name))
    source.order = !is_merged || files_.version() >= 2 ? RowOrder::groups
                   : files_.version() >= 1             ? RowOrder::split_last
                                                       : RowOrder::ours;
  return source;
}

bool MegatronImport::may_be_zeros(const std::string& name) const {
  if (!name.ends_with(".bias") || name.find("norm") != std::string::npos) return false;
  return is_qkv(name) ? !model_.has_qkv_bias : !model_.has_linear_bias;
}

MegatronImport::Sources MegatronImport::find_sources(const MegatronFiles::Sharded& sharded, bool is_merged) const {
  Sources sources;
  for (const ParameterRow& row : parameter_table(model())) {
    std::optional<Source> source = find_source(row, sharded, is_merged);
    if (!source && !may_be_zeros(row.name))
      throw UserError("{}: tensor {} is missing; {} says that the model has {} layers", files_.where(), row.name,
                      description_.where, model().num_layers);
    if (source) sources.emplace(row.name, std::move(*source));
  }
  return sources;
}

// A tensor that is not used would change what the model computes.
void MegatronImport::require_nothing_else() const {
  std::set<std::string> used;
  for (const auto& [name, source] : sources_) {
    used.insert(name);
    used.insert(without_layer(name).first);
  }
  if (model().share_embeddings_and_output_weights) used.insert("head.weight");  // a copy, as the last stage has it
  for (const MegatronFiles::Sharded* there : {&merged_, &files_.sharded()})
    for (const auto& [name, tensor] : *there)
      if (!used.contains(name))
        throw UserError("{}: tensor {} has no place in a model of {} layers with the settings of {}", files_.where(), name,
                        model().num_layers, description_.where);
}

// The optimizer's state is kept if every parameter has it under its own name. Flat buffers of a distributed optimizer do not say
// which parameter an element belongs to.
void MegatronImport::find_optimizer() {
  const auto state = [&](const char* name, Sources& to) {
    const auto found = files_.optimizer().find(name);
    if (found == files_.optimizer().end()) return false;
    for (const ParameterRow& row : parameter_table(model())) {
      std::optional<Source> source = find_source(row, found->second, false);
      if (!source) return false;
      to.emplace(row.name, std::move(*source));
    }
    return true;
  };
  has_optimizer_ = state("exp_avg", first_moments_) && state("exp_avg_sq", second_moments_) && files_.iteration() > 0;
  if (!has_optimizer_ || !state("fp32_param", masters_)) masters_.clear();
}

int64_t MegatronImport::parameters() const { return parameters_of(model()); }

std::vector<std::string> MegatronImport::notes() const {
  std::vector<std::string> notes;
  if (files_.ignored() > 0)
    notes.push_back(fmt::format("{} tensors of _extra_state and the like, which Transformer Engine makes anew, were left out",
                                files_.ignored()));
  if (model().vocab_size < rows_)
    notes.push_back(
        fmt::format("the embedding has {} rows, of which {} are padding and were left out", rows_, rows_ - model().vocab_size));
  else if (tokenizer_members().empty())
    notes.push_back(
        fmt::format("all {} rows of the embedding are kept; if some are padding, say how many are not with --vocab-size", rows_));
  if (files_.has_optimizer_files() && !has_optimizer_)
    notes.push_back("the optimizer's state is left out: its files do not say which parameter an element belongs to");
  return notes;
}

void MegatronImport::fill(const std::string& name, std::span<float> to) const {
  std::string parameter = name;
  const Sources* sources = masters_.empty() ? &sources_ : &masters_;
  if (name.starts_with(kFirstMoment)) parameter = name.substr(std::string_view(kFirstMoment).size()), sources = &first_moments_;
  if (name.starts_with(kSecondMoment))
    parameter = name.substr(std::string_view(kSecondMoment).size()), sources = &second_moments_;
  const auto found = sources->find(parameter);
  if (found == sources->end()) {
    std::ranges::fill(to, 0.0f);
    return;
  }
  const Source& source = found->second;
  if (source.order == RowOrder::ours) return source.tensor.read(name, source.offset, source.extent, to);
  std::vector<float> theirs(to.size());
  source.tensor.read(name, source.offset, source.extent, theirs);
  const auto width =
      static_cast<int64_t>(to.size()) / (model().num_attention_heads + 2 * model().groups()) / model().head_width();
  for (const RowMove& move : source.order == RowOrder::groups ? rows_by_group(model()) : rows_split_last(model()))
    std::copy_n(theirs.data() + move.theirs * width, move.count * width, to.data() + move.ours * width);
}

std::map<std::string, std::string> MegatronImport::tokenizer_members() const {
  std::map<std::string, std::string> members;
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"tokenizer.vocab_file", "vocab.json"}, {"tokenizer.merge_file", "merges.txt"}, {"tokenizer.model", "tokenizer.model"}};
  for (const auto& [key, name] : kFiles) {
    const Tree* value = description_.values.find(key);
    if (value == nullptr || !value->is_string()) continue;
    std::string member = value->string();
    if (member.starts_with("nemo:")) member = member.substr(5);
    if (files_.files().has(member)) members.emplace(member, name);
  }
  return members;
}

std::string MegatronImport::keep_tokenizer(const fs::path& to, const fs::path& final_place, Tree& recipe) const {
  const std::map<std::string, std::string> members = tokenizer_members();
  if (members.empty()) {
    const fs::path& folder = files_.files().path();
    return import_tokenizer(fs::is_directory(folder) ? folder : folder.parent_path(), to, final_place, recipe);
  }
  create_folders(to);
  for (const auto& [member, name] : members) atomic_write(to / name, files_.files().view(member).bytes);
  return name_tokenizer(to, final_place, recipe);
}

std::string MegatronImport::write(const fs::path& output) const {
  return write_imported_run(
      output,
      {.settings = model_.settings,
       .heading = fmt::format("# a model of {} parameters, from {}\n", parameters(), as_utf8(files_.where())),
       .has_optimizer = has_optimizer_,
       .step = step(),
       .updates = has_optimizer_ ? files_.updates() : 0,
       .consumed_samples =
           [&] {
             const Tree* samples = description_.values.find("consumed_train_samples");
             return samples != nullptr && samples->kind() == Tree::Kind::integer ? std::max<int64_t>(0, samples->integer()) : 0;
           }(),
       .fill = [this](const std::string& name, std::span<float> to) { fill(name, to); },
       .tokenizer = [this](const fs::path& to, const fs::path& final_place,
                           Tree& recipe) { return keep_tokenizer(to, final_place, recipe); }});
}

}  // namespace trireme
