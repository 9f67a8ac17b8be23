#include "data/sft/sft_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr int64_t kLargestFile = int64_t{16} << 30;

// A template cut at its fields.
struct TemplatePart {
  std::string text;
  bool is_field = false;
};

// "{input}\n{output}" to input and output, with the text between them. Braces that hold no name are text.
std::vector<TemplatePart> parts_of(const SftText& text) {
  std::vector<TemplatePart> parts;
  std::string_view rest = text.prompt_template;
  std::string literal;
  while (!rest.empty()) {
    const size_t end = rest.starts_with('{') ? rest.find('}') : rest.npos;
    const std::string_view name = end == rest.npos ? "" : rest.substr(1, end - 1);
    if (name.empty() || name.find_first_of(" {\n\"") != name.npos) {
      literal += rest[0];
      rest.remove_prefix(1);
      continue;
    }
    if (!literal.empty()) parts.push_back({std::exchange(literal, "")});
    parts.push_back({std::string(name), true});
    rest.remove_prefix(end + 1);
  }
  if (!literal.empty()) parts.push_back({literal});
  if (parts.empty() || !parts.back().is_field || parts.back().text != text.label_key)
    throw UserError("model.data.prompt_template={}: it must end with the response, {{{}}} (model.data.label_key)",
                    text.prompt_template, text.label_key);
  return parts;
}

std::string field_of(const nlohmann::json& example, const std::string& name, const std::string& place) {
  const auto found = example.find(name);
  if (found == example.end()) {
    std::vector<std::string> names;
    for (const auto& [key, value] : example.items()) names.push_back(key);
    throw UserError("{}: there is no field {}, which model.data.prompt_template names; it has {}", place, name,
                    fmt::join(names, ", "));
  }
  if (!found->is_string()) throw UserError("{}: field {} is not a text", place, name);
  return found->get<std::string>();
}

SftExample make_example(const nlohmann::json& json, const std::vector<TemplatePart>& parts, const Tokenizer& tokenizer,
                        const std::string& place) {
  std::string prompt;
  for (size_t i = 0; i + 1 < parts.size(); ++i)
    prompt += parts[i].is_field ? field_of(json, parts[i].text, place) : parts[i].text;
  const std::string response = field_of(json, parts.back().text, place);
  // The prompt's tokens are those that it has alone, as it will be given to the model; the response is what follows them.
  SftExample example{.tokens = tokenizer.encode(prompt), .response = 0, .place = place};
  example.response = std::ssize(example.tokens);
  const std::vector<int32_t> after = tokenizer.encode(response);
  if (after.empty()) throw UserError("{}: the response is empty", place);
  example.tokens.insert(example.tokens.end(), after.begin(), after.end());
  return example;
}

}  // namespace

std::vector<SftExample> read_sft_examples(const std::vector<std::string>& files, const SftText& text,
                                          const Tokenizer& tokenizer) {
  const std::vector<TemplatePart> parts = parts_of(text);
  std::vector<SftExample> examples;
  for (const std::string& file : files) {
    if (!std::filesystem::is_regular_file(file))
      throw UserError("model.data.data_prefix: {} is not a file; name files of JSON lines", file);
    const std::string contents = read_file(file, kLargestFile);
    std::string_view rest = contents;
    for (int64_t line = 1; !rest.empty(); ++line) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view json_line = trimmed(rest.substr(0, end), " \t\r");
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (json_line.empty()) continue;
      const std::string place = fmt::format("{}, line {}", file, line);
      const nlohmann::json json = try_parse_json(json_line);
      if (!json.is_object()) throw UserError("{}: not a JSON object: {}", place, json_line.substr(0, 60));
      examples.push_back(make_example(json, parts, tokenizer, place));
    }
  }
  if (examples.empty()) throw UserError("model.data.data_prefix=[{}]: there are no examples", fmt::join(files, ","));
  return examples;
}

SftDataset::SftDataset(std::vector<SftExample> examples, const SftPacking& packing)
    : examples_(std::move(examples)), packing_(packing), samples_{0} {
  for (const SftExample& example : examples_)
    if (const int64_t length = std::ssize(example.tokens) + 1; length > packing.sequence)
      throw UserError("{}: the example has {} tokens, and model.encoder_seq_length={}; shorten it, or use longer samples",
                      example.place, length, packing.sequence);
  for (uint64_t epoch = 0; epoch == 0 || size() < packing.samples_needed; ++epoch) {
    add_epoch(epoch);
    if (epoch == 0) epoch_size_ = size();
  }
}

// Draws are keyed by the epoch and the place, so an order does not depend on how many epochs there are.
void SftDataset::add_epoch(uint64_t epoch) {
  std::vector<uint32_t> order(examples_.size());
  std::iota(order.begin(), order.end(), 0U);
  constexpr uint32_t kSite = 0x5F7;
  for (size_t i = order.size(); i > 1; --i) {
    const uint32_t bits = philox(packing_.seed, {static_cast<uint32_t>(i), static_cast<uint32_t>(epoch), kSite, 0})[0];
    std::swap(order[i - 1], order[static_cast<size_t>((uint64_t{bits} * i) >> 32)]);
  }
  int64_t room = packing_.sequence;
  for (const uint32_t number : order) {
    const int64_t length = std::ssize(examples_[number].tokens) + 1;
    if (length > room) {
      samples_.push_back(std::ssize(order_));
      room = packing_.sequence;
    }
    order_.push_back(number);
    room -= length;
  }
  samples_.push_back(std::ssize(order_));
}

void SftDataset::read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  std::ranges::fill(tokens, packing_.end_token);
  std::ranges::fill(targets, kMaskedTarget);
  const int64_t end = first + std::ssize(tokens);
  int64_t begin = 0;  // of the example in the sample
  const auto number = static_cast<size_t>(index);
  for (int64_t i = samples_[number]; i < samples_[number + 1]; ++i) {
    const SftExample& example = examples_[order_[static_cast<size_t>(i)]];
    const int64_t count = std::ssize(example.tokens);
    for (int64_t t = std::max<int64_t>(first - begin, 0); t < std::min(count, end - begin); ++t) {
      const auto row = static_cast<size_t>(begin + t - first);
      tokens[row] = example.tokens[static_cast<size_t>(t)];
      if (t + 1 >= example.response)
        targets[row] = t + 1 < count ? example.tokens[static_cast<size_t>(t + 1)] : packing_.end_token;
    }
    begin += count + 1;
  }
}

}  // namespace trireme
