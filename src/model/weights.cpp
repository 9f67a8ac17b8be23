#include "model/weights.h"

#include <algorithm>
#include <optional>

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

// Elements that are contiguous in the global tensor and in an owned part of it.
struct GlobalRun {
  int64_t global = 0, local = 0, count = 0;
};

std::vector<GlobalRun> global_runs(const Shape& global, const OwnedPart& part) {
  const int64_t columns = global.rank() == 1 ? global[0] : global[1];
  const int64_t width = part.piece.extent[-1], first_column = part.piece.offset[-1];
  const int64_t first_row = global.rank() == 1 ? 0 : part.piece.offset[0];
  if (width == columns) return {{first_row * columns + first_column + part.begin, 0, part.count}};
  std::vector<GlobalRun> runs;
  for (int64_t done = 0; done < part.count;) {
    const int64_t row = (part.begin + done) / width, column = (part.begin + done) % width;
    const int64_t count = std::min(width - column, part.count - done);
    runs.push_back({(first_row + row) * columns + first_column + column, done, count});
    done += count;
  }
  return runs;
}

// Rows of the head, of one block, or of the embedding.
bool belong_together(const ParameterRow& a, const ParameterRow& b) {
  const auto is_head = [](const ParameterRow& row) { return row.owner == Owner::last_stage; };
  return a.layer == b.layer && is_head(a) == is_head(b);
}

// Whether a bucket continues with a row: up to the largest size, or else to the end of its unit.
bool belongs(const FlatLayout& layout, const Bucket& bucket, size_t row, int64_t most_bytes) {
  if (row == bucket.first_row) return true;
  if (most_bytes == 0) return belong_together(layout.table[bucket.first_row], layout.table[row]);
  const int64_t count = layout.count - bucket.all.begin + local_part(layout.table[row], layout.shard).shape.count();
  return count * size_of(DType::f32) <= most_bytes;
}

void add_bucket(FlatLayout& layout, int64_t most_bytes) {
  const RankShard& shard = layout.shard;
  size_t row = layout.local.size();
  Bucket bucket{.first_row = row, .end_row = row, .all = {layout.count, 0}, .own = {}, .state = layout.state_count, .parts = {}};
  for (; row < layout.table.size() && belongs(layout, bucket, row, most_bytes); ++row) {
    layout.local.push_back(local_part(layout.table[row], shard));
    layout.offsets.push_back(layout.count);
    layout.count += round_up(layout.local.back().shape.count(), kAlignElements);
  }
  bucket.end_row = row;
  // All ranks' pieces have the same length and alignment.
  layout.count = bucket.all.begin + round_up(layout.count - bucket.all.begin, kAlignElements * shard.dp_size);
  bucket.all.count = layout.count - bucket.all.begin;
  const int64_t piece = bucket.all.count / shard.dp_size;
  bucket.own = {bucket.all.begin + shard.dp_rank * piece, piece};
  for (size_t i = bucket.first_row; i < row; ++i)
    for (const LocalPiece& held : layout.local[i].pieces) {
      const int64_t at = layout.offsets[i] + held.begin;
      const int64_t begin = std::max(at, bucket.own.begin);
      const int64_t end = std::min(at + held.count(), bucket.own.begin + bucket.own.count);
      if (begin < end)
        bucket.parts.push_back({i, held, begin - at, end - begin, begin, layout.state_count + begin - bucket.own.begin});
    }
  layout.state_count += piece;
  layout.buckets.push_back(std::move(bucket));
}

void add_units(FlatLayout& layout) {
  for (size_t row = 0; row < layout.table.size();) {
    const ParameterRow& first = layout.table[row];
    Unit unit{.first_row = row, .end_row = row};
    while (unit.end_row < layout.table.size() && belong_together(first, layout.table[unit.end_row])) ++unit.end_row;
    const auto bucket_of = [&](size_t of) {
      return static_cast<size_t>(std::ranges::upper_bound(layout.buckets, of, {}, &Bucket::first_row) - layout.buckets.begin()) -
             1;
    };
    unit.first_bucket = bucket_of(row);
    unit.end_bucket = bucket_of(unit.end_row - 1) + 1;
    if (first.owner == Owner::block)
      layout.blocks[static_cast<size_t>(first.layer)] = unit;
    else
      (first.owner == Owner::last_stage ? layout.head : layout.embedding) = unit;
    row = unit.end_row;
  }
}

bool trains_adapters(const ModelSettings& model) { return model.peft.scheme == PeftScheme::lora; }

bool is_block(const FlatLayout& layout, const Bucket& bucket) { return layout.table[bucket.first_row].owner == Owner::block; }

// passing: a rank has no piece of its own, only slots.
enum class Blocks : uint8_t { whole, sharded, passing };

FlatPlaces place(const FlatLayout& layout, Blocks blocks) {
  FlatPlaces places;
  int64_t sharded = 0, most = 0;
  for (const Bucket& bucket : layout.buckets) {
    const bool in_slot = blocks != Blocks::whole && is_block(layout, bucket);
    const int64_t own = in_slot && blocks == Blocks::passing ? 0 : bucket.own.count;
    const int64_t kept = in_slot ? own : bucket.all.count;
    places.slots.push_back(in_slot ? sharded++ % FlatPlaces::kSlots : FlatPlaces::kNotSharded);
    places.all.push_back({places.count, bucket.all.count});
    places.own.push_back({places.count + (in_slot ? 0 : bucket.own.begin - bucket.all.begin), own});
    if (in_slot) most = std::max(most, bucket.all.count);
    places.count += kept;
  }
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    if (places.is_sharded(i)) places.all[i].begin = places.count + places.slots[i] * most;
    const Bucket& bucket = layout.buckets[i];
    for (size_t row = bucket.first_row; row < bucket.end_row; ++row)
      places.rows.push_back(places.all[i].begin + layout.offsets[row] - bucket.all.begin);
  }
  places.count += std::min(sharded, FlatPlaces::kSlots) * most;
  return places;
}

// With model.fp8_params the matrices of the blocks are not stored. Sharded masters are not a source of whole matrices: the
// weights are what is gathered.
void leave_out_matrices(FlatLayout& layout) {
  layout.stores_all_weights = false;
  FlatPlaces& weights = layout.weights;
  weights.count = 0;
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const bool is_matrix = layout.table[row].owner == Owner::block && layout.table[row].shape.rank() == 2;
    weights.rows[row] = is_matrix ? FlatPlaces::kNotStored : weights.count;
    if (!is_matrix) weights.count += round_up(layout.local[row].shape.count(), kAlignElements);
  }
}

void place_all(FlatLayout& layout, const ModelSettings& model) {
  layout.shards_gradients = model.fsdp && layout.shard.dp_size > 1;
  const bool shards_weights = layout.shards_gradients && model.fsdp_sharding_strategy == ShardingStrategy::full;
  layout.weights = place(layout, shards_weights ? Blocks::sharded : Blocks::whole);
  layout.gradients = place(layout, trains_adapters(model)    ? Blocks::passing
                                   : layout.shards_gradients ? Blocks::sharded
                                                             : Blocks::whole);
  if (model.fp8.enabled && model.fp8.params && layout.shard.dp_size == 1) leave_out_matrices(layout);
}

}  // namespace

FlatLayout FlatLayout::of(const ModelSettings& model, const RankShard& shard) {
  FlatLayout layout;
  layout.shard = shard;
  const std::vector<ParameterRow> all = parameter_table(model);
  for (size_t row = 0; row < all.size(); ++row) {
    if (!holds(model, all[row], shard)) continue;
    layout.table.push_back(all[row]);
    layout.table_rows.push_back(row);
  }
  constexpr int64_t kMiB = int64_t{1} << 20;
  const int64_t most_bytes =
      model.fsdp || trains_adapters(model) ? 0 : model.optim.bucket_cap_mb * kMiB;  // blocks in slots are buckets
  while (layout.local.size() < layout.table.size()) add_bucket(layout, most_bytes);
  layout.blocks.resize(static_cast<size_t>(model.num_layers));
  add_units(layout);
  place_all(layout, model);
  return layout;
}

int64_t FlatLayout::most_in_bucket() const {
  int64_t most = 0;
  for (const Bucket& bucket : buckets) most = std::max(most, bucket.all.count);
  return most;
}

int64_t FlatLayout::find(const std::string& name) const {
  const auto at = std::find_if(table.begin(), table.end(), [&](const ParameterRow& row) { return row.name == name; });
  return at == table.end() ? -1 : at - table.begin();
}

FlatViews::FlatViews(const FlatLayout& layout, const ModelSettings& model, Tensor flat, const std::vector<int64_t>& offsets)
    : layout_(layout), offsets_(offsets), flat_(flat) {
  const auto view = [&](const std::string& name) {
    const int64_t row = layout_.find(name);
    return row < 0 ? Tensor{} : parameter(static_cast<size_t>(row));
  };
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const std::string p = "blocks." + std::to_string(layer) + ".";
    // A shared norm is made twice, and both add to its gradient.
    const std::string norm2 = p + (model.shared_attention_norm ? "norm1" : "norm2");
    blocks_.push_back({.norm1_weight = view(p + "norm1.weight"),
                       .norm1_bias = view(p + "norm1.bias"),
                       .qkv_weight = view(p + "attention.qkv.weight"),
                       .qkv_bias = view(p + "attention.qkv.bias"),
                       .out_weight = view(p + "attention.out.weight"),
                       .out_bias = view(p + "attention.out.bias"),
                       .norm2_weight = view(norm2 + ".weight"),
                       .norm2_bias = view(norm2 + ".bias"),
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
  const Shape& shape = layout_.local[row].shape;
  if (offsets_[row] == FlatPlaces::kNotStored) return {.dtype = flat_.dtype, .shape = shape, .device = flat_.device};
  return flat_.flat_range(offsets_[row], shape);
}

void Weights::add_fp8_copies(const ModelSettings& model, const Fp8State& fp8, Arena& arena, Tensor masters) {
  copies_.assign(static_cast<size_t>(model.num_layers), Copies::stale);
  copied_.resize(copies_.size());
  const auto take_copies = [&](const Operand& weight) {
    return Fp8Copy{.values = arena.take(weight.shape(), fp8.input_dtype()),
                   .transposed = arena.take({weight.shape()[1], weight.shape()[0]}, fp8.input_dtype())};
  };
  std::optional<FlatViews> from;
  if (!layout_.stores_all_weights) from.emplace(layout_, model, masters, layout_.offsets);
  // Sharded blocks have copies in slots too.
  std::array<std::array<Fp8Copy, kBlockLinears>, FlatPlaces::kSlots> in_slots;
  for (const int64_t layer : fp8.layers()) {
    BlockParameters& block = views_.block(layer);
    const int64_t slot = slot_of(layer);
    const auto add = [&](BlockLinear linear, Operand BlockParameters::*which) {
      Operand& weight = block.*which;
      if (slot == FlatPlaces::kNotSharded) {
        weight.fp8 = take_copies(weight);
      } else {
        Fp8Copy& shared = in_slots[static_cast<size_t>(slot)][static_cast<size_t>(linear)];
        if (!shared.values) shared = take_copies(weight);
        weight.fp8 = shared;
      }
      fp8.assign_weight({layer, linear}, weight.fp8);
      const Tensor& source = (from ? from->block(layer).*which : weight).tensor;
      copied_[static_cast<size_t>(layer)][static_cast<size_t>(linear)] = Operand(source, weight.fp8, Wide::kept);
    };
    add(BlockLinear::qkv, &BlockParameters::qkv_weight);
    add(BlockLinear::out, &BlockParameters::out_weight);
    add(BlockLinear::up, &BlockParameters::up_weight);
    add(BlockLinear::down, &BlockParameters::down_weight);
  }
  if (!fp8.has_head()) return;
  Operand& head = views_.head().head;
  head.fp8 = take_copies(head);
  fp8.assign_weight({}, head.fp8);
  head_copies_ = Copies::stale;
}

int64_t Weights::slot_of(int64_t layer) const { return places_.slots[layout_.blocks[static_cast<size_t>(layer)].first_bucket]; }

void Weights::prefetch(int64_t layer) const {
  if (slot_of(layer) == FlatPlaces::kNotSharded) return;
  int64_t& in_slot = in_slot_[static_cast<size_t>(slot_of(layer))];
  if (in_slot == layer) return;
  in_slot = layer;
  start_gather(layout_.blocks[static_cast<size_t>(layer)].first_bucket);
  if (!copies_.empty()) copies_[static_cast<size_t>(layer)] = Copies::stale;
}

const BlockParameters& Weights::acquire(int64_t layer, int64_t next) const {
  prefetch(layer);
  wait_for(layout_.blocks[static_cast<size_t>(layer)]);
  if (next != kNoLayer && slot_of(next) != slot_of(layer)) prefetch(next);
  const BlockParameters& block = views_.block(layer);
  if (copies_.empty()) return block;
  Copies& copies = copies_[static_cast<size_t>(layer)];
  if (copies == Copies::stale)
    for (const Operand& weight : copied_[static_cast<size_t>(layer)]) backend_.run(kCompute, Quantize{.x = weight});
  copies = Copies::made;
  return block;
}

void Weights::make_fp8_copies() const {
  for (size_t layer = 0; layer < copies_.size(); ++layer)
    if (copies_[layer] == Copies::stale && copied_[layer].front()) acquire(static_cast<int64_t>(layer));
  if (head_copies_ == Copies::stale) acquire_head();
}

void Weights::wait_for(const Unit& unit) const {
  for (size_t i = unit.first_bucket; i < unit.end_bucket; ++i) backend_.wait(kCompute, gathered_[i]);
}

const HeadParameters& Weights::acquire_head() const {
  wait_for(layout_.head);
  wait_for(layout_.embedding);  // which holds the head when the two are tied
  if (head_copies_ == Copies::stale) backend_.run(kCompute, Quantize{.x = views_.head().head});
  head_copies_ = Copies::made;
  return views_.head();
}

void Weights::wait_for_all() const {
  for (const Event& gathered : gathered_) backend_.wait(kCompute, gathered);
}

Tensor Weights::updated(size_t index, Tensor masters) const { return layout_.stores_all_weights ? own(index) : masters; }

void Weights::set(size_t index, Tensor masters) const {
  const Bucket& bucket = layout_.buckets[index];
  if (layout_.stores_all_weights) return backend_.run(kCompute, Copy{.from = masters, .to = updated(index, masters)});
  for (size_t row = bucket.first_row; row < bucket.end_row; ++row) {
    if (places_.rows[row] == FlatPlaces::kNotStored) continue;
    const Tensor to = views_.parameter(row);
    backend_.run(kCompute, Copy{.from = masters.flat_range(layout_.offsets[row] - bucket.own.begin, to.shape), .to = to});
  }
}

void Weights::gather(size_t index) {
  std::ranges::fill(copies_, Copies::stale);
  if (views_.head().head.fp8) head_copies_ = Copies::stale;
  const Bucket& bucket = layout_.buckets[index];
  if (bucket.own.count == bucket.all.count) return;
  if (places_.is_sharded(index))
    in_slot_[static_cast<size_t>(places_.slots[index])] = kNothing;
  else
    start_gather(index);
}

// Work enqueued so far has updated the pieces, and has read for the last time what was in the slot.
void Weights::start_gather(size_t index) const {
  const FlatRange &own = places_.own[index], &all = places_.all[index];
  const Tensor flat = views_.flat();
  backend_.wait(kDataParallel, backend_.record(kCompute, "own_weights_updated"));
  group_->all_gather(kDataParallel, flat.rows(own.begin, own.count), flat.rows(all.begin, all.count));
  gathered_[index] = backend_.record(kDataParallel, "weights_gathered");
}

// The table is replaced by the head where this rank has the head, tied or not.
std::vector<FlatRange> Grads::ranges_added_to(size_t index) const {
  const RankShard& shard = layout_.shard;
  const bool has_head = shard.has_head(shard.chunks - 1);
  const auto is_replaced = [&](const ParameterRow& row) {
    if (row.shape.rank() != 2) return false;
    if (row.owner == Owner::block) return true;
    return has_head && (row.name == "head.weight" || (row.name == "embedding.word" && layout_.find("head.weight") < 0));
  };
  const Bucket& bucket = layout_.buckets[index];
  const FlatRange& all = places_.all[index];
  std::vector<FlatRange> ranges;
  int64_t end = all.begin;
  for (size_t row = bucket.first_row; row < bucket.end_row; ++row) {
    if (!is_replaced(layout_.table[row])) continue;
    if (places_.rows[row] > end) ranges.push_back({end, places_.rows[row] - end});
    end = places_.rows[row] + layout_.local[row].shape.count();
  }
  if (all.begin + all.count > end) ranges.push_back({end, all.begin + all.count - end});
  return ranges;
}

// Neighbouring ranges are cleared together.
void Grads::clear() {
  has_sum_.assign(has_sum_.size(), false);
  FlatRange together;
  const auto fill = [&] {
    if (together.count > 0) backend_.run(kCompute, Fill{.value = 0, .out = views_.flat().rows(together.begin, together.count)});
  };
  for (size_t bucket = 0; bucket < added_to_.size(); ++bucket) {
    if (places_.is_sharded(bucket)) continue;
    for (const FlatRange& range : added_to_[bucket]) {
      const bool continues = together.count > 0 && range.begin == together.begin + together.count;
      if (!continues) fill();
      together = continues ? FlatRange{together.begin, together.count + range.count} : range;
    }
  }
  fill();
}

const BlockParameters& Grads::acquire(int64_t layer) {
  const size_t bucket = layout_.blocks[static_cast<size_t>(layer)].first_bucket;
  if (places_.is_sharded(bucket)) {
    int64_t& in_slot = in_slot_[static_cast<size_t>(places_.slots[bucket])];
    if (in_slot != kNothing) add_to_own(static_cast<size_t>(in_slot));
    for (const FlatRange& range : added_to_[bucket])
      backend_.run(kCompute, Fill{.value = 0, .out = views_.flat().rows(range.begin, range.count)});
    if (!take_) in_slot = static_cast<int64_t>(bucket);
  }
  return views_.block(layer);
}

void Grads::finished(const Unit& unit) {
  if (unit.first_row == unit.end_row || take_) return;
  if (places_.is_sharded(unit.first_bucket)) return sum_sharded(unit);
  if (overlaps_ && micro_batch_ == MicroBatch::last) sum(unit);
}

// Under sequence parallelism, gradients of norms: each rank has summed over its rows. Contiguous ones are summed
// together.
void Grads::sum_partial(const Unit& unit) {
  if (!sums_rows_) return;
  const auto is_partial = [&](size_t row) { return layout_.table[row].partial_grad == PartialGrad::yes; };
  backend_.wait(kDataParallel, backend_.record(kCompute, "gradients_written"));
  for (size_t row = unit.first_row; row < unit.end_row; ++row) {
    if (!is_partial(row)) continue;
    const int64_t begin = places_.rows[row];
    while (row + 1 < unit.end_row && is_partial(row + 1)) ++row;
    const int64_t end = places_.rows[row] + layout_.local[row].shape.count();
    mesh_.tp->all_reduce(kDataParallel, views_.flat().rows(begin, end - begin), Reduce::sum);
  }
}

// The first and the last stage each have a part of the gradient of the table they share.
void Grads::sum_shared_table(const Unit& unit) {
  if (mesh_.embedding == nullptr) return;
  for (size_t row = unit.first_row; row < unit.end_row; ++row) {
    if (layout_.table[row].owner != Owner::first_and_last_stage) continue;
    backend_.wait(kDataParallel, backend_.record(kCompute, "gradients_written"));
    mesh_.embedding->all_reduce(kDataParallel, views_.parameter(row), Reduce::sum);
  }
}

void Grads::sum(const Unit& unit) {
  if (unit.first_row == unit.end_row) return;
  sum_partial(unit);
  sum_shared_table(unit);
  for (; next_bucket_ < layout_.buckets.size(); ++next_bucket_) {
    if (places_.is_sharded(next_bucket_)) continue;  // reduced after each micro-batch
    if (layout_.buckets[next_bucket_].end_row > unit.end_row) break;
    if (mesh_.dp_cp->size() > 1) reduce(next_bucket_);
    reduced_[next_bucket_] = backend_.record(kDataParallel, "gradients_reduced");
  }
  if (next_bucket_ == layout_.buckets.size()) next_bucket_ = 0;
}

void Grads::sum_sharded(const Unit& unit) {
  sum_partial(unit);
  reduce(unit.first_bucket);
  reduced_[unit.first_bucket] = backend_.record(kDataParallel, "gradients_reduced");
}

// Where the sum of this rank's piece is after reduce().
Tensor Grads::reduced_piece(size_t index) const {
  const Bucket& bucket = layout_.buckets[index];
  if (narrow_.own) return narrow_.own.rows(bucket.state, bucket.own.count);
  return views_.flat().rows(places_.all[index].begin + bucket.own.begin - bucket.all.begin, bucket.own.count);
}

void Grads::reduce(size_t index) {
  const Bucket& bucket = layout_.buckets[index];
  const FlatRange& all = places_.all[index];
  const bool owns_all = bucket.own.count == bucket.all.count;
  const Tensor sum = reduced_piece(index);
  Tensor gradients = views_.flat().rows(all.begin, all.count);
  if (narrow_.own) {
    const Tensor narrow = owns_all ? sum : narrow_.bucket.rows(0, all.count);
    // The sums of parts are on the other stream, and so is the sum of the bucket that was there before.
    backend_.wait(kCompute, backend_.record(kDataParallel, "earlier_sums_made"));
    backend_.run(kCompute, Copy{.from = gradients, .to = narrow});
    gradients = narrow;
  }
  backend_.wait(kDataParallel, backend_.record(kCompute, "gradients_written"));
  if (owns_all)
    mesh_.dp_cp->all_reduce(kDataParallel, sum, Reduce::sum);
  else
    mesh_.dp_cp->reduce_scatter(kDataParallel, gradients, sum, Reduce::sum);
}

// Adds the sum of the micro-batch in the slot to the piece that this rank owns; later work may write to the slot.
void Grads::add_to_own(size_t index) {
  backend_.wait(kCompute, reduced_[index]);
  const Tensor piece = reduced_piece(index), sum = own(index);
  if (has_sum_[index])
    backend_.run(kCompute, Accumulate{.from = piece, .to = sum});
  else
    backend_.run(kCompute, Copy{.from = piece, .to = sum});
  has_sum_[index] = true;
  in_slot_[static_cast<size_t>(places_.slots[index])] = kNothing;
}

void Grads::finished_step() {
  if (overlaps_ || take_) return;
  sum(layout_.head);
  for (auto block = layout_.blocks.rbegin(); block != layout_.blocks.rend(); ++block)
    if (!places_.is_sharded(block->first_bucket)) sum(*block);
  sum(layout_.embedding);
}

Tensor Grads::acquire_own(size_t index) {
  if (places_.is_sharded(index)) {
    if (in_slot_[static_cast<size_t>(places_.slots[index])] == static_cast<int64_t>(index)) add_to_own(index);
    return own(index);
  }
  backend_.wait(kCompute, reduced_[index]);
  if (narrow_.own) backend_.run(kCompute, Copy{.from = reduced_piece(index), .to = own(index)});
  return own(index);
}

void initialise(const FlatLayout& layout, const Bucket& bucket, uint64_t seed, Backend& backend, Tensor masters) {
  backend.run(kCompute, Fill{.value = 0, .out = masters});
  for (const OwnedPart& part : bucket.parts) {
    const ParameterRow& row = layout.table[part.row];
    const Tensor values = masters.rows(part.flat - bucket.own.begin, part.count);
    if (row.init == InitKind::ones) backend.run(kCompute, Fill{.value = 1, .out = values});
    if (row.init != InitKind::normal) continue;
    for (const GlobalRun& run : global_runs(row.shape, part))
      backend.run(kCompute, RandomNormal{.mean = 0,
                                         .deviation = row.deviation,
                                         .seed = seed,
                                         .site = site_of(row.name),
                                         .first = run.global,
                                         .out = values.rows(run.local, run.count)});
  }
}

}  // namespace trireme
