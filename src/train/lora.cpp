#include "train/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
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

std::vector<std::string> adapter_names(const ModelSettings& model) {
  std::vector<std::string> names;
  for (const LoraTarget& target : lora_targets(model))
    for (const char* half : {".a", ".b"}) names.push_back(target.name() + half);
  return names;
}

LoraAdapters::LoraAdapters(const ModelSettings& model, const FlatLayout& layout, Backend& backend, const Mesh& mesh,
                           const MasterOf& master_of, Arena& arena)
    : model_(model), layout_(layout), backend_(backend), mesh_(mesh), rank_(model.peft.lora.adapter_dim) {
  const std::vector<LoraTarget> targets = lora_targets(model);
  for (size_t i = 0; i < targets.size(); ++i)
    if (const int64_t row = layout.find(targets[i].parameter); row >= 0)  // or it is of another stage
      units_.push_back(unit_of(targets[i], i, static_cast<size_t>(row)));
  place_units();
  int64_t most_side = 0, most = 0;
  for (const Unit& unit : units_) {
    const int64_t side = std::max(unit.a_shape().count(), unit.b_shape().count());
    most_side = std::max(most_side, side);
    most = std::max({most, side, unit.rows * unit.columns});
  }
  for (Tensor* flat : {&values_, &gradients_, &first_moment_, &second_moment_}) *flat = arena.take({count_}, DType::f32);
  scaled_identity_ = arena.take({rank_, rank_}, DType::f32);
  scaled_ = arena.take({most_side}, DType::f32);
  product_ = arena.take({most}, DType::f32);
  add_parts(master_of, arena);
}

LoraAdapters::Unit LoraAdapters::unit_of(const LoraTarget& target, size_t index, size_t row) const {
  const LocalParameter& local = layout_.local[row];
  const int64_t width = local.shape[1];
  const bool is_cut = layout_.shard.tp_size > 1, by_columns = layout_.table[row].cut == Cut::columns;
  Unit unit{.target = target,
            .index = index,
            .row = row,
            .pieces = {},
            .first_column = local.pieces[0].offset[1],
            .columns = width,
            .shares_a = is_cut && !by_columns,
            .shares_b = is_cut && by_columns,
            .rank = rank_};
  for (const LocalPiece& piece : local.pieces) {
    const int64_t begin = std::max(piece.offset[0], target.first_row),
                  end = std::min(piece.offset[0] + piece.extent[0], target.first_row + target.rows);
    if (begin >= end) continue;
    const int64_t at = piece.begin / width + begin - piece.offset[0];
    if (unit.rows == 0) unit.first_row = at;
    CHECK_EQ(at, unit.first_row + unit.rows);  // a rank's parts of the segments follow each other
    unit.pieces.push_back({begin - target.first_row, unit.rows, end - begin});
    unit.rows += end - begin;
  }
  return unit;
}

// The halves that the tensor-parallel ranks share come last, so that one call sums them.
void LoraAdapters::place_units() {
  constexpr int64_t kAlignment = Arena::kAlignment / 4;  // elements
  const auto decay = static_cast<float>(model_.optim.weight_decay);
  const auto take = [&](const Shape& shape) {
    const int64_t begin = count_;
    decays_.push_back({begin, shape.count(), decay});
    count_ = round_up(begin + shape.count(), kAlignment);
    return begin;
  };
  for (const bool shared : {false, true}) {
    if (shared) shared_ = count_;
    for (Unit& unit : units_) {
      if (unit.shares_a == shared) unit.a = take(unit.a_shape());
      if (unit.shares_b == shared) unit.b = take(unit.b_shape());
    }
  }
}

void LoraAdapters::add_parts(const MasterOf& master_of, Arena& arena) {
  for (const Bucket& bucket : layout_.buckets)
    for (const OwnedPart& part : bucket.parts)
      for (size_t i = 0; i < units_.size(); ++i) {
        const Unit& unit = units_[i];
        if (unit.row != part.row) continue;
        // Elements of the parameter: those of the part that are among the unit's.
        const int64_t own = part.piece.begin + part.begin, first = unit.first_row * unit.columns;
        const int64_t begin = std::max(own, first), end = std::min(own + part.count, first + unit.rows * unit.columns);
        if (begin >= end) continue;
        const int64_t first_row = (begin - first) / unit.columns, end_row = ceil_div(end - first, unit.columns);
        parts_.push_back({.unit = i,
                          .first_row = first_row,
                          .rows = end_row - first_row,
                          .skipped = begin - first - first_row * unit.columns,
                          .master = master_of(bucket, part).rows(begin - own, end - begin),
                          .base = arena.take({end - begin}, DType::f32)});
      }
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
    drawn.clear();
    for (int64_t row = 0; row < rank_; ++row)
      for (int64_t column = 0; column < unit.columns; ++column) {
        const int64_t i = row * unit.target.columns + unit.first_column + column;  // the same on every layout
        const uint32_t bits = philox(model_.seed, {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), site, 0x10A})[0];
        drawn.push_back(static_cast<float>((2 * uniform_open(bits) - 1) * bound));
      }
    backend_.upload(kCompute, drawn.data(), a_in(unit, values_));
  }
}

void LoraAdapters::adopt_base() {
  for (const Part& part : parts_) backend_.run(kCompute, Copy{.from = part.master, .to = part.base});
}

void LoraAdapters::merge() {
  for (const Part& part : parts_) {
    const Unit& unit = units_[part.unit];
    const Tensor b = b_in(unit, values_).rows(part.first_row, part.rows);
    const Tensor scaled = scaled_.flat_range(0, b.shape), product = product_.flat_range(0, {part.rows, unit.columns});
    backend_.run(kCompute, LinearForward{.x = b, .weight = scaled_identity_, .out = scaled});
    backend_.run(kCompute, LinearInputGrad{.d_out = scaled, .weight = a_in(unit, values_), .d_x = product});
    backend_.run(kCompute, Copy{.from = part.base, .to = part.master});
    backend_.run(kCompute, Accumulate{.from = product_.rows(part.skipped, part.base.count()), .to = part.master});
  }
}

bool LoraAdapters::changes(const Bucket& bucket) const {
  return std::ranges::any_of(units_, [&](const Unit& unit) { return unit.row >= bucket.first_row && unit.row < bucket.end_row; });
}

void LoraAdapters::clear_gradients() { backend_.run(kCompute, Fill{.value = 0, .out = gradients_}); }

void LoraAdapters::add_gradients(int64_t layer, const FlatViews& gradients) {
  for (const Unit& unit : units_) {
    if (layout_.table[unit.row].layer != layer) continue;
    const Tensor a = a_in(unit, values_), b = b_in(unit, values_);
    const Tensor d_weight = gradients.parameter(unit.row).rows(unit.first_row, unit.rows);
    const Tensor scaled_b = scaled_.flat_range(0, b.shape);
    backend_.run(kCompute, LinearForward{.x = b, .weight = scaled_identity_, .out = scaled_b});
    backend_.run(kCompute,
                 LinearWeightGrad{.sum = GradSum::adds, .x = d_weight, .d_out = scaled_b, .d_weight = a_in(unit, gradients_)});
    const Tensor scaled_a = scaled_.flat_range(0, a.shape), d_b = product_.flat_range(0, b.shape);
    backend_.run(kCompute, LinearInputGrad{.d_out = scaled_identity_, .weight = a, .d_x = scaled_a});
    backend_.run(kCompute, LinearForward{.x = d_weight, .weight = scaled_a, .out = d_b});
    backend_.run(kCompute, Accumulate{.from = d_b, .to = b_in(unit, gradients_)});
  }
}

bool LoraAdapters::counts(bool is_shared) const {
  const RankShard& shard = layout_.shard;
  return shard.copy == 0 && shard.dp_rank == 0 && (!is_shared || shard.tp_rank == 0);
}

void LoraAdapters::finish_gradients(Tensor squares) {
  mesh_.dp_cp->all_reduce(kCompute, gradients_, Reduce::sum);
  if (shared_ < count_) mesh_.tp->all_reduce(kCompute, gradients_.rows(shared_, count_ - shared_), Reduce::sum);
  backend_.run(kCompute, Fill{.value = 0, .out = squares});
  for (const Unit& unit : units_) {
    const std::array<FlatRange, 2> halves = {FlatRange{unit.a, counts(unit.shares_a) ? unit.a_shape().count() : 0},
                                             FlatRange{unit.b, counts(unit.shares_b) ? unit.b_shape().count() : 0}};
    backend_.run(
        kCompute,
        SquaredNorms{.ranges = halves, .grads = gradients_, .squares = squares.rows(static_cast<int64_t>(2 * unit.index), 2)});
  }
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

void LoraAdapters::add_tensors(const std::string& prefix, const Tensor& flat, Held which,
                               std::vector<CheckpointTensor>& to) const {
  const auto is_wanted = [&](bool is_shared) { return which == Held::all || counts(is_shared); };
  for (const Unit& unit : units_) {
    const std::string name = prefix + unit.target.name();
    const Shape a{rank_, unit.target.columns}, b{unit.target.rows, rank_};
    if (is_wanted(unit.shares_a))
      to.push_back({name + ".a", TensorSlice::rectangle(a, {0, unit.first_column}, unit.a_shape()), a_in(unit, flat), &backend_});
    if (!is_wanted(unit.shares_b)) continue;
    for (const Rows& rows : unit.pieces)
      to.push_back({name + ".b", TensorSlice::rectangle(b, {rows.global, 0}, {rows.count, rank_}),
                    b_in(unit, flat).rows(rows.local, rows.count), &backend_});
  }
}

std::vector<CheckpointTensor> LoraAdapters::adapter_tensors(Held which) const {
  std::vector<CheckpointTensor> all;
  add_tensors("", values_, which, all);
  return all;
}

std::vector<CheckpointTensor> LoraAdapters::tensors(Held which) const {
  std::vector<CheckpointTensor> all = adapter_tensors(which);
  add_tensors("first_moment.", first_moment_, which, all);
  add_tensors("second_moment.", second_moment_, which, all);
  return all;
}

}  // namespace trireme
