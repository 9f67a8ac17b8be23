// trireme data train-tokenizer: learn a byte-pair vocabulary from text.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/choice_option.h"
#include "cli/data_commands.h"
#include "data/prepare/json_documents.h"
#include "data/tokenizer/bpe_trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct TrainTokenizerArguments {
  std::vector<std::string> files;
  std::string output, key = "text", pattern = "gpt2";
  TrainingSettings training{.vocabulary = 32768};
  int threads = 0;
  bool overwrite = false, json = false;
};

constexpr size_t kPiece = 4 << 20,
                 kBatch = 64 << 20;  // bytes that a thread counts at a time, and bytes read per batch
constexpr int64_t kDecompressorBytes = int64_t{1} << 30;

// Reads files and passes their text to a counter in batches.
class CorpusReader {
 public:
  CorpusReader(WordCounter& counter, std::string key) : counter_(counter), key_(std::move(key)) {}

  void read(const std::string& path) {
    const prepare::Wrapping wrapping = prepare::wrapping_of(path).value_or(prepare::Wrapping());
    if (wrapping.content == prepare::Content::tar || wrapping.content == prepare::Content::unknown)
      throw UserError("{}: may be an archive; unpack it, or give it to trireme data prepare", path);
    try {
      const auto file = prepare::open_stream_source(path);
      if (wrapping.compression == prepare::Compression::none) return read(path, wrapping.content, *file);
      read(path, wrapping.content, *prepare::open_decompressor(wrapping.compression, *file, kDecompressorBytes));
    } catch (const prepare::InputError& error) {
      throw UserError("{}: {}", path, error.what());
    }
  }

  void finish() {
    counter_.add(batch_);
    batch_.clear();
    batch_bytes_ = 0;
  }

 private:
  void read(const std::string& path, prepare::Content content, prepare::ByteSource& source) {
    if (content == prepare::Content::json_lines)
      read_lines(path, source);
    else
      read_text(source);
  }

  void read_lines(const std::string& path, prepare::ByteSource& source) {
    prepare::JsonDocuments documents(source, key_);
    while (const auto document = documents.next()) {
      if (!document->problem.empty()) throw UserError("{}:{}: {}", path, document->line, document->problem);
      add(std::string(document->text));
    }
  }

  // Reads pieces that end at a line break, if there is one.
  void read_text(prepare::ByteSource& source) {
    std::string rest;
    for (bool ended = false; !ended;) {
      std::string piece(kPiece, '\0');
      piece.resize(source.read(piece));
      ended = piece.size() < kPiece;
      rest += piece;
      const size_t cut = ended ? rest.size() - 1 : rest.rfind('\n');
      if (cut == std::string::npos || rest.empty()) continue;
      add(rest.substr(0, cut + 1));
      rest.erase(0, cut + 1);
    }
    if (!rest.empty()) add(std::move(rest));
  }

  void add(std::string document) {
    batch_bytes_ += document.size();
    batch_.push_back(std::move(document));
    if (batch_bytes_ >= kBatch) finish();
  }

  WordCounter& counter_;
  std::string key_;
  std::vector<std::string> batch_;
  size_t batch_bytes_ = 0;
};

int train_tokenizer(const TrainTokenizerArguments& arguments) {
  const fs::path folder(arguments.output);
  if (!arguments.overwrite && fs::exists(folder / "tokenizer.json"))
    throw UserError("--output {}: there is a tokenizer.json already; give another folder, or --overwrite", arguments.output);
  const auto least = static_cast<int64_t>(256 + arguments.training.special_tokens.size());
  if (arguments.training.vocabulary < least)
    throw UserError("--vocab-size {}: the 256 bytes and {} special tokens alone are {}", arguments.training.vocabulary,
                    arguments.training.special_tokens.size(), least);
  const WordPattern pattern = *pattern_named(arguments.pattern);
  const Stopwatch stopwatch;
  ThreadPool pool(arguments.threads);
  WordCounter counter(pattern, pool);
  CorpusReader reader(counter, arguments.key);
  for (const std::string& file : arguments.files) reader.read(file);
  reader.finish();
  std::vector<WordCount> words = counter.take();
  const size_t distinct = words.size();
  if (words.empty()) throw UserError("{}: no text in it to learn from", fmt::join(arguments.files, ", "));
  const TrainedVocabulary vocabulary = train_bpe(std::move(words), arguments.training);

  create_folders(folder);
  atomic_write(folder / "vocab.json", bytes_of(write_vocab_json(vocabulary)));
  atomic_write(folder / "merges.txt", bytes_of(write_merges_txt(vocabulary, pattern)));
  atomic_write(folder / "tokenizer.json", bytes_of(write_tokenizer_json(vocabulary, pattern)));
  const size_t size = vocabulary.tokens.size() + vocabulary.special_tokens.size();
  const double seconds = stopwatch.seconds();
  if (arguments.json) {
    const nlohmann::json facts = {{"output", arguments.output}, {"vocabulary", size},       {"merges", vocabulary.merges.size()},
                                  {"bytes", counter.bytes()},   {"words", counter.words()}, {"distinct_words", distinct},
                                  {"seconds", seconds}};
    print_json(facts);
    return kDone;
  }
  fmt::print("{} bytes, {} words, {} of them different\n", counter.bytes(), counter.words(), distinct);
  if (size < static_cast<size_t>(arguments.training.vocabulary))
    fmt::print("no other pair of neighbours is there {} times, so the vocabulary is smaller than asked for\n",
               arguments.training.least_count);
  fmt::print("{} tokens in {}: tokenizer.json, vocab.json, merges.txt ({:.1f} s)\n", size, arguments.output, seconds);
  return kDone;
}

}  // namespace

void add_data_train_tokenizer_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<TrainTokenizerArguments>();
  CLI::App* command =
      data.add_subcommand("train-tokenizer",
                          "Learn a byte-pair vocabulary from text.\n\n"
                          "example:  trireme data train-tokenizer README.md --vocab-size 512 --output my-tokenizer\n");
  command
      ->add_option("files", arguments->files,
                   "text files, and .jsonl, .json or .ndjson files with an object per line; also .zst, .gz, .xz")
      ->required();
  command->add_option("--output", arguments->output, "the folder for tokenizer.json, vocab.json and merges.txt")->required();
  command->add_option("--vocab-size", arguments->training.vocabulary, "tokens, the special ones included")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{256}, PairTable::kMaxTokens));
  command->add_option("--min-frequency", arguments->training.least_count, "pairs that are rarer do not become tokens")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--special-token", arguments->training.special_tokens, "a special token; may be given again")
      ->capture_default_str();
  command->add_option("--pattern", arguments->pattern, "how text is cut into words")
      ->capture_default_str()
      ->check(one_of(pattern_names()));
  command->add_option("--key", arguments->key, "where the objects of .jsonl files have their text")->capture_default_str();
  command->add_option("--threads", arguments->threads, "0: all this process may use")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command->add_flag("--overwrite", arguments->overwrite, "replace a tokenizer that is there");
  command->add_flag("--json", arguments->json, "print the facts as JSON");
  command->callback([arguments, &status] { status = train_tokenizer(*arguments); });
}

}  // namespace trireme
