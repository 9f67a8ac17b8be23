// trireme data prepare: text files to a dataset of tokens.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cli/choice_option.h"
#include "cli/data_commands.h"
#include "data/prepare/prepare.h"
#include "data/prepare/report.h"
#include "data/tokenizer/load_tokenizer.h"
#include "train/stop_signal.h"

namespace trireme {
namespace {

using prepare::DryRun;
using prepare::EndOfDocument;
using prepare::OutputFormat;
using prepare::PrepareHooks;
using prepare::PrepareOutcome;
using prepare::PrepareResult;
using prepare::PrepareSettings;
using prepare::SplitBy;

struct PrepareArguments {
  PrepareSettings settings;
  std::string memory, pattern;
  int64_t rank = -1, ranks = -1;
  bool append_eod = false, special_tokens = false, dry_run = false, json = false;
};

// Parses "1GiB", "512M" or "800000000"; units are powers of 1024.
int64_t parse_bytes(const std::string& option, const std::string& text) {
  constexpr std::string_view kPowers = "KMGT";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (const size_t power = unit.empty() ? std::string_view::npos : kPowers.find(unit[0]); power != std::string_view::npos) {
    number *= static_cast<double>(int64_t{1} << (10 * (power + 1)));
    unit.remove_prefix(1);
  }
  const bool known = unit.empty() || unit == "B" || unit == "iB";
  constexpr double kMost = 1e15;
  if (error != std::errc() || !known || !(number >= 1 && number < kMost))
    throw UserError("{} {}: no size; write it as 512MiB or 4GiB", option, text);
  return static_cast<int64_t>(number);
}

int prepare_files(PrepareArguments arguments) {
  PrepareSettings& settings = arguments.settings;
  if (!arguments.memory.empty()) settings.memory = parse_bytes("--memory", arguments.memory);
  if (arguments.append_eod) settings.end_of_document = EndOfDocument::append;
  if (arguments.dry_run) settings.dry_run = DryRun::yes;
  settings.rank = prepare::find_rank(arguments.rank, arguments.ranks, prepare::process_environment());
  const StopSignal signal;
  const PrepareHooks hooks{.stop = [&] { return signal.received() != nullptr; },
                           .tell = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }};
  TokenizerOptions options;
  if (arguments.special_tokens) options.specials = SpecialTokens::recognised;
  if (!arguments.pattern.empty()) options.pattern = pattern_named(arguments.pattern);
  const auto tokenizer = load_tokenizer(settings.tokenizer, options);
  const PrepareResult result = prepare::prepare_data(settings, *tokenizer, hooks);
  if (arguments.json) print_json(result.report);
  if (result.outcome == PrepareOutcome::stopped) {
    fmt::print(stderr, "stopped; the same command continues from here\n");
    return kStoppedAfterSaving;
  }
  if (!arguments.json && result.outcome == PrepareOutcome::complete) fmt::print("{}", prepare::summary_of(result.report));
  return kDone;
}

void add_format_options(CLI::App& command, PrepareArguments& arguments) {
  PrepareSettings& settings = arguments.settings;
  add_choice<OutputFormat>(
      command, "--format", {{"megatron", OutputFormat::megatron}, {"flat", OutputFormat::flat}, {"llmc", OutputFormat::llmc}},
      [&settings](OutputFormat format) { settings.format = format; },
      "megatron: OUTPUT_text_document.bin and .idx; flat: OUTPUT/train.bin and val.bin; llmc: OUTPUT_train_000001.bin ...")
      ->option_text("FORMAT [megatron]");
  command.add_flag("--append-eod", arguments.append_eod, "end every document with the tokenizer's end of document");
  add_choice<EndOfDocument>(
      command, "--eod", {{"append", EndOfDocument::append}, {"prepend", EndOfDocument::prepend}, {"none", EndOfDocument::none}},
      [&settings](EndOfDocument where) { settings.end_of_document = where; },
      "append, prepend or none; not given: none for megatron, append for flat, prepend for llmc, as their own tools do")
      ->option_text("WHERE");
  command.add_flag("--special-tokens", arguments.special_tokens,
                   "<|endoftext|> and its like in the text become the special token, not letters");
  command.add_option("--validation", settings.validation, "flat: the share of the documents that goes to val.bin")
      ->capture_default_str();
  command.add_option("--seed", settings.seed, "flat: of the shuffle that chooses them (nanoGPT 2357, LitGPT 42)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  add_choice<SplitBy>(
      command, "--split-by", {{"documents", SplitBy::documents}, {"characters", SplitBy::characters}},
      [&settings](SplitBy what) { settings.split_by = what; },
      "flat: documents, shuffled; or characters, the end of one .txt file")
      ->option_text("WHAT [documents]");
  command.add_option("--shard-tokens", settings.shard_tokens, "llmc: tokens of a shard")->capture_default_str();
}

void add_run_options(CLI::App& command, PrepareArguments& arguments) {
  PrepareSettings& settings = arguments.settings;
  command.add_option("--workers", settings.workers, "threads that tokenize; 0: one for every core this process may use")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command
      .add_option("--memory", arguments.memory, "never take more than this; not given: 1GiB, or 64MiB a worker if that is more")
      ->option_text("SIZE");
  command.add_option("--rank", arguments.rank, "of several processes that make one output together, which this is, from 0")
      ->check(CLI::NonNegativeNumber)
      ->option_text("R");
  command
      .add_option("--ranks", arguments.ranks, "how many there are; both come from a job array's environment where there is one")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  add_choice<prepare::OnError>(
      command, "--on-error", {{"stop", prepare::OnError::stop}, {"skip", prepare::OnError::skip}},
      [&settings](prepare::OnError what) { settings.on_error = what; },
      "what cannot be read: stop with a line that says where, or skip and count it")
      ->option_text("WHAT [stop]");
  command.add_flag("--dry-run", arguments.dry_run, "look at the inputs, say what would be read, written and needed, and stop");
  command.add_flag("--json", arguments.json, "the report as JSON on stdout");
}

}  // namespace

void add_data_prepare_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<PrepareArguments>();
  CLI::App* command = data.add_subcommand(
      "prepare",
      "Turn text files into a dataset of tokens.\n\n"
      "examples:  trireme data prepare CMakeLists.txt --tokenizer bytes --output example --append-eod\n"
      "           trireme data prepare pile/ --files 0-29 --tokenizer gpt2/vocab.json --append-eod --output pile\n"
      "           trireme data prepare owt.tar.xz --tokenizer tokenizer.json --format flat --seed 42 --output data/owt\n\n"
      "A run that was stopped or killed continues when the same command is given again.\n");
  command
      ->add_option("inputs", arguments->settings.inputs,
                   "files (.jsonl .json .txt .tar, also with .zst .gz .xz), folders, or patterns in quotes")
      ->required()
      ->option_text("INPUT ...");
  command->add_option("--output", arguments->settings.output, "what the names of the output begin with; flat: its folder")
      ->required()
      ->option_text("PREFIX");
  command
      ->add_option("--tokenizer", arguments->settings.tokenizer,
                   "tokenizer.json, tokenizer.model, vocab.json beside merges.txt, a .tiktoken file, a folder with one, or bytes")
      ->required()
      ->option_text("FILE");
  command->add_option("--pattern", arguments->pattern, "how the tokenizer cuts words, where its files do not tell")
      ->check(one_of(pattern_names()))
      ->option_text("NAME");
  command->add_option("--files", arguments->settings.files, "only inputs with these numbers in their names: 0-29 or 0,3,5-7")
      ->option_text("NUMBERS");
  command->add_option("--key", arguments->settings.key, "of the text in the lines of JSON")->capture_default_str();
  add_format_options(*command, *arguments);
  add_run_options(*command, *arguments);
  command->callback([arguments, &status] { status = prepare_files(*arguments); });
}

}  // namespace trireme
