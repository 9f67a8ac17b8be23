// Templates of evaluation tasks: "Question: {{goal}}\nAnswer:". What is in braces is a field of the document, or one inside of it
// (question.stem, choices.0.text), with filters: {{sentence|before('_')|strip}}. Nothing else is a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/text_filter.h"

namespace trireme {

using Document = nlohmann::ordered_json;

// A document without a field that the task reads, or with one of another kind. The text says which; the caller knows the file.
struct WrongDocument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The value of a field: a text, number or boolean as text. WrongDocument if it is missing or something else.
std::string field_text(const Document& document, std::string_view path);
// The elements of a list. "choices[].text" is the field `text` of each element of `choices`.
std::vector<std::string> field_texts(const Document& document, std::string_view path);

class TextTemplate {
 public:
  TextTemplate() = default;
  // UserError, starting with `where`, for braces without a partner and unknown filters.
  TextTemplate(const std::string& where, std::string_view text, std::vector<TextFilter> filters = {});

  std::string fill(const Document& document) const;

 private:
  struct Part {
    std::string text;  // literal, or a field
    bool is_field = false;
    std::vector<TextFilter> filters;
  };
  Part field(const std::string& where, std::string_view inside) const;

  std::vector<Part> parts_;
  std::vector<TextFilter> filters_;  // of the whole
};

}  // namespace trireme
