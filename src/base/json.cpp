#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent) {
  constexpr bool kEscapeAllButAscii = false;
  return value.dump(indent, ' ', kEscapeAllButAscii, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) { return text_of(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }

void print_json(const nlohmann::json& value, int indent) { fmt::print("{}\n", text_of(value, indent)); }
void print_json(const nlohmann::ordered_json& value, int indent) { fmt::print("{}\n", text_of(value, indent)); }

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }

nlohmann::json try_parse_json(std::string_view text) {
  constexpr bool kThrow = false;
  return nlohmann::json::parse(text, nullptr, kThrow);
}

}  // namespace trireme
