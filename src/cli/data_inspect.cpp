// trireme data inspect: show the contents of a dataset.
#include <fmt/ranges.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/data_commands.h"
#include "cli/data_text.h"
#include "data/indexed/indexed_verify.h"

namespace trireme {
namespace {

struct InspectArguments {
  std::vector<std::string> prefixes;
  std::string tokenizer;
  int64_t documents = 3;
  bool json = false;
};

constexpr int64_t kShownTokens = 64;

struct Excerpt {
  int64_t sequence = 0, length = 0;
  std::vector<int32_t> tokens;  // the first tokens of the sequence
};

// Returns evenly spaced sequences of the dataset, including the first and the last.
std::vector<Excerpt> excerpts(const IndexedDataset& data, int64_t count) {
  std::vector<Excerpt> shown;
  const int64_t many = std::min(count, data.sequences());
  for (int64_t i = 0; i < many; ++i) {
    Excerpt excerpt{.sequence = many == 1 ? 0 : i * (data.sequences() - 1) / (many - 1)};
    excerpt.length = data.length(excerpt.sequence);
    excerpt.tokens.resize(static_cast<size_t>(std::clamp<int64_t>(excerpt.length, 0, kShownTokens)));
    data.read(excerpt.sequence, 0, excerpt.tokens);
    shown.push_back(std::move(excerpt));
  }
  return shown;
}

std::string bucket_name(size_t bucket) {
  if (bucket < 2) return std::to_string(bucket);
  return fmt::format("{}-{}", int64_t{1} << (bucket - 1), (int64_t{1} << bucket) - 1);
}

void print_histogram(const LengthSummary& lengths) {
  constexpr int kNameWidth = 21, kCountWidth = 8;
  const int columns = terminal_columns(STDOUT_FILENO, 80) - kNameWidth - kCountWidth - 14;
  const int64_t most = *std::ranges::max_element(lengths.buckets);
  size_t first = 0, last = kLengthBuckets - 1;
  while (first < last && lengths.buckets[first] == 0) ++first;
  while (last > first && lengths.buckets[last] == 0) --last;
  for (size_t bucket = first; bucket <= last && most > 0; ++bucket) {
    const double share = static_cast<double>(lengths.buckets[bucket]) / static_cast<double>(lengths.sequences);
    const auto bar = static_cast<int64_t>(static_cast<double>(std::max(columns, 10)) *
                                          static_cast<double>(lengths.buckets[bucket]) / static_cast<double>(most));
    fmt::print("  {:>{}} {:>{}} {:5.1f}%  {}\n", bucket_name(bucket) + " tokens", kNameWidth,
               format_count(static_cast<double>(lengths.buckets[bucket])), kCountWidth, 100 * share,
               std::string(static_cast<size_t>(lengths.buckets[bucket] > 0 ? std::max<int64_t>(bar, 1) : 0), '#'));
  }
}

double mean_length(const LengthSummary& lengths) {
  return lengths.sequences == 0 ? 0 : static_cast<double>(lengths.tokens) / static_cast<double>(lengths.sequences);
}

void print_text(const IndexedDataset& data, const LengthSummary& lengths, const Tokenizer* tokenizer, int64_t documents) {
  fmt::print("{}\n", data.prefix());
  fmt::print("  {}, {}, {} of {}{}\n", plural(data.documents(), "document"), plural(data.sequences(), "sequence"),
             plural(data.tokens(), "token"), name_of(data.type()), data.multimodal() ? ", with modes" : "");
  fmt::print("  .bin {}, .idx {}\n", format_bytes(data.bin_bytes()), format_bytes(data.idx_bytes()));
  fmt::print("  lengths: shortest {}, mean {:.1f}, longest {}\n", lengths.shortest, mean_length(lengths), lengths.longest);
  print_histogram(lengths);
  for (const Excerpt& excerpt : excerpts(data, documents)) {
    fmt::print("  sequence {}, {} tokens: ", excerpt.sequence, excerpt.length);
    if (tokenizer != nullptr)
      fmt::print("{}\n", one_line(*tokenizer, excerpt.tokens, 200));
    else
      fmt::print("{}{}\n", fmt::join(std::span(excerpt.tokens).first(std::min<size_t>(excerpt.tokens.size(), 12)), " "),
                 excerpt.length > 12 ? " ..." : "");
  }
}

nlohmann::ordered_json json_of(const IndexedDataset& data, const LengthSummary& lengths, const Tokenizer* tokenizer,
                               int64_t documents) {
  nlohmann::ordered_json json;
  json["prefix"] = data.prefix();
  json["documents"] = data.documents();
  json["sequences"] = data.sequences();
  json["tokens"] = data.tokens();
  json["type"] = name_of(data.type());
  json["multimodal"] = data.multimodal();
  json["bin_bytes"] = data.bin_bytes();
  json["idx_bytes"] = data.idx_bytes();
  json["lengths"]["shortest"] = lengths.shortest;
  json["lengths"]["mean"] = mean_length(lengths);
  json["lengths"]["longest"] = lengths.longest;
  for (size_t bucket = 0; bucket < kLengthBuckets; ++bucket)
    if (lengths.buckets[bucket] > 0) json["lengths"]["histogram"][bucket_name(bucket)] = lengths.buckets[bucket];
  json["excerpts"] = nlohmann::ordered_json::array();
  for (const Excerpt& excerpt : excerpts(data, documents)) {
    nlohmann::ordered_json item{{"sequence", excerpt.sequence}, {"length", excerpt.length}, {"tokens", excerpt.tokens}};
    if (tokenizer != nullptr) item["text"] = tokenizer->decode(excerpt.tokens);
    json["excerpts"].push_back(std::move(item));
  }
  return json;
}

int inspect(const InspectArguments& arguments) {
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_named(arguments.tokenizer);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& prefix : arguments.prefixes) {
    const IndexedDataset data(prefix);
    const LengthSummary lengths = summarize_lengths(data);
    if (arguments.json)
      all.push_back(json_of(data, lengths, tokenizer.get(), arguments.documents));
    else
      print_text(data, lengths, tokenizer.get(), arguments.documents);
  }
  if (arguments.json) print_json(all);
  return kDone;
}

}  // namespace

void add_data_inspect_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      data.add_subcommand("inspect",
                          "Say what is in Megatron datasets: documents, tokens, how long they are, and a look inside.\n\n"
                          "examples:  trireme data inspect my_text_document\n"
                          "           trireme data inspect my_text_document --tokenizer bytes --documents 5\n");
  command->add_option("prefix", arguments->prefixes, "datasets: their names without .bin and .idx")->required();
  command->add_option("--tokenizer", arguments->tokenizer, "show text instead of token numbers; as for data encode");
  command->add_option("--documents", arguments->documents, "how many to show, from the first to the last")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &status] { status = inspect(*arguments); });
}

}  // namespace trireme
