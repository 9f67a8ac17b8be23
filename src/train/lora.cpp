#include "train/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/philox.h"
#include "config/suggestions.h"
#include "convert/tensor_map.h"

namespace trireme {
namespace {

const std::map<std::string, std::vector<std::string>>& target_modules() {
  static const std::vector<std::string> attention = {"attention.qkv.weight", "attention.out.weight"},
                                        mlp = {"mlp.up.weight", "mlp.down.weight"};
  static const std::map<std::string, std::vector<std::string>> modules = {{"attention_qkv", {attention[0]}},
                                                                          {"attention_dense", {attention[1]}},
                                                                          {"mlp_fc1", {mlp[0]}},
                                                                          {"mlp_fc2", {mlp[1]}},
                                                                          {"attention", attention},
                                                                          {"mlp", mlp},
                                                                          {"all", {attention[0], attention[1], mlp[0], mlp[1]}}};
  return modules;
}

// Where the adapters of a parameter begin, one or one for each segment.
std::map<std::string, std::set<int64_t>> cuts_of(const ModelSettings& model) {
  std::map<std::string, std::set<int64_t>> cuts;
  Settings settings;
  settings.model = model;
  try {
    for (const MappedTensor& tensor : map_tensors(hf_model_of(settings)))
      if (tensor.side != TensorSide::theirs_only) cuts[tensor.ours].insert(tensor.first_row);
  } catch (const UserError&) {  // no family of transformers has such models
  }
  return cuts;
}

}  // namespace

std::string LoraTarget::name() const { return fmt::format("lora.{}.{}", parameter, first_row); }

std::vector<LoraTarget> lora_targets(const ModelSettings& model) {
  std::set<std::string> wanted;
  for (const std::string& module : model.peft.lora.target_modules) {
    const auto found = target_modules().find(module);
    if (found == target_modules().end()) {
      std::vector<std::string> known;
      for (const auto& [name, parameters] : target_modules()) known.push_back(name);
      throw UserError("model.peft.lora_tuning.target_modules: {} is not known{}; use {}", module, did_you_mean(module, known),
                      fmt::join(known, ", "));
    }
    wanted.insert(found->second.begin(), found->second.end());
  }
  if (wanted.empty()) throw UserError("model.peft.lora_tuning.target_modules=[] leaves nothing to train; use [attention_qkv]");
  const std::map<std::string, std::set<int64_t>> cuts = cuts_of(model);
  std::vector<LoraTarget> targets;
  for (const ParameterRow& row : parameter_table(model)) {
    const auto ends_so = [&](const std::string& ending) { return row.name.ends_with("." + ending); };
    if (!std::ranges::any_of(wanted, ends_so)) continue;
    std::set<int64_t> begins = {0};
    if (const auto found = cuts.find(row.name); found != cuts.end()) begins = found->second;
    for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
      const int64_t end = std::next(begin) == begins.end() ? row.shape[0] : *std::next(begin);
      targets.push_back({.parameter = row.name, .first_row = *begin, .rows = end - *begin, .columns = row.shape[1]});
    }
  }
  return targets;
}

LoraAdapters::LoraAdapters(const ModelSettings& model, const FlatLayout& layout, Backend& backend, const Tensor& masters,
                           Arena& arena)
    : model_(model),
      layout_(layout),
      backend_(backend),
      masters_(layout, model, masters, layout.offsets),
      rank_(model.peft.lora.adapter_dim) {
  constexpr int64_t kAlignment = Arena::kAlignment / 4;  // elements
  const auto decay = static_cast<float>(model.optim.weight_decay);
  int64_t count = 0, most_side = 0, most = 0;
  const auto take = [&](int64_t elements) {
    const int64_t begin = count;
    decays_.push_back({begin, elements, decay});
    count = round_up(begin + elements, kAlignment);
    return begin;
  };
  for (const LoraTarget& target : lora_targets(model)) {
    const int64_t row = layout.find(target.parameter);
    if (row < 0) continue;  // of another stage
    const int64_t before = count;
    units_.push_back({.target = target, .row = static_cast<size_t>(row), .base = {}});
    units_.back().a = take(rank_ * target.columns);
    units_.back().b = take(target.rows * rank_);
    units_.back().base = arena.take({target.rows, target.columns}, DType::f32);
    most_side = std::max({most_side, rank_ * target.columns, target.rows * rank_});
    most = std::max(most, target.rows * target.columns);
    const size_t table_row = layout.table_rows[static_cast<size_t>(row)];
    if (squares_rows_.empty() || squares_rows_.back() != table_row) {
      squares_rows_.push_back(table_row);
      squares_ranges_.push_back({before, 0});
    }
    squares_ranges_.back().count = count - squares_ranges_.back().begin;
  }
  for (Tensor* flat : {&values_, &gradients_, &first_moment_, &second_moment_}) *flat = arena.take({count}, DType::f32);
  scaled_identity_ = arena.take({rank_, rank_}, DType::f32);
  scaled_ = arena.take({most_side}, DType::f32);
  product_ = arena.take({most}, DType::f32);
  if (layout.shard.copy != 0) squares_ranges_.assign(squares_ranges_.size(), {0, 0});  // another copy counts them
}

LoraAdapters::Pair LoraAdapters::pair_of(const Unit& unit, const Tensor& flat) const {
  return {.a = flat.flat_range(unit.a, {rank_, unit.target.columns}), .b = flat.flat_range(unit.b, {unit.target.rows, rank_})};
}

Tensor LoraAdapters::part_of(const Unit& unit, const FlatViews& views) const {
  return views.parameter(unit.row).rows(unit.target.first_row, unit.target.rows);
}

// As PEFT draws: uniform within 1/sqrt(I).
void LoraAdapters::initialise() {
  for (const Tensor* flat : {&values_, &gradients_, &first_moment_, &second_moment_})
    backend_.run(kCompute, Fill{.value = 0, .out = *flat});
  std::vector<float> identity(static_cast<size_t>(rank_ * rank_), 0.0f);
  for (int64_t i = 0; i < rank_; ++i) identity[static_cast<size_t>(i * rank_ + i)] = static_cast<float>(model_.peft.lora.scale());
  backend_.upload(kCompute, identity.data(), scaled_identity_);
  std::vector<float> drawn;
  for (const Unit& unit : units_) {
    const uint32_t site = crc32c(bytes_of(unit.target.name()));
    const double bound = 1 / std::sqrt(static_cast<double>(unit.target.columns));
    drawn.resize(static_cast<size_t>(rank_ * unit.target.columns));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const uint32_t bits = philox(model_.seed, {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), site, 0x10A})[0];
      drawn[i] = static_cast<float>((2 * uniform_open(bits) - 1) * bound);
    }
    backend_.upload(kCompute, drawn.data(), pair_of(unit, values_).a);
  }
}

void LoraAdapters::adopt_base() {
  for (const Unit& unit : units_) backend_.run(kCompute, Copy{.from = part_of(unit, masters_), .to = unit.base});
}

void LoraAdapters::merge() {
  for (const Unit& unit : units_) {
    const auto [a, b] = pair_of(unit, values_);
    const Tensor scaled = scaled_.flat_range(0, b.shape), product = product_.flat_range(0, unit.base.shape);
    backend_.run(kCompute, LinearForward{.x = b, .weight = scaled_identity_, .out = scaled});
    backend_.run(kCompute, LinearInputGrad{.d_out = scaled, .weight = a, .d_x = product});
    backend_.run(kCompute, ResidualAdd{.residual = unit.base, .branch = product, .sum = part_of(unit, masters_)});
  }
}

void LoraAdapters::make_gradients(const FlatViews& gradients) {
  for (const Unit& unit : units_) {
    const auto [a, b] = pair_of(unit, values_);
    const auto [d_a, d_b] = pair_of(unit, gradients_);
    const Tensor d_weight = part_of(unit, gradients);
    const Tensor scaled_b = scaled_.flat_range(0, b.shape);
    backend_.run(kCompute, LinearForward{.x = b, .weight = scaled_identity_, .out = scaled_b});
    backend_.run(kCompute, LinearWeightGrad{.sum = GradSum::replaces, .x = d_weight, .d_out = scaled_b, .d_weight = d_a});
    const Tensor scaled_a = scaled_.flat_range(0, a.shape);
    backend_.run(kCompute, LinearInputGrad{.d_out = scaled_identity_, .weight = a, .d_x = scaled_a});
    backend_.run(kCompute, LinearForward{.x = d_weight, .weight = scaled_a, .out = d_b});
  }
}

void LoraAdapters::add_squares(Tensor squares) {
  for (size_t i = 0; i < squares_rows_.size(); ++i)
    backend_.run(kCompute, SquaredNorms{.ranges = std::span(squares_ranges_).subspan(i, 1),
                                        .grads = gradients_,
                                        .squares = squares.rows(static_cast<int64_t>(squares_rows_[i]), 1)});
}

void LoraAdapters::update(Tensor scalars) {
  const OptimSettings& optim = model_.optim;
  backend_.run(kCompute, AdamW{.ranges = decays_,
                               .beta1 = optim.beta1,
                               .beta2 = optim.beta2,
                               .epsilon = optim.eps,
                               .grads = gradients_,
                               .scalars = scalars,
                               .master = values_,
                               .m = first_moment_,
                               .v = second_moment_,
                               .weights = values_});
  merge();
}

void LoraAdapters::add_tensors(const std::string& prefix, const Tensor& flat, std::vector<CheckpointTensor>& to) const {
  for (const Unit& unit : units_) {
    const auto [a, b] = pair_of(unit, flat);
    to.push_back({prefix + unit.target.name() + ".a", TensorSlice::whole(a.shape), a, &backend_});
    to.push_back({prefix + unit.target.name() + ".b", TensorSlice::whole(b.shape), b, &backend_});
  }
}

std::vector<CheckpointTensor> LoraAdapters::adapter_tensors() const {
  std::vector<CheckpointTensor> all;
  add_tensors("", values_, all);
  return all;
}

std::vector<CheckpointTensor> LoraAdapters::tensors() const {
  std::vector<CheckpointTensor> all = adapter_tensors();
  add_tensors("first_moment.", first_moment_, all);
  add_tensors("second_moment.", second_moment_, all);
  return all;
}

}  // namespace trireme
