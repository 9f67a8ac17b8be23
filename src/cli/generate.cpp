// trireme generate: text from a checkpoint.
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "backend/cost/cost_backend.h"
#include "cli/command.h"
#include "config/settings_reader.h"
#include "config/yaml.h"
#include "data/byte_tokenizer.h"
#include "model/generator.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace trireme {
namespace {

struct GenerateArguments {
  std::string run = "runs";
  std::string prompt = "The ";
  int64_t tokens = 200;
  SamplingSettings sampling;
  int64_t threads = 0;
};

// A model for generation in memory of its own: parameters from a checkpoint, a cache for `capacity` tokens.
class LoadedModel {
 public:
  LoadedModel(const StoredCheckpoint& checkpoint, const Settings& settings, int64_t capacity)
      : settings_(settings), backend_(make_backend(settings.trainer)), layout_(FlatLayout::of(settings_.model)) {
    const DType dtype = activation_dtype(settings.trainer.precision);
    measure(dtype, capacity);
    const Tensor masters = allocate(parameters_, "parameters", layout_.count * 4).take({layout_.count}, DType::f32);
    backend_->run(kCompute, Fill{.value = 0, .out = masters});
    load_checkpoint(checkpoint, wanted(FlatViews(layout_, settings_.model, masters)));
    Tensor flat = masters;
    if (dtype != DType::f32) {
      flat = allocate(narrow_parameters_, "parameters", layout_.count * size_of(dtype)).take({layout_.count}, dtype);
      backend_->run(kCompute, Copy{.from = masters, .to = flat});
    }
    weights_.emplace(layout_, settings_.model, *backend_, flat);
    backend_->set_scratch(kCompute, allocate(scratch_, "scratch", scratch_bytes_).take({scratch_bytes_}, DType::u8));
    generator_.emplace(settings_.model, dtype, *backend_, mesh_, *weights_, capacity,
                       allocate(arena_, "generation", arena_bytes_));
  }

  Generator& generator() { return *generator_; }

 private:
  std::vector<CheckpointTensor> wanted(const FlatViews& views) const {
    std::vector<CheckpointTensor> tensors;
    for (size_t row = 0; row < layout_.table.size(); ++row) {
      const ParameterRow& parameter = layout_.table[row];
      tensors.push_back({parameter.name, TensorSlice::whole(parameter.shape), views.parameter(row).rows(0, parameter.shape[0])});
    }
    return tensors;
  }

  // The longest and the shortest pass, recorded: what they need is allocated once.
  void measure(DType dtype, int64_t capacity) {
    CostBackend cost(*backend_);
    Arena measuring("generation");
    const Weights shapes(layout_, settings_.model, cost, Tensor{.dtype = dtype, .shape = {layout_.count}});
    Generator generator(settings_.model, dtype, cost, mesh_, shapes, capacity, measuring);
    generator.feed(std::vector<int32_t>(static_cast<size_t>(capacity - 1)));
    generator.feed(std::vector<int32_t>(1));
    arena_bytes_ = measuring.peak();
    scratch_bytes_ = cost.scratch_peak();
  }

  Arena& allocate(std::optional<Arena>& arena, const char* name, int64_t bytes) {
    return arena.emplace(name, bytes, [&](int64_t size) { return backend_->allocate(size); });
  }

  Settings settings_;
  std::unique_ptr<Backend> backend_;
  Mesh mesh_ = Mesh::solo();
  FlatLayout layout_;
  int64_t arena_bytes_ = 0, scratch_bytes_ = 0;
  std::optional<Arena> parameters_, narrow_parameters_, scratch_, arena_;
  std::optional<Weights> weights_;
  std::optional<Generator> generator_;
};

StoredCheckpoint open_named(const std::string& run) {
  const std::filesystem::path named(run);
  if (step_of(named.filename().string())) return open_checkpoint(named);
  NewestCheckpoint newest = find_latest(find_checkpoints(named));
  for (const std::string& line : newest.skipped) fmt::print(stderr, "warning: {}\n", line);
  if (!newest.checkpoint) throw UserError("no checkpoint in {}", run);
  return *std::move(newest.checkpoint);
}

int generate(const GenerateArguments& arguments) {
  const StoredCheckpoint checkpoint = open_named(arguments.run);
  Settings settings = read_settings(read_yaml(checkpoint.manifest.info.settings, checkpoint.folder.string())).settings;
  settings.trainer.threads = arguments.threads;
  if (settings.model.data.data_impl != "text")
    throw UserError("{} was trained on model.data.data_impl={}, which has no text; generate needs a run on text", arguments.run,
                    settings.model.data.data_impl);
  const ByteTokenizer tokenizer;
  std::vector<int32_t> tokens = tokenizer.encode(arguments.prompt);
  if (tokens.empty()) tokens.push_back(tokenizer.end_of_document());
  const int64_t context = settings.model.position_embedding_type == PositionEmbedding::learned_absolute
                              ? settings.model.max_position_embeddings
                              : settings.model.encoder_seq_length;
  const auto prompt_length = static_cast<int64_t>(tokens.size());
  if (prompt_length >= context)
    throw UserError("--prompt has {} tokens; this model sees at most {}, so use fewer than that", prompt_length, context);
  const int64_t capacity = std::min(context, prompt_length + arguments.tokens);
  if (capacity < prompt_length + arguments.tokens)
    fmt::print(stderr, "the model sees {} tokens, so {} are generated\n", context, capacity - prompt_length);

  LoadedModel model(checkpoint, settings, capacity);
  fmt::print("{}", arguments.prompt);
  for (std::span<const int32_t> next = tokens; model.generator().length() + static_cast<int64_t>(next.size()) < capacity + 1;) {
    const auto logits = model.generator().feed(next);
    const int32_t token = sample_token(logits, arguments.sampling, model.generator().length());
    if (token == tokenizer.end_of_document()) break;
    tokens.push_back(token);
    next = std::span(tokens).last(1);
    fmt::print("{}", tokenizer.decode(next));
    std::fflush(stdout);
    if (static_cast<int64_t>(tokens.size()) >= capacity) break;
  }
  fmt::print("\n");
  return kDone;
}

}  // namespace

void add_generate_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate",
                                         "Sample text from a checkpoint.\n\n"
                                         "examples:  trireme generate runs/demo --prompt \"The \" --tokens 100\n"
                                         "           trireme generate runs/demo --temperature 0 --seed 7\n");
  command->add_option("run", arguments->run, "the folder of a run, of a checkpoint, or of several runs (the newest)")
      ->capture_default_str();
  command->add_option("--prompt", arguments->prompt, "what the text begins with")->capture_default_str();
  command->add_option("--tokens", arguments->tokens, "how many tokens to add")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "0: always the likeliest; 1: as the model says; more: wilder")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", arguments->sampling.top_k, "draw from the k likeliest only; 0: from all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--top-p", arguments->sampling.top_p, "draw from the likeliest that hold this share of the probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", arguments->sampling.seed, "the same seed gives the same text")->capture_default_str();
  command->add_option("--threads", arguments->threads, "CPU threads; 0: all this process may use")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command->callback([arguments, &status] { status = generate(*arguments); });
}

}  // namespace trireme
