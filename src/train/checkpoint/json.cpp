#include "train/checkpoint/json.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

namespace trireme {

using nlohmann::json;

std::string json_excerpt(const json& value) {
  constexpr size_t kLength = 60;
  std::string text =
      value.dump(-1, ' ', true, json::error_handler_t::replace);  // in ASCII, so that cutting it leaves whole characters
  if (text.size() > kLength) text = text.substr(0, kLength) + "...";
  return text;
}

json parse_strict_json(std::string_view text, const std::string& where) {
  constexpr int kMaxDepth = 64;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) throw Failure("{}: JSON nested deeper than {} levels", where, kMaxDepth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Failure("{}: the key {} is given twice", where, json_excerpt(parsed));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw Failure("{}: not valid JSON: {}", where, error.what());
  }
}

const json& json_member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw Failure("{}: an object with the key {} was expected", where, key);
  const auto found = object.find(key);
  if (found == object.end()) throw Failure("{}: the key {} is missing", where, key);
  return *found;
}

int64_t json_size(const json& value, const std::string& where) {
  // Whole numbers without a sign are stored as unsigned; larger ones than 64 bits hold become floating point.
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<int64_t>::max())
    throw Failure("{}: {} is not a size", where, json_excerpt(value));
  return value.get<int64_t>();
}

std::string json_string(const json& value, const std::string& where) {
  if (!value.is_string()) throw Failure("{}: {} is not a text", where, json_excerpt(value));
  return value.get<std::string>();
}

Shape json_shape(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() > Shape::kMaxRank)
    throw Failure("{}: a shape is a list of at most {} sizes", where, Shape::kMaxRank);
  constexpr int64_t kMaxElementBytes = 8;
  std::vector<int64_t> dims;
  int64_t bytes = kMaxElementBytes;
  for (const json& dim : value) {
    dims.push_back(json_size(dim, where));
    // Zeros do not count here: an empty tensor must not hide dimensions whose product overflows.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dims.back(), 1), &bytes))
      throw Failure("{}: the shape {} is too large", where, json_excerpt(value));
  }
  return Shape(dims);
}

}  // namespace trireme
