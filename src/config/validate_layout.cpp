#include "config/validate_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "config/divisors.h"

namespace trireme {

namespace {

// TP x PP x CP ranks hold the model once; the other ranks hold copies of it.
void validate_world(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const int64_t ranks = settings.ranks(), needed = settings.model_ranks();
  if (ranks % needed == 0) return;
  throw UserError(
      "trainer.num_nodes={} with trainer.devices={} makes {} ranks, and tensor {} x pipeline {} x context {} parallelism needs a "
      "multiple of {}; use {} ranks, for example trainer.num_nodes={}",
      settings.trainer.num_nodes, settings.trainer.devices, ranks, model.tensor_model_parallel_size,
      model.pipeline_model_parallel_size, model.context_parallel_size, needed, multiples_near(needed, ranks),
      needed / std::gcd(needed, settings.trainer.devices));
}

void validate_tensor_cut(const ModelSettings& model) {
  const int64_t tp = model.tensor_model_parallel_size;
  const auto require = [&](const char* key, int64_t value) {
    if (value % tp != 0)
      throw UserError("model.tensor_model_parallel_size={} does not divide {}={}; use {}", tp, key, value,
                      divisors_near(value, tp));
  };
  require("model.num_attention_heads", model.num_attention_heads);
  if (model.num_query_groups > 0) require("model.num_query_groups", model.num_query_groups);
  require("model.ffn_hidden_size", model.ffn_hidden_size);
}

// Checks the layers given for the first and last pipeline rank, and whether the other ranks can share the rest.
void validate_ends(const ModelSettings& model) {
  const int64_t pp = model.pipeline_model_parallel_size, vp = model.virtual_pipeline_model_parallel_size;
  const int64_t first = model.num_layers_in_first_pipeline_stage, last = model.num_layers_in_last_pipeline_stage;
  const std::string given =
      fmt::format("model.num_layers_in_first_pipeline_stage={} and model.num_layers_in_last_pipeline_stage={}",
                  first == 0 ? "null" : std::to_string(first), last == 0 ? "null" : std::to_string(last));
  if (pp == 1) throw UserError("{} need model.pipeline_model_parallel_size above 1; use null", given);
  const int64_t others = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), rest = model.num_layers - first - last;
  if (rest < others || (others == 0 ? rest != 0 : rest % others != 0))
    throw UserError("{} leave {} of model.num_layers={} for {} other pipeline ranks; use numbers that leave each the same", given,
                    rest, model.num_layers, others);
  for (const int64_t layers : {first, last, others > 0 ? rest / others : 0})
    if (layers % vp != 0)
      throw UserError("{}: model.virtual_pipeline_model_parallel_size={} does not divide the {} layers of a pipeline rank", given,
                      vp, layers);
}

// Layers are divided into PP x VP chunks.
void validate_pipeline(const ModelSettings& model) {
  const int64_t pp = model.pipeline_model_parallel_size, vp = model.virtual_pipeline_model_parallel_size;
  if (vp > 1 && pp == 1)
    throw UserError(
        "model.virtual_pipeline_model_parallel_size={} needs model.pipeline_model_parallel_size above 1; use null or more "
        "pipeline ranks",
        vp);
  if (vp > 1 && model.pipeline_schedule != PipelineSchedule::one_forward_one_backward)
    throw UserError(
        "model.pipeline_schedule={} has one chunk a pipeline rank; use 1f1b, or "
        "model.virtual_pipeline_model_parallel_size=null",
        model.pipeline_schedule == PipelineSchedule::gpipe ? "gpipe" : "zb-h1");
  if (model.num_layers_in_first_pipeline_stage > 0 || model.num_layers_in_last_pipeline_stage > 0) {
    validate_ends(model);
  } else if (model.num_layers % pp != 0) {
    throw UserError("model.pipeline_model_parallel_size={} does not divide model.num_layers={}; use {}", pp, model.num_layers,
                    divisors_near(model.num_layers, pp));
  } else if (const int64_t layers = model.num_layers / pp; layers % vp != 0) {
    throw UserError(
        "model.virtual_pipeline_model_parallel_size={} does not divide the {} layers of a pipeline rank (model.num_layers={} / "
        "model.pipeline_model_parallel_size={}); use {}",
        vp, layers, model.num_layers, pp, divisors_near(layers, vp));
  }
}

void validate_sequence_cut(const ModelSettings& model) {
  const int64_t tp = model.tensor_model_parallel_size, cp = model.context_parallel_size;
  // Each context parallel rank takes one chunk from the front and one from the back, so that all ranks have the same work.
  if (cp > 1 && model.encoder_seq_length % (2 * cp) != 0)
    throw UserError("model.encoder_seq_length={} is not a multiple of 2 * model.context_parallel_size={}; use {} tokens",
                    model.encoder_seq_length, cp, multiples_near(2 * cp, model.encoder_seq_length));
  // Attention dropout is drawn four keys at a time, by the position of the key.
  if (cp > 1 && model.attention_dropout > 0 && model.encoder_seq_length % (8 * cp) != 0)
    throw UserError(
        "model.encoder_seq_length={} is not a multiple of 8 * model.context_parallel_size={}, which attention_dropout needs; use "
        "{} "
        "tokens, or model.attention_dropout=0",
        model.encoder_seq_length, cp, multiples_near(8 * cp, model.encoder_seq_length));
  const int64_t rows = model.encoder_seq_length / cp;
  if (model.sequence_parallel && tp > 1 && rows % tp != 0)
    throw UserError(
        "model.sequence_parallel=true: model.tensor_model_parallel_size={} does not divide the {} tokens of a rank; use {}", tp,
        rows, divisors_near(rows, tp));
}

void validate_data_parallel(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const int64_t dp = settings.data_parallel_size(), unit = model.micro_batch_size * dp;
  if (model.global_batch_size % unit != 0)
    throw UserError(
        "model.global_batch_size={} is not a multiple of model.micro_batch_size={} x {} data parallel ranks; use {} samples",
        model.global_batch_size, model.micro_batch_size, dp, multiples_near(unit, model.global_batch_size));
  if (model.rampup_batch_size.size() == 3 && (model.rampup_batch_size[0] % unit != 0 || model.rampup_batch_size[1] % unit != 0))
    throw UserError(
        "model.rampup_batch_size=[{}]: start and increment must be multiples of model.micro_batch_size={} x {} data parallel "
        "ranks = {}",
        fmt::join(model.rampup_batch_size, ","), model.micro_batch_size, dp, unit);
}

// The interleaved schedule runs micro-batches in groups of PP.
void validate_interleaving(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const int64_t pp = model.pipeline_model_parallel_size, vp = model.virtual_pipeline_model_parallel_size;
  const int64_t micro_batches = model.global_batch_size / model.micro_batch_size / settings.data_parallel_size();
  if (vp > 1 && micro_batches % pp != 0)
    throw UserError(
        "model.global_batch_size={} makes {} micro-batches, and the interleaved pipeline needs a multiple of "
        "model.pipeline_model_parallel_size={}; use {} samples",
        model.global_batch_size, micro_batches, pp,
        multiples_near(pp * model.micro_batch_size * settings.data_parallel_size(), model.global_batch_size));
  const int64_t unit = pp * model.micro_batch_size * settings.data_parallel_size();
  if (vp > 1 && model.rampup_batch_size.size() == 3 &&
      (model.rampup_batch_size[0] % unit != 0 || model.rampup_batch_size[1] % unit != 0))
    throw UserError(
        "model.rampup_batch_size=[{}]: the interleaved pipeline needs a start and an increment that are multiples of "
        "model.pipeline_model_parallel_size={} x model.micro_batch_size={} x {} data parallel ranks = {}",
        fmt::join(model.rampup_batch_size, ","), pp, model.micro_batch_size, settings.data_parallel_size(), unit);
}

void validate_recompute(const ModelSettings& model) {
  if (model.activations_checkpoint_granularity != RecomputeGranularity::full) return;
  // NeMo recipes write block with 0 for no recompute at all.
  const int64_t least = model.activations_checkpoint_method == RecomputeMethod::block ? 0 : 1;
  const int64_t layers = model.activations_checkpoint_num_layers;
  int64_t chunk = 0;  // layers of the longest chunk
  for (int64_t stage = 0; stage < model.pipeline_model_parallel_size; ++stage)
    chunk = std::max(
        chunk, model.layers_of_stage(model.pipeline_model_parallel_size, stage) / model.virtual_pipeline_model_parallel_size);
  if (layers < least || layers > chunk)
    throw UserError("model.activations_checkpoint_num_layers={}: expected {} to {}, the layers of {}", layers, least, chunk,
                    chunk == model.num_layers ? "the model" : "a pipeline chunk");
}

}  // namespace

void validate_layout(const ModelSettings& model) {
  validate_tensor_cut(model);
  validate_pipeline(model);
  validate_sequence_cut(model);
  validate_recompute(model);
}

void validate_rank_count(const Settings& settings) {
  validate_world(settings);
  validate_data_parallel(settings);
  validate_interleaving(settings);
}

}  // namespace trireme
