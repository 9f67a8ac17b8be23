#include "telemetry/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace trireme {
namespace {

template <class Json>
void append_any(std::string& out, const Json& value) {
  if (value.is_number_float()) {
    append_json_number(out, value.template get<double>());
  } else if (value.is_array()) {
    out += '[';
    for (const char* separator = ""; const Json& element : value) {
      out += std::exchange(separator, ", ");
      append_any(out, element);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const char* separator = ""; const auto& [key, element] : value.items()) {
      out += std::exchange(separator, ", ");
      append_any(out, Json(key));
      out += ": ";
      append_any(out, element);
    }
    out += '}';
  } else {
    constexpr bool kEscapeAllButAscii = true;
    out += value.dump(-1, ' ', kEscapeAllButAscii, Json::error_handler_t::replace);
  }
}

}  // namespace

void append_json_number(std::string& out, double value) {
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

void append_json(std::string& out, const nlohmann::json& value) { append_any(out, value); }
void append_json(std::string& out, const nlohmann::ordered_json& value) { append_any(out, value); }

}  // namespace trireme
