#include "plan/hardware_change.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

struct NumberWithUnit {
  double number = 0;  // 0 if there is none above 0
  std::string_view unit;
};

NumberWithUnit number_with_unit(std::string_view text) {
  NumberWithUnit parsed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed.number);
  if (error != std::errc() || !(parsed.number > 0) || parsed.number > 1e15) return {};
  parsed.unit = text.substr(static_cast<size_t>(end - text.data()));
  return parsed;
}

}  // namespace

void change_platform(Platform& platform, const std::string& change) {
  const size_t equals = change.find('=');
  std::string key = change.substr(0, equals);
  std::ranges::replace(key, '.', '_');
  std::vector<NumberKey> keys = number_keys(platform);
  for (const NumberKey& gpu_key : number_keys(platform.gpu)) keys.push_back(gpu_key);
  const auto known = std::ranges::find(keys, key, &NumberKey::key);
  if (known == keys.end()) {
    std::vector<std::string_view> names;
    for (const NumberKey& each : keys) names.push_back(each.key);
    throw UserError("--set {}: {} is not a key of the cluster or the GPU; use {}", change, key, fmt::join(names, ", "));
  }
  const auto [number, unit] = number_with_unit(equals == std::string::npos ? "" : std::string_view(change).substr(equals + 1));
  const double value = unit == "x" ? number * *known->value : number;
  if (!(number > 0) || (!unit.empty() && unit != "x"))
    throw UserError("--set {}: expected a number above 0, or a factor such as {}=2x", change, key);
  const bool is_count = key == "gpus_per_node" || key == "nvlink_domain";
  if (is_count && (value != std::floor(value) || value < 1 || value > 1e6))
    throw UserError("--set {}: {}={:g} is not a whole number of GPUs", change, key, value);
  if (key.ends_with("_share") && value > 1) throw UserError("--set {}: {}={:g} is a share; give at most 1", change, key, value);
  *known->value = value;
}

double gib_from_text(const std::string& text, const std::string& option) {
  const auto [number, unit] = number_with_unit(text);
  const double bytes = unit == "GB" ? 1e9 : unit == "GiB" ? std::exp2(30) : unit == "MiB" ? std::exp2(20) : 0;
  if (number == 0 || bytes == 0) throw UserError("{} {}: expected an amount such as 80GB or 74.5GiB", option, text);
  return number * bytes / std::exp2(30);
}

}  // namespace trireme
