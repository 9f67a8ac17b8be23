#include "plan/published_runs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "config/validate.h"
#include "telemetry/flops.h"
#include "train/run_size.h"

namespace trireme {
namespace {

using CsvRow = std::vector<std::string>;

// Commas within double quotes do not separate; two double quotes are one. Ends at the end of the line.
CsvRow split_csv_line(std::string_view line) {
  CsvRow row(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      row.back() += line[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      row.emplace_back();
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  return row;
}

class RunReader {
 public:
  RunReader(std::string path, const CsvRow& header) : path_(std::move(path)) {
    for (size_t i = 0; i < header.size(); ++i) columns_[header[i]] = i;
  }

  PublishedRun read(const CsvRow& row, int64_t line) {
    row_ = &row, line_ = line;
    PublishedRun run;
    run.line = line;
    run.profile = text("profile"), run.source = text("source"), run.model = text("model");
    run.gpu = text("gpu"), run.network = text("nodes_net");
    run.precision = text("precision"), run.recompute = text("recompute");
    const std::string use = text("use");
    if (use != "scored" && use != "reported") fail("use", use, "use scored or reported");
    run.use = use == "scored" ? RunUse::scored : RunUse::reported;
    struct Count {
      const char* column;
      int64_t* value;
    };
    const Count counts[] = {{"gpus", &run.gpus},    {"layers", &run.layers},   {"hidden", &run.hidden},
                            {"heads", &run.heads},  {"ffn", &run.ffn},         {"vocab", &run.vocabulary},
                            {"seq", &run.sequence}, {"tp", &run.tp},           {"pp", &run.pp},
                            {"cp", &run.cp},        {"mbs", &run.micro_batch}, {"gbs", &run.global_batch}};
    for (const Count& count : counts) {
      const bool may_be_missing = run.use == RunUse::reported;
      *count.value = text(count.column).empty() && may_be_missing ? 0 : number(count.column);
      if (*count.value == 0) run.missing = fmt::format("{} is not given", count.column);
    }
    run.vp = text("vp").empty() ? 1 : number("vp");
    run.sequence_parallel = text("sp") == "1";
    run.step_seconds = positive("step_time_s", "expected seconds above 0");
    if (columns_.contains("mem_gb") && !text("mem_gb").empty())
      run.memory_gib = positive("mem_gb", "expected GiB above 0, or nothing");
    return run;
  }

 private:
  std::string text(const char* column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end()) throw UserError("{} has no column {}; it needs the columns of published runs", path_, column);
    return found->second < row_->size() ? (*row_)[found->second] : "";
  }
  [[noreturn]] void fail(const char* column, const std::string& value, const char* advice) const {
    throw UserError("{}:{}: {}={}: {}", path_, line_, column, value.empty() ? "nothing" : value, advice);
  }
  int64_t number(const char* column) const {
    const std::string value = text(column);
    int64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    constexpr int64_t kMost = int64_t{1} << 32;
    if (error != std::errc() || end != value.data() + value.size() || result < 1 || result > kMost)
      fail(column, value, "expected a whole number of at least 1");
    return result;
  }
  double positive(const char* column, const char* advice) const {
    const std::string value = text(column);
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || !(result > 0) || result > 1e9) fail(column, value, advice);
    return result;
  }

  std::string path_;
  std::map<std::string, size_t> columns_;
  const CsvRow* row_ = nullptr;
  int64_t line_ = 0;
};

// Text in the network or GPU column, and the platform it means. The first that is found applies.
struct PlatformRule {
  std::string_view text, platform;
};
constexpr std::array kPlatformRules{
    PlatformRule{"NDm A100", "azure-nd-a100-v4"},
    PlatformRule{"4xHDR200", "vtrain-a100"},
    PlatformRule{"OmniPath", "jean-zay-a100"},
    PlatformRule{"A3 High", "a3-high"},
    PlatformRule{"A3 Mega", "a3-mega"},
    PlatformRule{"A3 Ultra", "a3-ultra"},
    PlatformRule{"A4 ", "a4"},
    PlatformRule{"p4de", "aws-p4de"},
    PlatformRule{"p5en", "aws-p5en"},
    PlatformRule{"p5", "aws-p5"},
    PlatformRule{"GB300", "gb300-nvl72"},
    PlatformRule{"GB200", "gb200-nvl72"},
    PlatformRule{"B200", "dgx-b200"},
    PlatformRule{"H200", "dgx-h200"},
    PlatformRule{"H100", "dgx-h100"},
    PlatformRule{"A100-40", "aws-p4d"},
    PlatformRule{"A100", "dgx-a100"},
};

bool starts_with(const std::string& text, const char* beginning) { return text.starts_with(beginning); }

void set_architecture(const PublishedRun& run, ModelSettings& model) {
  const bool is_gated = run.ffn != 4 * run.hidden;
  const bool is_rotary = is_gated || starts_with(run.model, "nemotron");
  if (is_gated) model.activation = MlpActivation::swiglu, model.normalization = Normalization::rmsnorm;
  if (is_rotary) {
    model.position_embedding_type = PositionEmbedding::rope;
    model.share_embeddings_and_output_weights = false;
    model.bias = false;
    model.hidden_dropout = model.attention_dropout = 0;
  }
  // Llama 3, and the largest Llama 2.
  if (starts_with(run.model, "llama3") || starts_with(run.model, "llama2-70b")) model.num_query_groups = 8;
}

RecomputeGranularity recompute_of(const PublishedRun& run) {
  if (starts_with(run.recompute, "full")) return RecomputeGranularity::full;
  return starts_with(run.recompute, "selective") ? RecomputeGranularity::selective : RecomputeGranularity::none;
}

const SoftwareProfile& profile_named(const PublishedRun& run, const std::string& path, const std::vector<SoftwareProfile>& all) {
  for (const SoftwareProfile& profile : all)
    if (profile.name == run.profile) return profile;
  std::vector<std::string> names;
  for (const SoftwareProfile& profile : all) names.push_back(profile.name);
  throw UserError("{}:{}: profile={}: not known; use {}", path, run.line, run.profile, fmt::join(names, ", "));
}

PreparedRun prepare_run(const PublishedRun& run, const std::string& path, const SoftwareProfile& software,
                        std::map<std::string, std::shared_ptr<const PlanCase>>& cases) {
  PreparedRun prepared{.run = run, .plan_case = nullptr, .platform = platform_of(run)};
  if (!run.missing.empty()) return prepared;
  try {
    const Settings settings = settings_of(run, software);
    const ModelSettings& model = settings.model;
    prepared.model_flops =
        model_flops_per_sample(flops_dimensions(model), FlopsFormula::full) * static_cast<double>(run.global_batch);
    const std::string key =
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", run.model, run.profile, run.layers, run.hidden,
                    run.heads, run.ffn, run.vocabulary, run.sequence, run.tp, run.pp, run.vp, run.cp, run.micro_batch,
                    run.global_batch, run.gpus, run.recompute, run.precision, run.sequence_parallel);
    auto& shared = cases[key];
    if (shared == nullptr)
      shared =
          std::make_shared<PlanCase>(settings, spread_layers(run.layers, run.pp, model.virtual_pipeline_model_parallel_size));
    prepared.plan_case = shared;
  } catch (const UserError& error) {
    if (run.use == RunUse::scored) throw UserError("{}:{}: {}", path, run.line, error.what());
    prepared.run.missing = error.what();
  }
  return prepared;
}

}  // namespace

std::vector<PublishedRun> read_published_runs(const std::string& path) {
  constexpr int64_t kLargest = int64_t{64} << 20;
  const std::string text = read_file(path, kLargest);
  std::vector<PublishedRun> runs;
  std::optional<RunReader> reader;
  size_t columns = 0;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    number += 1;
    if (line.empty() || line == "\r") continue;
    const CsvRow row = split_csv_line(line);
    if (!reader) {
      reader.emplace(path, row);
      columns = row.size();
      continue;
    }
    if (row.size() != columns)
      throw UserError("{}:{}: {} values, and the header has {} columns", path, number, row.size(), columns);
    runs.push_back(reader->read(row, number));
  }
  if (runs.empty()) throw UserError("{} has no runs", path);
  return runs;
}

std::string platform_of(const PublishedRun& run) {
  for (const PlatformRule& rule : kPlatformRules)
    if (run.network.find(rule.text) != std::string::npos || run.gpu.starts_with(rule.text)) return std::string(rule.platform);
  return run.gpu;
}

Settings settings_of(const PublishedRun& run, const SoftwareProfile& software) {
  Settings settings;
  ModelSettings& model = settings.model;
  const int64_t model_ranks = run.tp * run.pp * run.cp;
  if (run.gpus % model_ranks != 0) throw UserError("gpus={} is not a multiple of tp x pp x cp = {}", run.gpus, model_ranks);
  if (run.global_batch % (run.micro_batch * run.data_parallel()) != 0)
    throw UserError("gbs={} is not a multiple of mbs={} x {} data parallel ranks", run.global_batch, run.micro_batch,
                    run.data_parallel());
  settings.trainer.devices = std::min<int64_t>(run.gpus, 8);
  settings.trainer.num_nodes = run.gpus / settings.trainer.devices;
  if (settings.ranks() != run.gpus) settings.trainer.devices = 1, settings.trainer.num_nodes = run.gpus;
  model.num_layers = run.layers, model.hidden_size = run.hidden, model.ffn_hidden_size = run.ffn;
  model.num_attention_heads = run.heads, model.vocab_size = run.vocabulary;
  model.encoder_seq_length = model.max_position_embeddings = run.sequence;
  model.micro_batch_size = run.micro_batch, model.global_batch_size = run.global_batch;
  model.tensor_model_parallel_size = run.tp, model.pipeline_model_parallel_size = run.pp;
  model.virtual_pipeline_model_parallel_size = run.pp == 1 ? 1 : run.vp;
  model.context_parallel_size = run.cp;
  model.sequence_parallel = run.sequence_parallel && run.tp > 1;
  model.activations_checkpoint_granularity = recompute_of(run);
  model.fp8.enabled = run.precision == "fp8" || run.precision == "nvfp4";
  model.overlap_p2p_comm = software.overlaps_p2p && model.virtual_pipeline_model_parallel_size > 1;
  model.batch_p2p_comm = !model.overlap_p2p_comm;
  model.optim.name = software.distributed_optimizer ? Optimizer::mcore_distributed_optim : Optimizer::adamw;
  model.optim.overlap_grad_sync = software.overlaps_grad_sync;
  model.optim.overlap_param_sync = software.overlaps_param_sync;
  model.optim.grad_sync_dtype = SyncType::bf16;
  set_architecture(run, model);
  // The rules for a pipeline's layers do not hold for programs that divide them unevenly.
  Settings checked = settings;
  checked.model.num_layers = run.pp * model.virtual_pipeline_model_parallel_size;
  if (checked.model.activations_checkpoint_granularity == RecomputeGranularity::full)
    checked.model.activations_checkpoint_num_layers = 1;
  validate(checked);
  return settings;
}

std::vector<PreparedRun> prepare_runs(const std::string& path, const std::vector<SoftwareProfile>& software) {
  std::vector<PreparedRun> prepared;
  std::map<std::string, std::shared_ptr<const PlanCase>> cases;
  for (const PublishedRun& run : read_published_runs(path))
    prepared.push_back(prepare_run(run, path, profile_named(run, path, software), cases));
  return prepared;
}

}  // namespace trireme
