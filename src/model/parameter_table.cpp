#include "model/parameter_table.h"

#include <cmath>

#include "model/dims.h"

namespace trireme {
namespace {

class TableBuilder {
 public:
  explicit TableBuilder(const ModelSettings& model) : model_(model), d_(dims_of(model, 1, 1)) {}

  std::vector<ParameterRow> build() && {
    const bool tied = model_.share_embeddings_and_output_weights;
    owner_ = Owner::last_stage;
    if (!tied) vocabulary_matrix("head.weight");
    norm("final_norm");
    for (layer_ = d_.L - 1; layer_ >= 0; --layer_) block();
    layer_ = -1;
    owner_ = Owner::first_stage;
    if (model_.position_embedding_type == PositionEmbedding::learned_absolute)
      matrix("embedding.position", d_.P, d_.C, Cut::whole);
    if (tied) owner_ = Owner::first_and_last_stage;
    vocabulary_matrix("embedding.word");
    if (model_.do_layer_norm_weight_decay)
      for (ParameterRow& row : rows_) row.decay = WeightDecay::yes;
    return std::move(rows_);
  }

 private:
  void block() {
    owner_ = Owner::block;
    const std::string prefix = "blocks." + std::to_string(layer_) + ".";
    // Outputs that are added to the residual stream start smaller, so that its variance does not grow with depth.
    const double scaled = model_.use_scaled_init_method ? 1 / std::sqrt(2.0 * static_cast<double>(d_.L)) : 1;
    linear(prefix + "mlp.down", d_.C, d_.F, Cut::columns, scaled);
    const bool gated = is_gated(model_.activation);
    linear(prefix + "mlp.up", gated ? 2 * d_.F : d_.F, d_.C, gated ? Cut::rows_in_segments : Cut::rows, 1,
           gated ? std::vector<int64_t>{d_.F, d_.F} : std::vector<int64_t>{});
    if (!model_.shared_attention_norm) norm(prefix + "norm2");
    linear(prefix + "attention.out", d_.C, d_.H * d_.D, Cut::columns, scaled);
    linear(prefix + "attention.qkv", d_.qkv_width(), d_.C, Cut::rows_in_segments, 1, {d_.H * d_.D, d_.G * d_.D, d_.G * d_.D});
    norm(prefix + "norm1");
  }

  ParameterRow& add(std::string name, Shape shape) {
    ParameterRow row{.name = std::move(name), .shape = shape, .padded_rows = shape[0], .owner = owner_, .layer = layer_};
    rows_.push_back(std::move(row));
    return rows_.back();
  }

  ParameterRow& matrix(std::string name, int64_t rows, int64_t columns, Cut cut, double scale = 1) {
    ParameterRow& row = add(std::move(name), {rows, columns});
    row.init = InitKind::normal;
    row.deviation = model_.init_method_std * scale;
    row.decay = WeightDecay::yes;
    row.cut = cut;
    return row;
  }

  void vocabulary_matrix(std::string name) { matrix(std::move(name), d_.V, d_.C, Cut::rows).padded_rows = d_.V_padded; }

  void linear(const std::string& name, int64_t out, int64_t in, Cut cut, double scale, std::vector<int64_t> segments = {}) {
    matrix(name + ".weight", out, in, cut, scale).segments = segments;
    if (!model_.bias) return;
    ParameterRow& bias = add(name + ".bias", {out});
    // The output of a row-parallel GEMM is summed over ranks and its bias added once, so each rank holds the whole bias.
    bias.cut = cut == Cut::columns ? Cut::whole : cut;
    bias.segments = std::move(segments);
  }

  void norm(const std::string& name) {
    ParameterRow& weight = add(name + ".weight", {d_.C});
    weight.init = model_.normalization == Normalization::layernorm1p ? InitKind::zeros : InitKind::ones;
    weight.partial_grad = PartialGrad::yes;
    if (model_.normalization == Normalization::rmsnorm) return;
    add(name + ".bias", {d_.C}).partial_grad = PartialGrad::yes;
  }

  const ModelSettings& model_;
  Dims d_;
  Owner owner_ = Owner::block;
  int64_t layer_ = -1;
  std::vector<ParameterRow> rows_;
};

}  // namespace

std::vector<ParameterRow> parameter_table(const ModelSettings& model) { return TableBuilder(model).build(); }

int64_t parameter_count(const std::vector<ParameterRow>& table) {
  int64_t count = 0;
  for (const ParameterRow& row : table) count += row.padded_count();
  return count;
}

}  // namespace trireme
