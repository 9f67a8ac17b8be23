#include "evaluate/samples.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "evaluate/python_random.h"
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

  // `before`: the solved examples.
  void add(const Document& document, std::string before) {
    before_ = std::move(before);
    Sample sample;
    sample.first_request = made_.requests.size();
    switch (task_.kind) {
      case TaskKind::multiple_choice:
        add_choices(document, sample);
        break;
      case TaskKind::last_words:
        sample.target = task_.target.fill(document);
        ask(sample, before_ + task_.context.fill(document), sample.target);
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
    const std::string context = task_.choices_are_contexts ? "" : before_ + task_.context.fill(document);
    for (const std::string& choice : choices) {
      sample.characters.push_back(python_length(choice));
      sample.bytes.push_back(std::ssize(choice));
      if (task_.choices_are_contexts)
        ask(sample, before_ + choice, task_.target_delimiter + sample.target);
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
    for (const TokenPair& window : rolling_windows(text_.encode(sample.target), text_.prefix, text_.most_tokens))
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
  std::string before_;
  TaskSamples made_;
};

// A question with its answer.
std::string solved(const Task& task, const Document& document) {
  std::string question, answer;
  if (task.kind == TaskKind::last_words) {
    question = task.context.fill(document), answer = task.target.fill(document);
  } else {
    const std::vector<std::string> choices = choices_of(task, document);
    const std::string& right = choices[static_cast<size_t>(label_of(task, document, choices.size()))];
    question = task.choices_are_contexts ? right : task.context.fill(document);
    answer = task.choices_are_contexts ? task.target.fill(document) : right;
  }
  return question + task.target_delimiter + answer + task.fewshot_delimiter;
}

// Draws the examples of one document after the other.
class ExampleSampler {
 public:
  ExampleSampler(const Task& task, const FewShot& shots, const TaskDocuments& examples)
      : task_(task), count_(shots.count), random_(shots.seed), examples_(examples) {
    const int64_t needed = count_ + (task.fewshot_leaves_out ? 1 : 0);
    if (const int64_t there = std::ssize(examples.documents); needed > there)
      throw UserError("few-shot: task {} draws {} examples at once, and {} has {}; use fewer", task.name, needed,
                      examples.file.string(), there);
  }

  std::string draw(const Document& asked) {
    const int64_t more = task_.fewshot_leaves_out ? 1 : 0;
    std::vector<int64_t> drawn = random_.sample(std::ssize(examples_.documents), count_ + more);
    if (task_.fewshot_leaves_out) leave_out(asked, drawn);
    std::string text;
    for (const int64_t i : drawn) text += text_of(static_cast<size_t>(i));
    return text;
  }

 private:
  const Document& document(int64_t i) const { return examples_.documents[static_cast<size_t>(i)]; }

  // Where documents are there several times over, what is left may be too few; then the examples are drawn from all others.
  void leave_out(const Document& asked, std::vector<int64_t>& drawn) {
    const auto is_asked = [&](int64_t i) { return document(i) == asked; };
    std::erase_if(drawn, is_asked);
    if (std::ssize(drawn) < count_) {
      std::vector<int64_t> others;
      for (int64_t i = 0; i < std::ssize(examples_.documents); ++i)
        if (!is_asked(i)) others.push_back(i);
      if (std::ssize(others) < count_)
        throw UserError("few-shot: task {} has only {} examples that are not the document itself; use fewer", task_.name,
                        others.size());
      drawn = random_.sample(std::ssize(others), count_);
      for (int64_t& i : drawn) i = others[static_cast<size_t>(i)];
    }
    drawn.resize(static_cast<size_t>(count_));
  }

  std::string text_of(size_t i) const {
    try {
      return solved(task_, examples_.documents[i]);
    } catch (const WrongDocument& error) {
      throw UserError("{}, {}: {} (task {}, as an example)", examples_.file.string(), examples_.places[i], error.what(),
                      task_.name);
    }
  }

  const Task& task_;
  int64_t count_;
  PythonRandom random_;
  const TaskDocuments& examples_;
};

}  // namespace

std::vector<int32_t> ScoringText::encode(std::string_view text) const {
  std::vector<int32_t> tokens = tokenizer.encode(text);
  if (begin) tokens.insert(tokens.begin(), *begin);
  return tokens;
}

TokenPair encode_pair(const ScoringText& text, std::string_view context, std::string_view continuation) {
  if (context.empty()) {
    std::vector<int32_t> tokens = text.tokenizer.encode(continuation);
    if (tokens.empty() || tokens.front() != text.prefix) return {{text.prefix}, std::move(tokens)};
    return {{text.prefix}, {tokens.begin() + 1, tokens.end()}};
  }
  const std::string_view kept = python_rstrip(context);
  std::vector<int32_t> before = text.encode(kept), all = text.encode(std::string(context) + std::string(continuation));
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
  return make_samples(task, documents, text, {}, {});
}

TaskSamples make_samples(const Task& task, const TaskDocuments& documents, const ScoringText& text, const FewShot& shots,
                         const TaskDocuments& examples) {
  SampleMaker maker(task, text);
  std::optional<ExampleSampler> sampler;
  if (shots.count > 0) sampler.emplace(task, shots, examples);
  for (size_t i = 0; i < documents.documents.size(); ++i) {
    const Document& document = documents.documents[i];
    try {
      maker.add(document, sampler ? sampler->draw(document) : "");
    } catch (const WrongDocument& error) {
      throw UserError("{}, {}: {} (task {})", documents.file.string(), documents.places[i], error.what(), task.name);
    }
  }
  return maker.finish();
}

}  // namespace trireme
