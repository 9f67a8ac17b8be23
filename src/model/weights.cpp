#include "model/weights.h"

#include <algorithm>

#include "model/dims.h"

namespace trireme {
namespace {

constexpr int64_t kAlignElements = 128;  // 256 bytes of bf16

// A parameter's draws are keyed by its name, so they do not depend on which others the model has.
uint32_t site_of(const std::string& name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

}  // namespace

FlatLayout FlatLayout::of(const ModelSettings& model) {
  FlatLayout layout{.table = parameter_table(model), .offsets = {}, .count = 0};
  for (const ParameterRow& row : layout.table) {
    layout.offsets.push_back(layout.count);
    layout.count += round_up(row.padded_count(), kAlignElements);
  }
  return layout;
}

int64_t FlatLayout::find(const std::string& name) const {
  const auto at = std::find_if(table.begin(), table.end(), [&](const ParameterRow& row) { return row.name == name; });
  return at == table.end() ? -1 : at - table.begin();
}

FlatViews::FlatViews(const FlatLayout& layout, const ModelSettings& model, Tensor flat) : layout_(layout), flat_(flat) {
  CHECK_EQ(flat.count(), layout.count);
  const auto view = [&](const std::string& name) {
    const int64_t row = layout_.find(name);
    return row < 0 ? Tensor{} : parameter(static_cast<size_t>(row));
  };
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const std::string p = "blocks." + std::to_string(layer) + ".";
    blocks_.push_back({.norm1_weight = view(p + "norm1.weight"),
                       .norm1_bias = view(p + "norm1.bias"),
                       .qkv_weight = view(p + "attention.qkv.weight"),
                       .qkv_bias = view(p + "attention.qkv.bias"),
                       .out_weight = view(p + "attention.out.weight"),
                       .out_bias = view(p + "attention.out.bias"),
                       .norm2_weight = view(p + "norm2.weight"),
                       .norm2_bias = view(p + "norm2.bias"),
                       .up_weight = view(p + "mlp.up.weight"),
                       .up_bias = view(p + "mlp.up.bias"),
                       .down_weight = view(p + "mlp.down.weight"),
                       .down_bias = view(p + "mlp.down.bias")});
  }
  embedding_ = {.word = view("embedding.word"), .position = view("embedding.position")};
  const Tensor head = view("head.weight");
  head_ = {.norm_weight = view("final_norm.weight"), .norm_bias = view("final_norm.bias"), .head = head ? head : embedding_.word};
}

Tensor FlatViews::parameter(size_t row) const {
  const ParameterRow& parameter = layout_.table[row];
  const Shape shape =
      parameter.shape.rank() == 1 ? Shape{parameter.padded_rows} : Shape{parameter.padded_rows, parameter.shape[1]};
  return flat_.flat_range(layout_.offsets[row], shape);
}

Tensor FlatViews::block_range(int64_t layer) const {
  int64_t begin = layout_.count, end = 0;
  for (size_t row = 0; row < layout_.table.size(); ++row) {
    if (layout_.table[row].layer != layer) continue;
    begin = std::min(begin, layout_.offsets[row]);
    end = std::max(end, layout_.offsets[row] + round_up(layout_.table[row].padded_count(), kAlignElements));
  }
  return flat_.rows(begin, end - begin);
}

void Grads::finished(int64_t layer) {
  if (micro_batch_ != MicroBatch::last) return;
  backend_.wait(kDataParallel, backend_.record(kCompute, "block_gradients_written"));
  const Tensor bucket = views_.block_range(layer);
  mesh_.dp->reduce_scatter(kDataParallel, bucket, bucket, Reduce::sum);
}

void initialise(const FlatLayout& layout, uint64_t seed, Backend& backend, Tensor masters) {
  backend.run(kCompute, Fill{.value = 0, .out = masters});
  for (size_t i = 0; i < layout.table.size(); ++i) {
    const ParameterRow& row = layout.table[i];
    const Tensor values = masters.rows(layout.offsets[i], row.count());  // the padding rows come after these
    if (row.init == InitKind::ones) backend.run(kCompute, Fill{.value = 1, .out = values});
    if (row.init == InitKind::normal)
      backend.run(kCompute,
                  RandomNormal{
                      .mean = 0, .deviation = row.deviation, .seed = seed, .site = site_of(row.name), .first = 0, .out = values});
  }
}

}  // namespace trireme
