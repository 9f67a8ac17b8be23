#include "convert/megatron/megatron_export.h"

#include <algorithm>

#include "config/settings_reader.h"
#include "config/yaml.h"
#include "convert/imported_run.h"
#include "convert/megatron/parameter_names.h"
#include "convert/megatron/qkv_rows.h"
#include "convert/new_folder.h"
#include "model/dims.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kMegatronVersion = 3.0;

void require(const char* key, const std::string& value, const char* what) {
  throw UserError("{}={} cannot be exported to Megatron: {}", key, value, what);
}

// UserError unless Megatron has such models.
void require_megatron_model(const ModelSettings& model) {
  if (model.parallel_residual) require("model.parallel_residual", "true", "its attention and MLP follow each other");
  if (model.shared_attention_norm) require("model.shared_attention_norm", "true", "its attention and MLP have a norm each");
  if (model.rope_type() == RopeType::llama3 &&
      (model.rope_scaling.low_freq_factor != 1 || model.rope_scaling.high_freq_factor != 4 ||
       model.rope_scaling.original_max_position_embeddings != 8192))
    require("model.rope_scaling.original_max_position_embeddings",
            std::to_string(model.rope_scaling.original_max_position_embeddings),
            "its rope scaling has the constants of Llama 3.1 and only a factor");
}

void require_divides(const char* option, int64_t by, const char* key, int64_t value) {
  if (by < 1 || value % by != 0) throw UserError("{} {} does not divide {}={}", option, by, key, value);
}

}  // namespace

MegatronExport::MegatronExport(StoredCheckpoint checkpoint, const MegatronExportOptions& options)
    : checkpoint_(std::move(checkpoint)),
      settings_(read_settings(read_yaml(checkpoint_.manifest.info.settings, checkpoint_.folder.string())).settings),
      options_(options),
      dtype_(options.dtype.value_or(activation_dtype(settings_.trainer.precision))) {
  const ModelSettings& model = settings_.model;
  require_megatron_model(model);
  constexpr const char* kTensor = "--tensor-parallel";
  require_divides(kTensor, options.tensor_parallel, "model.num_attention_heads", model.num_attention_heads);
  require_divides(kTensor, options.tensor_parallel, "model.num_query_groups", model.groups());
  require_divides(kTensor, options.tensor_parallel, "model.ffn_hidden_size", model.ffn_hidden_size);
  require_divides("--pipeline-parallel", options.stages, "model.num_layers", model.num_layers);
  const int64_t multiple = model.make_vocab_size_divisible_by * options.tensor_parallel;
  padded_rows_ = round_up(model.vocab_size, multiple);
}

int64_t MegatronExport::parameters() const { return parameters_of(settings_.model); }

int64_t MegatronExport::bytes() const {
  int64_t count = 0;
  for (int64_t stage = 0; stage < options_.stages; ++stage)
    for (const Part& part : parts_of_stage(stage)) count += shape_in_rank(part.ours).count() * options_.tensor_parallel;
  return count * size_of(dtype_);
}

std::vector<MegatronExport::Part> MegatronExport::parts_of_stage(int64_t stage) const {
  const int64_t layers = settings_.model.num_layers / options_.stages, first = stage * layers;
  const bool is_last = stage == options_.stages - 1, is_tied = settings_.model.share_embeddings_and_output_weights;
  std::vector<ParameterRow> rows = parameter_table(settings_.model);
  std::ranges::reverse(rows);  // the embedding first
  std::vector<Part> parts;
  for (const ParameterRow& row : rows) {
    const bool is_here = row.layer >= 0                       ? row.layer >= first && row.layer < first + layers
                         : row.name.starts_with("embedding.") ? stage == 0
                                                              : is_last;
    if (is_here)
      parts.push_back(
          {row.name, megatron_name(row.name, row.layer - first, options_.names == MegatronNames::transformer_engine)});
  }
  // The last of several stages has its own copy of a tied embedding.
  if (is_tied && is_last && options_.stages > 1) parts.push_back({"embedding.word", "output_layer.weight"});
  return parts;
}

Shape MegatronExport::shape_in_rank(const std::string& ours) const {
  const std::vector<ParameterRow> rows = parameter_table(settings_.model);
  const Shape whole = std::ranges::find(rows, ours, &ParameterRow::name)->shape;
  std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
  if (is_of_vocabulary(ours)) dims[0] = padded_rows_;
  const MegatronCut cut = megatron_cut(ours);
  if (cut == MegatronCut::rows) dims[0] = div_exact(dims[0], options_.tensor_parallel);
  if (cut == MegatronCut::columns) dims[1] = div_exact(dims[1], options_.tensor_parallel);
  return Shape(dims);
}

// All rows in the order in which Megatron gives them to its ranks.
std::vector<float> MegatronExport::in_their_order(const std::string& name, std::span<const float> values) const {
  const ModelSettings& model = settings_.model;
  std::vector<float> theirs(values.begin(), values.end());
  const auto width = [&](int64_t rows) { return div_exact(narrow<int64_t>(values.size()), rows); };
  if (is_qkv(name)) {
    const int64_t row = width((model.num_attention_heads + 2 * model.groups()) * model.head_width());
    for (const RowMove& move : rows_by_group(model))
      std::copy_n(values.data() + move.ours * row, move.count * row, theirs.data() + move.theirs * row);
  } else if (is_mlp_up(name) && model.activation == MlpActivation::swiglu) {
    const int64_t ranks = options_.tensor_parallel, piece = width(2 * ranks);
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t rank = 0; rank < ranks; ++rank)
        std::copy_n(values.data() + (half * ranks + rank) * piece, piece, theirs.data() + (rank * 2 + half) * piece);
  } else if (is_of_vocabulary(name)) {
    // Megatron's softmax has the padding rows in it. Its own converters repeat the last true row, because zeros could win.
    const int64_t row = width(model.vocab_size);
    for (int64_t i = model.vocab_size; i < padded_rows_; ++i) theirs.insert(theirs.end(), values.end() - row, values.end());
  }
  return theirs;
}

void MegatronExport::write_part(ParameterReader& reader, const Part& part, std::vector<TorchFileWriter>& ranks) const {
  const std::vector<float> theirs = in_their_order(part.ours, reader.read(part.ours));
  const Shape shape = shape_in_rank(part.ours);
  const MegatronCut cut = megatron_cut(part.ours);
  std::vector<float> own(static_cast<size_t>(shape.count()));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto first = static_cast<int64_t>(rank);
    if (cut == MegatronCut::columns) {
      const int64_t all = shape[1] * options_.tensor_parallel;
      for (int64_t row = 0; row < shape[0]; ++row)
        std::copy_n(theirs.data() + row * all + first * shape[1], shape[1], own.data() + row * shape[1]);
    } else {
      std::copy_n(theirs.data() + (cut == MegatronCut::rows ? first * shape.count() : 0), shape.count(), own.data());
    }
    ranks[rank].write(own);
  }
}

void MegatronExport::write_stage(const fs::path& folder, int64_t stage) const {
  const std::vector<Part> parts = parts_of_stage(stage);
  std::vector<TorchOutput> tensors;
  for (const Part& part : parts) tensors.push_back({part.theirs, shape_in_rank(part.ours)});
  using Field = TorchFileWriter::Field;
  const std::vector<Field> fields = {
      {.key = "checkpoint_version", .kind = Field::Kind::real, .real = kMegatronVersion, .texts = {}},
      {.key = "iteration", .integer = 0, .texts = {}},
      {.key = "arguments", .kind = Field::Kind::texts, .texts = options_of_model()}};
  std::vector<TorchFileWriter> ranks;
  for (int64_t rank = 0; rank < options_.tensor_parallel; ++rank) {
    const fs::path place =
        folder / (options_.stages > 1 ? fmt::format("mp_rank_{:02}_{:03}", rank, stage) : fmt::format("mp_rank_{:02}", rank));
    create_folders(place);
    ranks.emplace_back(place / "model_optim_rng.pt", fields, tensors, dtype_);
  }
  ParameterReader reader(checkpoint_, settings_.model);
  for (const Part& part : parts) write_part(reader, part, ranks);
  for (TorchFileWriter& rank : ranks) rank.close();
}

// Names with underscores, as args has them. "true" and "false" are options without a value, given or not.
std::vector<std::pair<std::string, std::string>> MegatronExport::options_of_model() const {
  const ModelSettings& m = settings_.model;
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  const bool is_gelu = m.activation == MlpActivation::gelu, is_fused = is_gelu && m.bias;
  std::vector<std::pair<std::string, std::string>> options = {
      {"num_layers", std::to_string(m.num_layers)},
      {"hidden_size", std::to_string(m.hidden_size)},
      {"ffn_hidden_size", std::to_string(m.ffn_hidden_size)},
      {"num_attention_heads", std::to_string(m.num_attention_heads)},
      {"kv_channels", std::to_string(m.head_width())},
      {"seq_length", std::to_string(m.encoder_seq_length)},
      {"max_position_embeddings", std::to_string(m.max_position_embeddings)},
      {"position_embedding_type", m.position_embedding_type == PositionEmbedding::rope   ? "rope"
                                  : m.position_embedding_type == PositionEmbedding::none ? "none"
                                                                                         : "learned_absolute"},
      {"rotary_percent", fmt::format("{}", m.rotary_percentage)},
      {"rotary_base", fmt::format("{}", m.rotary_base)},
      {"normalization", m.normalization == Normalization::rmsnorm ? "RMSNorm" : "LayerNorm"},
      {"apply_layernorm_1p", truth(m.normalization == Normalization::layernorm1p)},
      {"norm_epsilon", fmt::format("{}", m.layernorm_epsilon)},
      {"swiglu", truth(m.activation == MlpActivation::swiglu)},
      {"openai_gelu", truth(is_gelu && !is_fused)},
      {"bias_gelu_fusion", truth(is_fused)},
      {"add_bias_linear", truth(m.bias)},
      {"untie_embeddings_and_output_weights", truth(!m.share_embeddings_and_output_weights)},
      {"attention_dropout", fmt::format("{}", m.attention_dropout)},
      {"hidden_dropout", fmt::format("{}", m.hidden_dropout)},
      {"init_method_std", fmt::format("{}", m.init_method_std)},
      {"make_vocab_size_divisible_by", std::to_string(m.make_vocab_size_divisible_by)},
      {"tensor_model_parallel_size", std::to_string(options_.tensor_parallel)},
      {"pipeline_model_parallel_size", std::to_string(options_.stages)},
      {"true_vocab_size", std::to_string(m.vocab_size)},
      {"padded_vocab_size", std::to_string(padded_rows_)},
  };
  if (m.groups() != m.num_attention_heads) {
    options.emplace_back("group_query_attention", "true");
    options.emplace_back("num_query_groups", std::to_string(m.groups()));
  }
  if (m.rope_type() == RopeType::linear)
    options.emplace_back("rotary_seq_len_interpolation_factor", fmt::format("{}", m.rope_factor()));
  if (m.rope_type() == RopeType::llama3) {
    options.emplace_back("use_rope_scaling", "true");
    options.emplace_back("rope_scaling_factor", fmt::format("{}", m.rope_factor()));
  }
  return options;
}

std::string MegatronExport::arguments() const {
  std::string line;
  for (const auto& [name, value] : options_of_model()) {
    // Options that Megatron works out itself, and those that it has only in the opposite sense.
    if (name == "true_vocab_size" || name == "padded_vocab_size") continue;
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    if (name == "add_bias_linear" || name == "bias_gelu_fusion") {
      if (value == "true") continue;
      option = name == "add_bias_linear" ? "--disable-bias-linear" : "--no-bias-gelu-fusion";
    } else if (value == "false") {
      continue;
    } else if (value != "true") {
      option += " " + value;
    }
    line += (line.empty() ? "" : " ") + option;
  }
  return line + fmt::format(" --transformer-impl {}", options_.names == MegatronNames::local ? "local" : "transformer_engine");
}

void MegatronExport::write(const fs::path& output) const {
  NewFolder folder(output);
  constexpr int64_t kSmallFiles = 16 << 20;
  require_free_space(folder.temporary(), bytes() + kSmallFiles, "cannot export to " + output.string());
  for (int64_t stage = 0; stage < options_.stages; ++stage) write_stage(folder.temporary() / "release", stage);
  atomic_write(folder.temporary() / "latest_checkpointed_iteration.txt", bytes_of("release"));
  atomic_write(folder.temporary() / "arguments.txt", bytes_of(arguments() + "\n"));
  folder.commit();
}

}  // namespace trireme
