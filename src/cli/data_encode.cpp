// trireme data encode and decode: text on stdin to tokens on stdout, and back.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/choice_option.h"
#include "cli/data_commands.h"
#include "cli/tokenizer_options.h"
#include "data/prepare/json_documents.h"

namespace trireme {
namespace {

enum class OnError : uint8_t { stop, skip };

struct EncodeArguments {
  TokenizerArguments tokenizer;
  bool jsonl = false;
  std::string key = "text";
  OnError on_error = OnError::stop;
};

// Repairs made to the input; reported at the end on stderr.
struct Repairs {
  int64_t skipped = 0, surrogates = 0, invalid_utf8 = 0;

  void report() const {
    if (skipped != 0) fmt::print(stderr, "{} lines skipped\n", skipped);
    if (invalid_utf8 != 0) fmt::print(stderr, "{} sequences that were not UTF-8 became U+FFFD\n", invalid_utf8);
    if (surrogates != 0) fmt::print(stderr, "{} lone surrogates became U+FFFD\n", surrogates);
  }
};

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw Failure("stdout cannot be written to");
}

void finish_output() {
  if (std::fflush(stdout) != 0) throw Failure("stdout cannot be written to");
}

std::string read_input() {
  std::string text;
  char piece[1 << 16];
  while (const size_t count = std::fread(piece, 1, sizeof piece, stdin)) text.append(piece, count);
  if (std::ferror(stdin) != 0) throw Failure("stdin cannot be read");
  return text;
}

void append_numbers(std::span<const int32_t> tokens, std::string_view between, std::string& out) {
  char digits[16];
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i != 0) out += between;
    out.append(digits, std::to_chars(digits, digits + sizeof digits, tokens[i]).ptr);
  }
}

// Encodes all of stdin as one document. Prints the tokens in one line, separated by spaces.
void encode_text(Encoder& encoder, Repairs& repairs) {
  std::string text = read_input(), repaired;
  repairs.invalid_utf8 = replace_invalid_utf8(text, repaired);
  if (repairs.invalid_utf8 != 0) text = std::move(repaired);
  TokenBuffer tokens;
  encoder.encode(text, tokens);
  std::string out;
  append_numbers(tokens.tokens(), " ", out);
  write_out(out += '\n');
}

void encode_lines(Encoder& encoder, const EncodeArguments& arguments, Repairs& repairs) {
  const auto source = prepare::open_stream_source("-");
  prepare::JsonDocuments documents(*source, arguments.key);
  TokenBuffer tokens;
  std::string out;
  while (const auto document = documents.next()) {
    if (!document->problem.empty()) {
      if (arguments.on_error == OnError::stop)
        throw UserError("line {}: {}; --on-error skip leaves such lines out", document->line, document->problem);
      fmt::print(stderr, "line {}: {}\n", document->line, document->problem);
      ++repairs.skipped;
      continue;
    }
    repairs.surrogates += document->lone_surrogates;
    repairs.invalid_utf8 += document->invalid_utf8;
    tokens.clear();
    encoder.encode(document->text, tokens);
    out = "[";
    append_numbers(tokens.tokens(), ", ", out);
    write_out(out += "]\n");
  }
}

int encode(const EncodeArguments& arguments) {
  const auto tokenizer = arguments.tokenizer.load();
  const auto encoder = tokenizer->make_encoder();
  Repairs repairs;
  if (arguments.jsonl)
    encode_lines(*encoder, arguments, repairs);
  else
    encode_text(*encoder, repairs);
  finish_output();
  repairs.report();
  return kDone;
}

// Parses numbers separated by anything but digits; `where` names them in errors.
std::vector<int32_t> read_tokens(std::string_view text, std::string_view where) {
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size();) {
    if (std::string_view(" \t\r\n,[]").find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    int32_t token = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), token);
    if (error != std::errc()) throw UserError("{}, byte {}: not a token number", where, at);
    tokens.push_back(token);
    at = static_cast<size_t>(stop - text.data());
  }
  return tokens;
}

// Returns the text as a JSON line. Invalid UTF-8, such as a partial character, becomes U+FFFD.
std::string json_line(const std::string& text) { return json_text(nlohmann::json{{"text", text}}, kOneLine) + "\n"; }

int decode(const EncodeArguments& arguments) {
  const auto tokenizer = arguments.tokenizer.load();
  if (!arguments.jsonl) {
    write_out(tokenizer->decode(read_tokens(read_input(), "stdin")));
  } else {
    std::string line;
    for (int64_t number = 1; std::getline(std::cin, line); ++number)
      write_out(json_line(tokenizer->decode(read_tokens(line, fmt::format("line {}", number)))));
  }
  finish_output();
  return kDone;
}

}  // namespace

void add_data_encode_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<EncodeArguments>();
  CLI::App* command = data.add_subcommand("encode",
                                          "Turn text on stdin into token numbers on stdout.\n\n"
                                          "examples:  echo 'Hello world' | trireme data encode --tokenizer bytes\n"
                                          "           zstdcat pile.jsonl.zst | trireme data encode --tokenizer gpt2/ --jsonl\n");
  arguments->tokenizer.add_to(*command);
  command->add_flag("--jsonl", arguments->jsonl, "one JSON object a line in, one JSON array of numbers a line out");
  command->add_option("--key", arguments->key, "with --jsonl: where an object has its text")->capture_default_str();
  add_choice<OnError>(
      *command, "--on-error", {{"stop", OnError::stop}, {"skip", OnError::skip}},
      [arguments](OnError what) { arguments->on_error = what; }, "with --jsonl, at a line without text: stop or skip it")
      ->option_text("WHAT [stop]");
  command->callback([arguments, &status] { status = encode(*arguments); });
}

void add_data_decode_command(CLI::App& data, int& status) {
  auto arguments = std::make_shared<EncodeArguments>();
  CLI::App* command = data.add_subcommand("decode",
                                          "Turn token numbers on stdin into text on stdout.\n\n"
                                          "examples:  echo '72 105' | trireme data decode --tokenizer bytes\n"
                                          "           trireme data decode --tokenizer gpt2/ --jsonl < tokens.jsonl\n");
  arguments->tokenizer.add_to(*command);
  command->add_flag("--jsonl", arguments->jsonl, "one JSON array of numbers a line in, one JSON object with the text a line out");
  command->callback([arguments, &status] { status = decode(*arguments); });
}

}  // namespace trireme
