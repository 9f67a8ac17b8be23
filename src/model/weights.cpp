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

// Elements that lie side by side in the global tensor and in an owned part of it.
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

}  // namespace

FlatLayout FlatLayout::of(const ModelSettings& model, const RankShard& shard) {
  FlatLayout layout{.table = parameter_table(model), .local = {}, .offsets = {}, .buckets = {}, .count = 0, .state_count = 0};
  size_t row = 0;
  // Rows with the same owner and layer follow each other in the table.
  const auto is_embedding = [](const ParameterRow& r) {
    return r.owner == Owner::first_stage || r.owner == Owner::first_and_last_stage;
  };
  const auto same_bucket = [&](const ParameterRow& a, const ParameterRow& b) {
    return a.layer == b.layer && is_embedding(a) == is_embedding(b);
  };
  while (row < layout.table.size()) {
    Bucket bucket{.all = {layout.count, 0}, .own = {}, .state = layout.state_count, .parts = {}};
    const size_t first = row;
    for (; row < layout.table.size() && same_bucket(layout.table[first], layout.table[row]); ++row) {
      layout.local.push_back(local_part(layout.table[row], shard));
      layout.offsets.push_back(layout.count);
      layout.count += round_up(layout.local.back().shape.count(), kAlignElements);
    }
    // Every rank's piece is as long as the others' and as well aligned.
    layout.count = bucket.all.begin + round_up(layout.count - bucket.all.begin, kAlignElements * shard.dp_size);
    bucket.all.count = layout.count - bucket.all.begin;
    const int64_t piece = bucket.all.count / shard.dp_size;
    bucket.own = {bucket.all.begin + shard.dp_rank * piece, piece};
    for (size_t i = first; i < row; ++i)
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

Tensor FlatViews::parameter(size_t row) const { return flat_.flat_range(layout_.offsets[row], layout_.local[row].shape); }

const HeadParameters& Weights::acquire_head() const {
  wait_for(layout_.head_bucket());
  wait_for(layout_.embedding_bucket());  // which holds the head when the two are tied
  return views_.head();
}

void Weights::wait_for_all() const {
  for (size_t bucket = 0; bucket < gathered_.size(); ++bucket) wait_for(bucket);
}

void Weights::gather(size_t index, Communicator& dp) {
  const Bucket& bucket = layout_.buckets[index];
  const Tensor flat = views_.flat();
  if (dp.size() == 1) return;
  backend_.wait(kDataParallel, backend_.record(kCompute, "own_weights_updated"));
  dp.all_gather(kDataParallel, flat.rows(bucket.own.begin, bucket.own.count), flat.rows(bucket.all.begin, bucket.all.count));
  gathered_[index] = backend_.record(kDataParallel, "weights_gathered");
}

void Grads::reduce(size_t index) {
  if (micro_batch_ != MicroBatch::last || mesh_.dp->size() == 1) return;
  const Bucket& bucket = layout_.buckets[index];
  backend_.wait(kDataParallel, backend_.record(kCompute, "gradients_written"));
  mesh_.dp->reduce_scatter(kDataParallel, views_.flat().rows(bucket.all.begin, bucket.all.count),
                           views_.flat().rows(bucket.own.begin, bucket.own.count), Reduce::sum);
  reduced_[index] = backend_.record(kDataParallel, "gradients_reduced");
}

Tensor Grads::acquire_own(size_t index) const {
  backend_.wait(kCompute, reduced_[index]);
  return views_.flat().rows(layout_.buckets[index].own.begin, layout_.buckets[index].own.count);
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
