#include "convert/tensor_map.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "model/parameter_table.h"

namespace trireme {
namespace {

std::string with_layer(std::string_view pattern, int64_t layer) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, star), layer, pattern.substr(star + 1));
}

// Returns the parameters of a model of the family with every optional tensor. They give the shapes of tensors that ours lacks.
std::map<std::string, ParameterRow> full_table(const HfModel& model) {
  ModelSettings full = model.settings.model;
  full.bias = true;
  if (model.family->rotary.base == nullptr) full.position_embedding_type = PositionEmbedding::learned_absolute;
  std::map<std::string, ParameterRow> rows;
  for (ParameterRow& row : parameter_table(full)) rows.emplace(row.name, row);
  return rows;
}

bool is_met(Needs needs, const HfModel& model) {
  switch (needs) {
    case Needs::nothing:
      return true;
    case Needs::attention_bias:
      return model.attention_bias == HasBias::yes;
    case Needs::mlp_bias:
      return model.mlp_bias == HasBias::yes;
    case Needs::untied_head:
      return !model.settings.model.share_embeddings_and_output_weights;
  }
  CHECK_NEVER("unknown need");
}

class Mapper {
 public:
  explicit Mapper(const HfModel& model) : model_(model), full_(full_table(model)) {
    for (const ParameterRow& row : parameter_table(model.settings.model)) ours_.insert(row.name);
  }

  std::vector<MappedTensor> map() && {
    const std::vector<TensorRule>& rules = model_.family->tensors;
    const auto in_block = [](const TensorRule& rule) { return std::string_view(rule.ours).find('*') != std::string_view::npos; };
    const auto first = std::ranges::find_if(rules, in_block);
    const auto last = std::find_if_not(first, rules.end(), in_block);
    for (auto rule = rules.begin(); rule != first; ++rule) add(*rule, 0);
    for (int64_t layer = 0; layer < model_.settings.model.num_layers; ++layer)
      for (auto rule = first; rule != last; ++rule) add(*rule, layer);
    for (auto rule = last; rule != rules.end(); ++rule) add(*rule, 0);
    return std::move(tensors_);
  }

 private:
  void add(const TensorRule& rule, int64_t layer) {
    MappedTensor tensor{.ours = with_layer(rule.ours, layer), .theirs = with_layer(rule.theirs, layer), .shape = {}};
    const bool ours = ours_.contains(tensor.ours), theirs = is_met(rule.needs, model_);
    if (!ours && !theirs) return;
    tensor.side = ours && theirs ? TensorSide::both : ours ? TensorSide::ours_only : TensorSide::theirs_only;
    const ParameterRow& row = full_.at(tensor.ours);
    tensor.width = row.count() / row.shape[0];
    tensor.rows = row.shape[0];
    if (rule.segment != kAllSegments) {
      const auto segment = row.segments.begin() + rule.segment;
      tensor.first_row = std::accumulate(row.segments.begin(), segment, int64_t{0});
      tensor.rows = *segment;
    }
    tensor.layout = rule.layout;
    tensor.heads = model_.settings.model.num_attention_heads;
    tensor.shape = row.shape.rank() == 1                     ? Shape{tensor.rows}
                   : rule.layout == TensorLayout::transposed ? Shape{tensor.width, tensor.rows}
                                                             : Shape{tensor.rows, tensor.width};
    const bool norm_weight = row.shape.rank() == 1 && row.name.ends_with(".weight");
    if (norm_weight && model_.settings.model.normalization == Normalization::layernorm1p) tensor.added = 1;
    tensors_.push_back(std::move(tensor));
  }

  const HfModel& model_;
  std::map<std::string, ParameterRow> full_;
  std::set<std::string> ours_;
  std::vector<MappedTensor> tensors_;
};

// to[c, r] = from[r, c], in tiles that fit the cache.
void transpose(int64_t rows, int64_t columns, std::span<const float> from, std::span<float> to) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r)
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) to[c * rows + r] = from[r * columns + c];
}

// to[j, i] = from[i, j], where each entry is a run of `length` elements.
void exchange_outer(int64_t outer, int64_t inner, int64_t length, std::span<const float> from, std::span<float> to) {
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j)
      std::copy_n(from.data() + (i * inner + j) * length, length, to.data() + (j * outer + i) * length);
}

constexpr int64_t kQueryKeyValue = 3;

}  // namespace

std::vector<MappedTensor> map_tensors(const HfModel& model) { return Mapper(model).map(); }

void rearrange_to_theirs(const MappedTensor& tensor, std::span<const float> from, std::span<float> to) {
  CHECK(narrow<int64_t>(from.size()) == tensor.count() && from.size() == to.size());
  switch (tensor.layout) {
    case TensorLayout::as_is:
      std::ranges::copy(from, to.begin());
      break;
    case TensorLayout::transposed:
      transpose(tensor.rows, tensor.width, from, to);
      break;
    case TensorLayout::heads_interleaved:
      exchange_outer(kQueryKeyValue, tensor.heads, div_exact(tensor.count(), kQueryKeyValue * tensor.heads), from, to);
      break;
  }
}

void rearrange_to_ours(const MappedTensor& tensor, std::span<const float> from, std::span<float> to) {
  CHECK(narrow<int64_t>(from.size()) == tensor.count() && from.size() == to.size());
  switch (tensor.layout) {
    case TensorLayout::as_is:
      std::ranges::copy(from, to.begin());
      break;
    case TensorLayout::transposed:
      transpose(tensor.width, tensor.rows, from, to);
      break;
    case TensorLayout::heads_interleaved:
      exchange_outer(tensor.heads, kQueryKeyValue, div_exact(tensor.count(), kQueryKeyValue * tensor.heads), from, to);
      break;
  }
}

}  // namespace trireme
