// trireme generate: generate text from a checkpoint.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "cli/command.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/recipe_tokenizer.h"
#include "train/loaded_model.h"
#include "train/run_folder.h"

namespace trireme {
namespace {

struct GenerateArguments {
  std::string run = "runs";
  std::string prompt = "The ";
  std::string tokenizer;  // empty: that of the recipe
  std::vector<int32_t> prompt_tokens;
  int64_t tokens = 200;
  SamplingSettings sampling;
  int64_t threads = 0;
  bool json = false;
};

// The input of the model and how its tokens are shown: as text, or with --prompt-tokens as numbers.
struct Prompt {
  std::vector<int32_t> tokens;
  std::optional<int32_t> end;  // the end-of-text token
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
  if (named.kind == RecipeTokenizer::Kind::bytes && !model.data.is_text())
    throw UserError(
        "{} was trained on model.data.data_impl={} and names no tokenizer; give one with --tokenizer, or the numbers of tokens: "
        "--prompt-tokens 1,2",
        arguments.run, name_of(model.data.data_impl));
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
        return tokenizer->decode_within(token);
      }};
  if (tokenizer->end_of_document() >= 0) prompt.end = tokenizer->end_of_document();
  if (prompt.tokens.empty() && !prompt.end) throw UserError("--prompt is empty, and the tokenizer has no token to begin with");
  if (prompt.tokens.empty()) prompt.tokens.push_back(*prompt.end);
  if (tokenizer->vocabulary() > model.vocab_size)
    throw UserError("the tokenizer has {} tokens and this model {}: they do not belong together; name another with --tokenizer",
                    tokenizer->vocabulary(), model.vocab_size);
  return prompt;
}

// Returns how many tokens the model may process, including the prompt.
int64_t room_for(const GenerateArguments& arguments, const ModelSettings& model, int64_t prompt_length) {
  const int64_t context = model.position_embedding_type == PositionEmbedding::learned_absolute ? model.max_position_embeddings
                                                                                               : model.encoder_seq_length;
  if (prompt_length >= context)
    throw UserError("the prompt has {} tokens; this model sees at most {}, so use fewer than that", prompt_length, context);
  if (prompt_length + arguments.tokens > context)
    fmt::print(stderr, "the model sees {} tokens, so {} are generated\n", context, context - prompt_length);
  return std::min(context, prompt_length + arguments.tokens);
}

struct Continuation {
  std::vector<int32_t> tokens;  // without the prompt
  std::string text;             // as shown
  bool ended = false;           // stopped at the end-of-text token, which is left out
};

// Samples until there are `capacity` tokens including the prompt, and passes the text of each to `drawn`.
template <class Drawn>
Continuation continue_prompt(Generator& generator, const Prompt& prompt, const SamplingSettings& sampling, int64_t capacity,
                             const Drawn& drawn) {
  Continuation result;
  std::span<const int32_t> next = prompt.tokens;
  while (std::ssize(prompt.tokens) + std::ssize(result.tokens) < capacity) {
    const auto logits = generator.feed(next);
    const int32_t token = sample_token(logits, sampling, generator.length());
    result.ended = token == prompt.end;
    if (result.ended) break;
    const std::string text = prompt.show(token);
    drawn(text);
    result.text += text;
    result.tokens.push_back(token);
    next = std::span(result.tokens).last(1);
  }
  return result;
}

int generate(const GenerateArguments& arguments) {
  const NewestCheckpoint found = open_named_checkpoint(arguments.run);
  for (const std::string& line : found.skipped) fmt::print(stderr, "warning: {}\n", line);
  Settings settings = settings_of(*found.checkpoint);
  settings.trainer.threads = arguments.threads;
  const ModelSettings& model = settings.model;
  const Prompt prompt =
      arguments.prompt_tokens.empty() ? text_prompt(arguments, model) : numbers_prompt(arguments.prompt_tokens, model.vocab_size);
  const int64_t capacity = room_for(arguments, model, std::ssize(prompt.tokens));
  LoadedModel loaded(*found.checkpoint, settings, capacity);
  const auto show = [&](const std::string& text) {
    if (arguments.json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  show(prompt.shown);
  const Continuation result = continue_prompt(loaded.generator(), prompt, arguments.sampling, capacity, show);
  show("\n");
  if (arguments.json)
    print_json(nlohmann::ordered_json{{"checkpoint", found.checkpoint->folder.string()},
                                      {"step", found.checkpoint->manifest.info.step},
                                      {"prompt", prompt.shown},
                                      {"prompt_tokens", prompt.tokens},
                                      {"text", result.text},
                                      {"tokens", result.tokens},
                                      {"ended", result.ended}});
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
  command->add_flag("--json", arguments->json, "print text and tokens as JSON, when all are there");
  command->callback([arguments, &status] { status = generate(*arguments); });
}

}  // namespace trireme
