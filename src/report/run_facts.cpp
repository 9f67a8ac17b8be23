#include "report/run_facts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "report/model_types.h"
#include "telemetry/flops.h"

namespace trireme {
namespace {

using Keys = std::initializer_list<std::string_view>;

// Returns the first positive number among the keys; some logs have it as a float.
std::optional<int64_t> count_at(const RunLog& log, Keys keys) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = log.parameter(key);
    if (value == nullptr || !value->is_number()) continue;
    const double number = value->get<double>();
    if (number >= 1 && number < 0x1p53 && number == std::floor(number)) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::string text_at(const RunLog& log, Keys keys) {
  for (const std::string_view key : keys) {
    const nlohmann::json* const value = log.parameter(key);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    if (value != nullptr && value->is_number_integer()) return value->dump();
  }
  return "";
}

bool is_true_at(const RunLog& log, std::string_view key) {
  const nlohmann::json* const value = log.parameter(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// -------------------------------------------------------------------------------------------------------------- machine

void find_accelerators(const RunLog& log, const FactOptions& said, RunFacts& facts) {
  const auto found = [&](std::optional<int64_t> count, std::string_view from) {
    if (facts.accelerators || !count || *count < 1) return;
    facts.accelerators = count;
    facts.accelerators_from = from;
  };
  found(said.num_accelerators, "--num_accelerators");
  if (log.summary.is_object() && log.summary.contains("devices") && log.summary["devices"].is_number_integer())
    found(log.summary["devices"].get<int64_t>(), "summary.json");
  const std::optional<int64_t> devices = count_at(log, {"trainer.devices", "devices"});
  if (devices && *devices < (1 << 20)) {
    const int64_t nodes = count_at(log, {"trainer.num_nodes", "num_nodes"}).value_or(1);
    if (nodes < (1 << 20)) found(*devices * nodes, "the run's settings");
  }
  // A single text log may also mean that only the first rank kept one.
  if (log.ranks_seen > 1) found(log.ranks_seen, "the number of its text logs");
}

void find_layout(const RunLog& log, RunFacts& facts) {
  const std::optional<int64_t> tp = count_at(log, {"model.tensor_model_parallel_size"});
  const std::optional<int64_t> pp = count_at(log, {"model.pipeline_model_parallel_size"});
  if (!tp || !pp) return;
  facts.layout = fmt::format("TP {}, PP {}", *tp, *pp);
  if (const auto vp = count_at(log, {"model.virtual_pipeline_model_parallel_size"})) facts.layout += fmt::format(", VP {}", *vp);
  const int64_t cp = count_at(log, {"model.context_parallel_size"}).value_or(1);
  facts.layout += fmt::format(", CP {}", cp);
  const double ranks = static_cast<double>(*tp) * static_cast<double>(*pp) * static_cast<double>(cp);
  if (facts.accelerators && std::fmod(static_cast<double>(*facts.accelerators), ranks) == 0)
    facts.layout += fmt::format(", DP {}", static_cast<double>(*facts.accelerators) / ranks);
}

TrainedIn find_precision(const RunLog& log) {
  if (is_true_at(log, "model.fp8")) return TrainedIn::fp8;
  const std::string text = text_at(log, {"model.precision", "trainer.precision", "precision"});
  if (text.starts_with("bf16")) return TrainedIn::bf16;
  if (text.starts_with("16")) return TrainedIn::fp16;
  if (text.starts_with("32")) return TrainedIn::fp32;
  return TrainedIn::unknown;
}

// ---------------------------------------------------------------------------------------------------------------- model

// Returns the padded vocabulary, as in the reference systems. NeMo does not log it; its GPT runs use the GPT-2 vocabulary.
int64_t padded_vocabulary(const RunLog& log) {
  constexpr int64_t kGpt2 = 50257;
  const int64_t vocabulary = count_at(log, {"model.vocab_size", "model.padded_vocab_size"}).value_or(kGpt2);
  const int64_t multiple = count_at(log, {"model.make_vocab_size_divisible_by"}).value_or(128);
  const int64_t tp = count_at(log, {"model.tensor_model_parallel_size"}).value_or(1);
  constexpr int64_t kSensible = 1 << 30;
  if (vocabulary > kSensible || multiple > kSensible || tp > kSensible) return vocabulary;
  return round_up(vocabulary, multiple * tp);
}

std::optional<ModelDimensions> find_dimensions(const RunLog& log, const RunFacts& facts) {
  const auto layers = count_at(log, {"model.num_layers", "model.n_layer"});
  const auto width = count_at(log, {"model.hidden_size", "model.n_embd"});
  const auto heads = count_at(log, {"model.num_attention_heads", "model.n_head"});
  if (!layers || !width || !heads || !facts.sequence_length) return std::nullopt;
  const std::string activation = text_at(log, {"model.activation"});
  return ModelDimensions{.layers = *layers,
                         .width = *width,
                         .ffn_width = count_at(log, {"model.ffn_hidden_size"}).value_or(4 * *width),
                         .heads = *heads,
                         .groups = count_at(log, {"model.num_query_groups"}).value_or(*heads),
                         .head_width = count_at(log, {"model.kv_channels"}).value_or(*width / *heads),
                         .vocabulary = padded_vocabulary(log),
                         .sequence_length = *facts.sequence_length,
                         .gated_mlp = activation.ends_with("glu") ? GatedMlp::yes : GatedMlp::no};
}

void find_flops(const RunLog& log, const FactOptions& said, RunFacts& facts) {
  if (said.model_flops) {
    facts.flops.push_back({"--model_flops", *said.model_flops});
  } else if (said.model_type) {
    const std::optional<double> flops = model_type_flops(*said.model_type);
    if (!flops) throw UserError("--model_type {} is not known; known are {}", *said.model_type, model_type_names());
    facts.flops.push_back({*said.model_type, *flops});
  }
  if (const std::optional<ModelDimensions> dimensions = find_dimensions(log, facts))
    for (const FlopsFormula formula : {FlopsFormula::full, FlopsFormula::causal})
      facts.flops.push_back({name_of(formula), model_flops_per_sample(*dimensions, formula)});
}

// ----------------------------------------------------------------------------------------------------------------- peak

DevicePeak peak_of_type(const std::string& type, PeakPrecision precision) {
  if (const std::optional<DevicePeak> peak = device_peak(type, precision)) return *peak;
  if (device_peak(type, PeakPrecision::bf16))
    throw UserError("--accelerator_type {} has no {} peak; use --precision bf16, or give --max_flops", type, name_of(precision));
  throw UserError("--accelerator_type {} is not known; known are {}; or give its peak as --max_flops", type,
                  fmt::join(devices_with_a_known_peak(), ", "));
}

bool is_a_bf16_peak(double tflops) {
  return std::ranges::any_of(devices_with_a_known_peak(), [&](std::string_view device) {
    const std::optional<DevicePeak> peak = device_peak(device, PeakPrecision::bf16);
    return peak && peak->tflops == tflops;
  });
}

void find_peak(const RunLog& log, const FactOptions& said, RunFacts& facts) {
  const bool trained_in_fp8 = facts.trained_in == TrainedIn::fp8;
  const PeakPrecision precision = said.precision.value_or(trained_in_fp8 ? PeakPrecision::fp8 : PeakPrecision::bf16);
  bool is_bf16 = precision == PeakPrecision::bf16;
  if (said.max_flops) {
    facts.peak = DevicePeak{.name = "--max_flops", .tflops = *said.max_flops};
    is_bf16 = is_a_bf16_peak(*said.max_flops);
  } else if (said.accelerator_type) {
    facts.peak = peak_of_type(*said.accelerator_type, precision);
  } else if (log.summary.is_object()) {
    is_bf16 = false;  // the run set its own peak
    const nlohmann::json tflops = log.summary.value("peak_tflops_per_device", nlohmann::json());
    const nlohmann::json name = log.summary.value("peak_name", nlohmann::json());
    if (tflops.is_number() && tflops.get<double>() > 0)
      facts.peak =
          DevicePeak{.name = name.is_string() ? name.get<std::string>() : "summary.json", .tflops = tflops.get<double>()};
  }
  if (facts.peak && trained_in_fp8 && is_bf16)
    facts.warnings.push_back(
        fmt::format("this run trained in FP8, but its MFU is a share of a bf16 peak ({:g} TFLOP/s); use --precision fp8 with "
                    "--accelerator_type, or the fp8 peak as --max_flops",
                    facts.peak->tflops));
}

void require_positive(std::string_view option, std::optional<double> value) {
  if (value && !(*value > 0 && std::isfinite(*value))) throw UserError("{} {} should be above 0", option, *value);
}

}  // namespace

const char* name_of(TrainedIn precision) {
  switch (precision) {
    case TrainedIn::fp32:
      return "fp32";
    case TrainedIn::bf16:
      return "bf16";
    case TrainedIn::fp16:
      return "fp16";
    case TrainedIn::fp8:
      return "fp8";
    case TrainedIn::unknown:
      break;
  }
  return "unknown";
}

RunFacts facts_of(const RunLog& log, const FactOptions& said) {
  const auto real = [](std::optional<int64_t> value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  require_positive("--batch_size", real(said.batch_size));
  require_positive("--num_accelerators", real(said.num_accelerators));
  require_positive("--model_flops", said.model_flops);
  require_positive("--max_flops", said.max_flops);

  RunFacts facts;
  facts.batch = said.batch_size ? said.batch_size : count_at(log, {"model.global_batch_size", "train.global_batch_size"});
  facts.micro_batch = count_at(log, {"model.micro_batch_size", "train.micro_batch_size"});
  facts.sequence_length = count_at(log, {"model.encoder_seq_length", "model.data.seq_length", "train.max_seq_length"});
  facts.trained_in = find_precision(log);
  find_accelerators(log, said, facts);
  find_layout(log, facts);
  find_flops(log, said, facts);
  find_peak(log, said, facts);
  return facts;
}

std::optional<double> RunFacts::tokens_per_step() const {
  if (!batch || !sequence_length) return std::nullopt;
  return static_cast<double>(*batch) * static_cast<double>(*sequence_length);
}

std::optional<double> RunFacts::tflops(double step_seconds, const FlopsBasis& basis) const {
  if (!batch || !accelerators || !(step_seconds > 0)) return std::nullopt;
  return basis.per_sample * static_cast<double>(*batch) / step_seconds / static_cast<double>(*accelerators) / 1e12;
}

std::optional<double> RunFacts::tflops(double step_seconds) const {
  return flops.empty() ? std::nullopt : tflops(step_seconds, flops.front());
}

std::optional<double> RunFacts::mfu(double step_seconds) const {
  const std::optional<double> rate = tflops(step_seconds);
  return rate && peak ? std::optional(*rate / peak->tflops) : std::nullopt;
}

}  // namespace trireme
