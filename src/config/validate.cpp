#include "config/validate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/divisors.h"
#include "config/tree.h"
#include "config/validate_layout.h"

namespace trireme {

namespace {

void validate_heads(const ModelSettings& model) {
  if (model.kv_channels == 0 && model.hidden_size % model.num_attention_heads != 0)
    throw UserError("model.num_attention_heads={} does not divide model.hidden_size={}; use {}, or set model.kv_channels",
                    model.num_attention_heads, model.hidden_size, divisors_near(model.hidden_size, model.num_attention_heads));
  if (model.num_attention_heads % model.groups() != 0)
    throw UserError("model.num_query_groups={} does not divide model.num_attention_heads={}; use {}", model.num_query_groups,
                    model.num_attention_heads, divisors_near(model.num_attention_heads, model.num_query_groups));
}

// There is one rope scaling; two names for the same scaling may be given together.
void validate_rope_scaling(const ModelSettings& model) {
  std::vector<std::string> asked;
  if (model.scale_positional_embedding) asked.emplace_back("model.scale_positional_embedding=true");
  if (model.seq_len_interpolation_factor != 1)
    asked.push_back(fmt::format("model.seq_len_interpolation_factor={}", model.seq_len_interpolation_factor));
  if (const RopeType type = model.rope_scaling.rope_type; type != RopeType::plain) {
    const bool is_llama3 = type == RopeType::llama3;
    if (!is_llama3 || !model.scale_positional_embedding)
      asked.push_back(fmt::format("model.rope_scaling.rope_type={}", is_llama3 ? "llama3" : "linear"));
  }
  if (asked.size() > 1) throw UserError("{} and {} both scale rope; remove one of the two", asked[0], asked[1]);
  if (!asked.empty() && model.position_embedding_type != PositionEmbedding::rope)
    throw UserError("{} scales rope, and model.position_embedding_type is not rope; remove one of the two", asked[0]);
}

void validate_positions(const ModelSettings& model) {
  const bool learned = model.position_embedding_type == PositionEmbedding::learned_absolute;
  if (learned && model.encoder_seq_length > model.max_position_embeddings)
    throw UserError("model.encoder_seq_length={} is longer than model.max_position_embeddings={}; use at least {} positions",
                    model.encoder_seq_length, model.max_position_embeddings, model.encoder_seq_length);
  const RopeScalingSettings& scaling = model.rope_scaling;
  if (model.rope_type() == RopeType::llama3 && scaling.low_freq_factor >= scaling.high_freq_factor)
    throw UserError("model.rope_scaling.low_freq_factor={} must be below model.rope_scaling.high_freq_factor={}",
                    scaling.low_freq_factor, scaling.high_freq_factor);
  validate_rope_scaling(model);
  const int64_t turned = model.rotary_dims();
  if (model.position_embedding_type == PositionEmbedding::rope && (turned < 2 || turned % 2 != 0))
    throw UserError("model.rotary_percentage={} turns {} of {} dimensions of a head; rope needs an even number, at least 2",
                    model.rotary_percentage, turned, model.head_width());
}

void validate_norms(const ModelSettings& model) {
  if (model.shared_attention_norm && !model.parallel_residual)
    throw UserError(
        "model.shared_attention_norm=true needs attention and MLP on the same input; set model.parallel_residual=true, or use "
        "false");
}

void validate_batches(const ModelSettings& model) {
  if (model.global_batch_size % model.micro_batch_size != 0)
    throw UserError("model.micro_batch_size={} does not divide model.global_batch_size={}; use {}", model.micro_batch_size,
                    model.global_batch_size, divisors_near(model.global_batch_size, model.micro_batch_size));
  const std::vector<int64_t>& rampup = model.rampup_batch_size;
  if (rampup.empty()) return;
  const auto fail = [&](const std::string& what) {
    throw UserError("model.rampup_batch_size=[{}]: {}", fmt::join(rampup, ","), what);
  };
  if (rampup.size() != 3) return fail("expected [start, increment, samples]");
  const int64_t start = rampup[0], increment = rampup[1];
  if (start < 1 || start > model.global_batch_size)
    return fail(fmt::format("start must be from 1 to model.global_batch_size={}", model.global_batch_size));
  if (increment < 1) return fail("increment must be at least 1");
  if (start % model.micro_batch_size != 0 || increment % model.micro_batch_size != 0)
    return fail(fmt::format("start and increment must be multiples of model.micro_batch_size={}", model.micro_batch_size));
  if ((model.global_batch_size - start) % increment != 0)
    return fail(fmt::format("increments of {} do not lead from {} to model.global_batch_size={}", increment, start,
                            model.global_batch_size));
}

void validate_optimizer(const OptimSettings& optim) {
  if (optim.sched.min_lr > optim.lr)
    throw UserError("model.optim.sched.min_lr={} is larger than model.optim.lr={}; use at most that", optim.sched.min_lr,
                    optim.lr);
}

void validate_fp8(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const Fp8Settings& fp8 = model.fp8;
  if (!fp8.enabled) return;
  if (fp8.hybrid == fp8.e4m3)
    throw UserError("model.fp8=true with model.fp8_hybrid={} and model.fp8_e4m3={}: one of the two must be true; use fp8_hybrid",
                    fp8.hybrid, fp8.e4m3);
  if (settings.trainer.precision != Precision::bf16)
    throw UserError("model.fp8=true with trainer.precision={}: what is not FP8 must be bf16; use trainer.precision=bf16",
                    name_of(settings.trainer.precision));
  // The dimensions of every FP8 GEMM on one rank.
  const int64_t tp = model.tensor_model_parallel_size;
  const auto require = [](const std::string& what, int64_t value) {
    if (value % Fp8Settings::kMultiple != 0)
      throw UserError("model.fp8=true needs multiples of {}: {} is {}; use another, or model.fp8=false", Fp8Settings::kMultiple,
                      what, value);
  };
  require("model.hidden_size", model.hidden_size);
  require(tp > 1 ? "model.ffn_hidden_size / tensor_model_parallel_size" : "model.ffn_hidden_size", model.ffn_hidden_size / tp);
  require("the width of all heads of a rank", model.num_attention_heads / tp * model.head_width());
  require("the width of all keys of a rank", model.groups() / tp * model.head_width());
  if (fp8.lm_head) require("the vocabulary of a rank, padded", model.padded_vocabulary() / tp);
  const int64_t cp = model.context_parallel_size;
  require(cp > 1 ? "model.micro_batch_size times model.encoder_seq_length / context_parallel_size"
                 : "model.micro_batch_size times model.encoder_seq_length",
          model.micro_batch_size * model.encoder_seq_length / cp);
}

void validate_profile(const ProfileSettings& profile) {
  if (profile.enabled && profile.end_step < profile.start_step)
    throw UserError("model.nsys_profile.end_step={} lies before model.nsys_profile.start_step={}; use at least that",
                    profile.end_step, profile.start_step);
}

// "99990,8,2": one to three shares; the first, for training, is not 0.
void validate_splits(const std::string& splits) {
  const auto fail = [&] {
    throw UserError("model.data.splits_string={}: expected shares of training, validation and test data such as 99990,8,2",
                    splits);
  };
  std::vector<double> shares;
  for (size_t begin = 0; begin <= splits.size();) {
    const size_t end = std::min(splits.find_first_of(",/", begin), splits.size());
    const Tree share = scalar_from_text(trimmed(std::string_view(splits).substr(begin, end - begin)));
    if (share.kind() == Tree::Kind::integer)
      shares.push_back(static_cast<double>(share.integer()));
    else if (share.kind() == Tree::Kind::real)
      shares.push_back(share.real());
    else
      fail();
    if (!std::isfinite(shares.back()) || shares.back() < 0) fail();
    begin = end + 1;
  }
  if (shares.size() > 3 || shares[0] <= 0) fail();
}

void validate_data(const ModelSettings& model) {
  const DataSettings& data = model.data;
  const bool is_text = data.data_impl == DataImpl::text;
  // The tokens of a tokenizer's files are counted when they are opened.
  const TokenizerSettings& tokenizer = model.tokenizer;
  const bool is_named = !tokenizer.vocab_file.empty() || !tokenizer.model.empty() ||
                        (tokenizer.library == TokenizerLibrary::huggingface && !tokenizer.type.empty());
  const bool is_sft = data.data_impl == DataImpl::sft;
  const bool has_tokenizer = is_text || is_sft || (is_named && !data.is_made_up());
  if (model.vocab_size == 0 && !has_tokenizer)
    throw UserError("model.vocab_size must be given: data_impl {} has no tokenizer; use for example 50257",
                    name_of(data.data_impl));
  const bool is_mmap = data.data_impl == DataImpl::mmap,
             is_flat = data.data_impl == DataImpl::flat || data.data_impl == DataImpl::llmc;
  if (data.data_prefix.empty() && (is_text || is_sft || is_mmap || is_flat))
    throw UserError("model.data.data_prefix must be given: data_impl {} needs {}", name_of(data.data_impl),
                    is_text   ? "files, for example [a.txt]"
                    : is_sft  ? "files, for example [chats.jsonl]"
                    : is_mmap ? "datasets, for example [1.0, data/my-gpt3_00_text_document]"
                              : "a folder or files, for example [data/openwebtext]");
  for (const std::string& prefix : data.data_prefix)
    if ((is_text || is_sft || is_flat) && !scalar_from_text(prefix).is_string())
      throw UserError("model.data.data_prefix: weights such as {} are not supported with data_impl {}; list only files", prefix,
                      name_of(data.data_impl));
  if (is_sft && (!data.reset_attention_mask || !data.reset_position_ids))
    throw UserError(
        "model.data.data_impl=sft packs examples that must not see each other; set model.data.reset_attention_mask=true "
        "and model.data.reset_position_ids=true");
  validate_splits(data.splits_string);
}

void validate_peft(const ModelSettings& model) {
  if (model.peft.scheme != PeftScheme::lora) return;
  if (model.restore_from_path.empty())
    throw UserError("model.peft.peft_scheme=lora trains adapters of a model; name it with --from or model.restore_from_path");
}

// Counts of elements and bytes are int64_t everywhere. These values, computed in double, leave a wide margin below its limit.
void validate_magnitude(const ModelSettings& model) {
  constexpr double kMaxElements = 1e15;
  const auto as_double = [](int64_t n) { return static_cast<double>(n); };
  const double C = as_double(model.hidden_size), F = as_double(model.ffn_hidden_size), L = as_double(model.num_layers);
  const double V = as_double(model.padded_vocabulary()), T = as_double(model.encoder_seq_length);
  const double H = as_double(model.num_attention_heads), G = as_double(model.groups()), D = as_double(model.head_width());
  const double parameters =
      L * (2 * C * H * D + 2 * C * G * D + 3 * C * F) + 2 * V * C + as_double(model.max_position_embeddings) * C;
  if (parameters > kMaxElements)
    throw UserError("model.hidden_size={} with model.num_layers={} makes {:.1e} parameters; the limit is {:.0e}",
                    model.hidden_size, model.num_layers, parameters, kMaxElements);
  const double widest = std::max({V, 2 * F, (H + 2 * G) * D, H * T});
  if (const double elements = as_double(model.micro_batch_size) * T * widest; elements > kMaxElements)
    throw UserError(
        "model.micro_batch_size={} with model.encoder_seq_length={} makes tensors of {:.1e} elements; the limit is {:.0e}",
        model.micro_batch_size, model.encoder_seq_length, elements, kMaxElements);
}

}  // namespace

void validate_recipe(const Settings& settings) {
  validate_heads(settings.model);
  validate_positions(settings.model);
  validate_norms(settings.model);
  validate_peft(settings.model);
  validate_batches(settings.model);
  validate_layout(settings.model);
  validate_fp8(settings);
  validate_profile(settings.model.profile);
  validate_optimizer(settings.model.optim);
  validate_data(settings.model);
  validate_magnitude(settings.model);
}

void validate_ranks(const Settings& settings) {
  validate_rank_count(settings);
  const ProfileSettings& profile = settings.model.profile;
  if (!profile.enabled) return;
  for (const int64_t rank : profile.ranks)
    if (rank >= settings.ranks())
      throw UserError("model.nsys_profile.ranks: there is no rank {}; use ranks from 0 to {}", rank, settings.ranks() - 1);
}

void validate(const Settings& settings) {
  validate_recipe(settings);
  validate_ranks(settings);
}

}  // namespace trireme
