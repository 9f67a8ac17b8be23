#include "model/fp8_state.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/fp8.h"

namespace trireme {
namespace {

constexpr std::array<const char*, kBlockLinears> kLinearNames = {"attention.qkv", "attention.out", "mlp.up", "mlp.down"};
constexpr Fp8Scaling kWeightScaling = Fp8Scaling::current;

constexpr int64_t kAlign = 4;  // libraries want the inverses on 16-byte boundaries

// What the largest value of a tensor is scaled to.
float scaled_to(DType fp8, int64_t margin) { return std::ldexp(largest_of(fp8), -narrow<int>(margin)); }

std::vector<int64_t> layers_of_stage(const ModelSettings& model, const RankShard& shard) {
  std::vector<int64_t> layers;
  for (int64_t chunk = 0; chunk < shard.chunks; ++chunk) {
    const LayerRange range = layers_of(model, shard, chunk);
    for (int64_t i = 0; i < range.count; ++i) layers.push_back(range.first + i);
  }
  return layers;
}

}  // namespace

Fp8State::Fp8State(const ModelSettings& model, const RankShard& shard, Arena& arena)
    : settings_(model.fp8),
      output_grad_dtype_(model.fp8.e4m3 ? DType::f8e4m3 : DType::f8e5m2),
      layers_(layers_of_stage(model, shard)),
      has_head_(model.fp8.lm_head && shard.last_stage()),
      input_rows_(head_row() + (has_head_ ? 1 : 0)),
      table_(arena.take({2 * input_rows_, UpdateScales::kHistory + round_up(model.fp8.amax_history_len, kAlign)}, DType::f32)),
      amax_(arena.take({2 * input_rows_}, DType::f32)),
      weights_(arena.take({input_rows_, kAlign}, DType::f32)) {}

int64_t Fp8State::input_row(LinearSite site) const {
  if (site.is_head()) return head_row();
  const auto at = std::ranges::find(layers_, site.layer) - layers_.begin();
  CHECK(at < std::ssize(layers_));
  return at * kBlockLinears + static_cast<int64_t>(site.linear);
}

void Fp8State::assign(int64_t row, Fp8Copy& copy) const {
  const int64_t columns = table_.shape[1];
  const Tensor values = table_.reshaped({table_.count()});
  copy.scale = values.rows(row * columns + UpdateScales::kScale, 1);
  copy.inverse = values.rows(row * columns + UpdateScales::kInverse, 1);
  copy.amax = amax_.rows(row, 1);
  copy.scaling = &scaling_;
}

void Fp8State::assign_input(LinearSite site, Fp8Copy& copy) const {
  assign(input_row(site), copy);
  copy.largest = scaled_to(input_dtype(), settings_.margin);
}

void Fp8State::assign_output_grad(LinearSite site, Fp8Copy& copy) const {
  assign(input_rows_ + input_row(site), copy);
  copy.largest = scaled_to(output_grad_dtype_, settings_.margin);
}

void Fp8State::assign_weight(LinearSite site, Fp8Copy& copy) const {
  const Tensor values = weights_.rows(input_row(site), 1).reshaped({kAlign});
  copy.inverse = values.rows(0, 1);
  copy.scale = values.rows(1, 1);
  copy.amax = values.rows(2, 1);
  copy.largest = scaled_to(input_dtype(), settings_.margin);
  copy.scaling = &kWeightScaling;
}

void Fp8State::clear(Backend& backend) const {
  backend.run(kCompute, Fill{.value = 0, .out = table_});
  const Tensor values = table_.reshaped({table_.count()});
  for (int64_t row = 0; row < table_.shape[0]; ++row)
    backend.run(kCompute, Fill{.value = 1, .out = values.rows(row * table_.shape[1], 2)});
  backend.run(kCompute, Fill{.value = 0, .out = amax_});
  backend.run(kCompute, Fill{.value = 1, .out = weights_});
}

void Fp8State::begin_step(Backend& backend) const { backend.run(kCompute, Fill{.value = 0, .out = amax_}); }

void Fp8State::update(Backend& backend, const Mesh& mesh) const {
  if (settings_.reduce_amax)
    for (Communicator* group : {mesh.tp.get(), mesh.cp.get(), mesh.dp.get()}) group->all_reduce(kCompute, amax_, Reduce::max);
  const auto choice = settings_.amax_compute_algo == AmaxAlgorithm::max ? AmaxChoice::largest : AmaxChoice::most_recent;
  const auto part = [&](int64_t first_row, DType dtype) {
    backend.run(kCompute, UpdateScales{.choice = choice,
                                       .largest = scaled_to(dtype, settings_.margin),
                                       .history = settings_.amax_history_len,
                                       .amax = amax_.rows(first_row, input_rows_),
                                       .table = table_.rows(first_row, input_rows_)});
  };
  part(0, input_dtype());
  part(input_rows_, output_grad_dtype_);
}

std::vector<Fp8State::Row> Fp8State::rows() const {
  std::vector<Row> rows;
  const auto add = [&](const std::string& linear, int64_t row) {
    const auto values = [&](int64_t of) { return table_.rows(of, 1).reshaped({table_.shape[1]}); };
    rows.push_back({fmt::format("fp8.{}.input", linear), values(row)});
    rows.push_back({fmt::format("fp8.{}.output_grad", linear), values(input_rows_ + row)});
  };
  for (const int64_t layer : layers_)
    for (size_t linear = 0; linear < kLinearNames.size(); ++linear)
      add(fmt::format("blocks.{}.{}", layer, kLinearNames[linear]), input_row({layer, static_cast<BlockLinear>(linear)}));
  if (has_head_) add("head", head_row());
  return rows;
}

}  // namespace trireme
