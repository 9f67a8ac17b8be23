#include "base/python_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

template <class Json>
class PythonJsonWriter {
 public:
  PythonJsonWriter(std::string& out, int indent) : out_(out), indent_(indent) {}

  void append(const Json& value, size_t depth = 0) {
    if (value.is_number_float()) return append_python_number(out_, value.template get<double>());
    if (!value.is_structured()) return append_scalar(value);
    out_ += value.is_array() ? '[' : '{';
    for (bool is_first = true; const auto& [key, element] : value.items()) {
      if (!is_first) out_ += indent_ == kOneLine ? ", " : ",";
      is_first = false;
      break_line(depth + 1);
      if (value.is_object()) {
        append_scalar(Json(key));
        out_ += ": ";
      }
      append(element, depth + 1);
    }
    if (!value.empty()) break_line(depth);
    out_ += value.is_array() ? ']' : '}';
  }

 private:
  void append_scalar(const Json& value) {
    constexpr bool kEscapeAllButAscii = true;
    out_ += value.dump(-1, ' ', kEscapeAllButAscii, Json::error_handler_t::replace);
  }
  void break_line(size_t depth) {
    if (indent_ != kOneLine) out_.append("\n").append(static_cast<size_t>(indent_) * depth, ' ');
  }

  std::string& out_;
  int indent_;
};

}  // namespace

void append_python_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "Infinity" : "-Infinity";
  } else {
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
  }
}

void append_python_json(std::string& out, const nlohmann::json& value, int indent) {
  PythonJsonWriter<nlohmann::json>(out, indent).append(value);
}
void append_python_json(std::string& out, const nlohmann::ordered_json& value, int indent) {
  PythonJsonWriter<nlohmann::ordered_json>(out, indent).append(value);
}

std::string python_json(const nlohmann::ordered_json& value, int indent) {
  std::string text;
  append_python_json(text, value, indent);
  return text;
}

}  // namespace trireme
