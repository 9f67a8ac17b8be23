#include "evaluate/samples.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "evaluate/python_text.h"

namespace trireme {
namespace {

std::vector<std::string> choices_of(const Task& task, const Document& document) {
  std::vector<std::string> choices;
  if (task.choices_field.empty())
    for (const TextTemplate& choice : task.choices) choices.push_back(choice.fill(document));
  else
    choices = field_texts(document, task.choices_field);
  for (std::string& choice : choices) choice = apply_filters(task.choice_filters, std::move(choice));
  if (choices.empty()) throw WrongDocument("there are no choices");
  return choices;
}

int64_t label_of(const Task& task, const Document& document, size_t choices) {
  const std::string text = task.label.fill(document);
  const std::vector<std::string> labels = task.labels_field.empty() ? task.labels : field_texts(document, task.labels_field);
  int64_t label = -1;
  if (!labels.empty()) {
    const auto found = std::ranges::find(labels, text);
    if (found != labels.end()) label = found - labels.begin();
  } else if (text == "true" || text == "false") {
    label = text == "true" ? 1 : 0;
  } else if (const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), label);
             failed != std::errc{} || end != text.data() + text.size()) {
    label = -1;
  }
  if (label < 0 || label >= static_cast<int64_t>(choices))
    throw WrongDocument(fmt::format("the label \"{}\" is not one of its {} choices", text, choices));
  return label;
}

class SampleMaker {
 public:
  SampleMaker(const Task& task, const ScoringText& text) : task_(task), text_(text) {}

  void add(const Document& document) {
    Sample sample;
    sample.first_request = made_.requests.size();
    switch (task_.kind) {
      case TaskKind::multiple_choice:
        add_choices(document, sample);
        break;
      case TaskKind::last_words:
        sample.target = task_.target.fill(document);
        ask(sample, task_.context.fill(document), sample.target);
        break;
      case TaskKind::perplexity:
        add_text(document, sample);
    }
    sample.end_request = made_.requests.size();
    made_.samples.push_back(std::move(sample));
  }

  TaskSamples finish() { return std::move(made_); }

 private:
  void add_choices(const Document& document, Sample& sample) {
    const std::vector<std::string> choices = choices_of(task_, document);
    sample.label = label_of(task_, document, choices.size());
    sample.target = task_.choices_are_contexts ? task_.target.fill(document) : fmt::format("{}", sample.label);
    const std::string context = task_.choices_are_contexts ? "" : task_.context.fill(document);
    for (const std::string& choice : choices) {
      sample.characters.push_back(python_length(choice));
      sample.bytes.push_back(std::ssize(choice));
      if (task_.choices_are_contexts)
        ask(sample, choice, task_.target_delimiter + sample.target);
      else
        ask(sample, context, task_.target_delimiter + choice);
    }
  }

  void ask(Sample& sample, const std::string& context, const std::string& continuation) {
    const TokenPair pair = encode_pair(text_, context, continuation);
    if (pair.continuation.empty()) throw WrongDocument(fmt::format("\"{}\" has no tokens to score", continuation));
    add_request(pair);
    sample.arguments.emplace_back(context, continuation);
  }

  void add_text(const Document& document, Sample& sample) {
    sample.target = task_.target.fill(document);
    const std::string counted = task_.counted.fill(document);
    sample.counted_words = python_word_count(counted);
    sample.counted_bytes = std::ssize(counted);
    sample.arguments.emplace_back(sample.target, "");
    for (const TokenPair& window : rolling_windows(text_.tokenizer.encode(sample.target), text_.prefix, text_.most_tokens))
      add_request(window);
  }

  // A context that is too long loses its beginning.
  void add_request(const TokenPair& pair) {
    ScoringRequest request{.tokens = pair.context, .targets = pair.continuation};
    if (std::ssize(request.targets) > text_.most_tokens)
      throw WrongDocument(
          fmt::format("{} tokens are to be scored at once, and the model reads {}", request.targets.size(), text_.most_tokens));
    request.tokens.insert(request.tokens.end(), pair.continuation.begin(), pair.continuation.end() - 1);
    const int64_t too_many = std::ssize(request.tokens) - text_.most_tokens;
    if (too_many > 0) request.tokens.erase(request.tokens.begin(), request.tokens.begin() + too_many);
    made_.requests.push_back(std::move(request));
  }

  const Task& task_;
  const ScoringText& text_;
  TaskSamples made_;
};

}  // namespace

TokenPair encode_pair(const ScoringText& text, std::string_view context, std::string_view continuation) {
  const Tokenizer& tokenizer = text.tokenizer;
  if (context.empty()) {
    std::vector<int32_t> tokens = tokenizer.encode(continuation);
    if (tokens.empty() || tokens.front() != text.prefix) return {{text.prefix}, std::move(tokens)};
    return {{text.prefix}, {tokens.begin() + 1, tokens.end()}};
  }
  const std::string_view kept = python_rstrip(context);
  std::vector<int32_t> before = tokenizer.encode(kept), all = tokenizer.encode(std::string(context) + std::string(continuation));
  all.erase(all.begin(), all.begin() + std::min(std::ssize(before), std::ssize(all)));
  if (before.empty()) before.push_back(text.prefix);  // a context of white space only
  return {std::move(before), std::move(all)};
}

std::vector<TokenPair> rolling_windows(std::span<const int32_t> tokens, int32_t prefix, int64_t most_tokens) {
  std::vector<TokenPair> windows;
  const int64_t count = std::ssize(tokens);
  const auto range = [&](int64_t begin, int64_t end) {
    return std::vector<int32_t>(tokens.begin() + begin, tokens.begin() + end);
  };
  for (int64_t begin = 0; begin < count;) {
    const int64_t end = std::min(count, begin + most_tokens);
    if (begin == 0)
      windows.push_back({{prefix}, range(0, end)});
    else  // the last window is as long as the others, with tokens before those that it scores
      windows.push_back({range(end - most_tokens - 1, begin), range(begin, end)});
    begin = end;
  }
  return windows;
}

TaskSamples make_samples(const Task& task, const TaskDocuments& documents, const ScoringText& text) {
  SampleMaker maker(task, text);
  for (size_t i = 0; i < documents.documents.size(); ++i) {
    try {
      maker.add(documents.documents[i]);
    } catch (const WrongDocument& error) {
      throw UserError("{}, {}: {} (task {})", documents.file.string(), documents.places[i], error.what(), task.name);
    }
  }
  return maker.finish();
}

}  // namespace trireme
