// trireme generate: text from a checkpoint.
#include <fmt/ranges.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "data/recipe_tokenizer.h"
#include "data/tokenizer/load_tokenizer.h"
#include "train/loaded_model.h"
#include "train/run_folder.h"

namespace trireme {
namespace {

struct GenerateArguments {
  std::string run = "runs";
  std::string prompt = "The ";
  std::string tokenizer;  // empty: the recipe's
  std::vector<int32_t> prompt_tokens;
  int64_t tokens = 200;
  SamplingSettings sampling;
  int64_t threads = 0;
};

// What goes into the model and how its tokens are shown: text, or with --prompt-tokens the numbers themselves.
struct Prompt {
  std::vector<int32_t> tokens;
  std::optional<int32_t> end;  // the token that ends the text
  std::string shown;
  std::function<std::string(int32_t)> show;
};

Prompt numbers_prompt(const std::vector<int32_t>& tokens, int64_t vocabulary) {
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw UserError("--prompt-tokens {}: this model knows the tokens 0 to {}", token, vocabulary - 1);
  return {.tokens = tokens, .end = {}, .shown = fmt::format("{}", fmt::join(tokens, " ")), .show = [](int32_t token) {
            return fmt::format(" {}", token);
          }};
}

std::shared_ptr<const Tokenizer> open_tokenizer(const GenerateArguments& arguments, const ModelSettings& model) {
  if (!arguments.tokenizer.empty()) return load_tokenizer(arguments.tokenizer);
  const RecipeTokenizer named = named_tokenizer(model.tokenizer);
  if (named.kind == RecipeTokenizer::Kind::bytes && model.data.data_impl != "text")
    throw UserError(
        "{} was trained on model.data.data_impl={} and names no tokenizer; give one with --tokenizer, or the numbers of tokens: "
        "--prompt-tokens 1,2",
        arguments.run, model.data.data_impl);
  try {
    return named.open();
  } catch (const UserError& error) {
    throw UserError("{}; or give another with --tokenizer, or the numbers of tokens: --prompt-tokens 1,2", error.what());
  }
}

Prompt text_prompt(const GenerateArguments& arguments, const ModelSettings& model) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(arguments, model);
  Prompt prompt{
      .tokens = tokenizer->encode(arguments.prompt), .end = {}, .shown = arguments.prompt, .show = [tokenizer](int32_t token) {
        return tokenizer->decode(std::span(&token, 1));
      }};
  if (tokenizer->end_of_document() >= 0) prompt.end = tokenizer->end_of_document();
  if (prompt.tokens.empty() && !prompt.end) throw UserError("--prompt is empty, and the tokenizer has no token to begin with");
  if (prompt.tokens.empty()) prompt.tokens.push_back(*prompt.end);
  for (const int32_t token : prompt.tokens)
    if (token >= model.vocab_size)
      throw UserError("the tokenizer has {} tokens and this model {}: they do not belong together; the prompt has token {}",
                      tokenizer->vocabulary(), model.vocab_size, token);
  return prompt;
}

int generate(const GenerateArguments& arguments) {
  const NewestCheckpoint found = open_named_checkpoint(arguments.run);
  for (const std::string& line : found.skipped) fmt::print(stderr, "warning: {}\n", line);
  Settings settings = settings_of(*found.checkpoint);
  settings.trainer.threads = arguments.threads;
  const ModelSettings& m = settings.model;
  const Prompt prompt =
      arguments.prompt_tokens.empty() ? text_prompt(arguments, m) : numbers_prompt(arguments.prompt_tokens, m.vocab_size);
  std::vector<int32_t> tokens = prompt.tokens;
  const int64_t context =
      m.position_embedding_type == PositionEmbedding::learned_absolute ? m.max_position_embeddings : m.encoder_seq_length;
  const auto prompt_length = static_cast<int64_t>(tokens.size());
  if (prompt_length >= context)
    throw UserError("the prompt has {} tokens; this model sees at most {}, so use fewer than that", prompt_length, context);
  const int64_t capacity = std::min(context, prompt_length + arguments.tokens);
  if (capacity < prompt_length + arguments.tokens)
    fmt::print(stderr, "the model sees {} tokens, so {} are generated\n", context, capacity - prompt_length);

  LoadedModel model(*found.checkpoint, settings, capacity);
  fmt::print("{}", prompt.shown);
  for (std::span<const int32_t> next = tokens; model.generator().length() + static_cast<int64_t>(next.size()) < capacity + 1;) {
    const auto logits = model.generator().feed(next);
    const int32_t token = sample_token(logits, arguments.sampling, model.generator().length());
    if (token == prompt.end) break;
    tokens.push_back(token);
    next = std::span(tokens).last(1);
    fmt::print("{}", prompt.show(token));
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
  command->add_option("--tokenizer", arguments->tokenizer,
                      "as for data encode: the tokenizer of the prompt, where the recipe of the run names none");
  command
      ->add_option("--prompt-tokens", arguments->prompt_tokens,
                   "the prompt as numbers of tokens, 1,2,3; then numbers come out. For models without a known tokenizer")
      ->delimiter(',')
      ->allow_extra_args(false);
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
