#include "plan/software.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/catalogue.h"
#include "config/yaml.h"
#include "plan/number_keys.h"

namespace trireme {
namespace {

bool flag_at(const Tree& file, const char* key) {
  const Tree* value = file.find(key);
  if (value == nullptr) return false;
  if (value->kind() != Tree::Kind::boolean)
    throw UserError("{}={}: expected true or false{}", key, value->brief(), value->where_suffix());
  return value->boolean();
}

AttentionKernel attention_at(const Tree& file, const std::string& path) {
  const Tree* value = file.find("attention");
  const std::string text = value == nullptr ? "" : value->text();
  if (text == "unfused") return AttentionKernel::unfused;
  if (text == "flash") return AttentionKernel::flash;
  throw UserError("{}: attention={}; use unfused or flash", path, text);
}

Constant constant_named(const Tree& name) {
  for (const ConstantRow& row : constant_rows())
    if (row.name == name.text()) return row.constant;
  std::vector<std::string_view> names;
  for (const ConstantRow& row : constant_rows()) names.push_back(row.name);
  throw UserError("fitted: {} is not a constant{}; use {}", name.brief(), name.where_suffix(), fmt::join(names, ", "));
}

constexpr std::array<std::string_view, 10> kProfileKeys{
    "summary", "attention", "overlap_grad_sync", "overlap_param_sync", "overlap_p2p", "distributed_optimizer", "splits_messages",
    "shares",  "fitted",    "constants"};

}  // namespace

const std::array<ConstantRow, kConstants>& constant_rows() {
  static const std::array<ConstantRow, kConstants> rows{{
      {Constant::gemm, "gemm", "speed of GEMMs over what large ones reach on the GPU", 0.3, 1.4},
      {Constant::memory, "memory", "bytes that memory-bound ops move over those of this program's fused ops", 0.3, 8},
      {Constant::attention, "attention", "time of attention over the model's", 0.2, 6},
      {Constant::tp_exposed, "tp_exposed", "share of TP and CP communication that no GEMM hides", 0, 3},
      {Constant::network, "network", "speed of the network over the platform's", 0.1, 1.5},
      {Constant::host, "host", "microseconds in which the host enqueues one of this program's ops", 0, 400},
      {Constant::step, "step", "seconds per step outside of the model", 0, 2},
  }};
  return rows;
}

bool SoftwareProfile::fits(Constant constant) const { return std::ranges::find(fitted, constant) != fitted.end(); }

SoftwareProfile load_software_profile(const std::string& name_or_path) {
  const std::filesystem::path path = find_in_catalogue("profiles", name_or_path, "--profile");
  const Tree file = read_yaml_file(path.string());
  if (!file.is_map()) throw UserError("{} is not a software profile: it has no keys", path.string());
  require_known_keys(file, {}, kProfileKeys);
  SoftwareProfile profile{.name = path.stem().string()};
  if (const Tree* summary = file.find("summary")) profile.summary = summary->text();
  profile.attention = attention_at(file, path.string());
  profile.overlaps_grad_sync = flag_at(file, "overlap_grad_sync");
  profile.overlaps_param_sync = flag_at(file, "overlap_param_sync");
  profile.overlaps_p2p = flag_at(file, "overlap_p2p");
  profile.distributed_optimizer = flag_at(file, "distributed_optimizer");
  profile.splits_messages = flag_at(file, "splits_messages");
  if (const Tree* shares = file.find("shares")) profile.shares = shares->text();
  if (const Tree* fitted = file.find("fitted"); fitted != nullptr && fitted->is_list())
    for (const Tree& name : fitted->list()) profile.fitted.push_back(constant_named(name));
  if (!profile.shares.empty() && profile.shares != profile.name)
    profile.constants = load_software_profile(profile.shares).constants;
  if (const Tree* constants = file.find("constants"); constants != nullptr && constants->is_map()) {
    std::vector<NumberKey> keys;
    for (const ConstantRow& row : constant_rows()) keys.push_back({row.name, &profile[row.constant], true});
    require_known_keys(*constants, keys, {});
    read_numbers(*constants, path.string(), keys);
  }
  return profile;
}

}  // namespace trireme
