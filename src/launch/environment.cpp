#include "launch/environment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "launch/network_profile.h"

namespace trireme {
namespace {

void set_variable(std::vector<EnvironmentVariable>& all, EnvironmentVariable one) {
  const auto found = std::ranges::find(all, one.name, &EnvironmentVariable::name);
  if (found == all.end())
    all.push_back(std::move(one));
  else
    found->value = std::move(one.value);
}

EnvironmentVariable parse_variable(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, is_word) || std::isdigit(static_cast<unsigned char>(name.front())) != 0)
    throw UserError("--env {}: use NAME=VALUE, or NAME for its value here", text);
  if (equals != std::string::npos) return {name, text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) throw UserError("--env {}: it is not set here; use {}=VALUE", name, name);
  return {name, value};
}

void add_network(const LaunchOptions& options, std::vector<EnvironmentVariable>& all, std::vector<LaunchChoice>& choices) {
  if (options.network.empty()) return;
  const NetworkProfile profile = load_network_profile(options.network);
  choices.push_back({fmt::format("network {}: {} variables", profile.name, profile.environment.size()), profile.summary});
  for (const EnvironmentVariable& wanted : profile.environment) {
    const char* own = std::getenv(wanted.name.c_str());
    const bool is_users = own != nullptr && wanted.value != own;
    if (is_users)
      choices.push_back({fmt::format("{}={}", wanted.name, own),
                         fmt::format("set in your environment; network {} has {}", profile.name, wanted.value)});
    set_variable(all, {wanted.name, is_users ? own : wanted.value});
  }
}

}  // namespace

std::vector<EnvironmentVariable> launch_environment(const LaunchRequest& request, std::vector<LaunchChoice>& choices) {
  std::vector<EnvironmentVariable> all;
  add_network(request.options.values, all, choices);
  for (const std::string& text : request.options.values.env) set_variable(all, parse_variable(text));
  return all;
}

std::vector<Mount> mounts_of(const LaunchOptions& options) {
  std::vector<Mount> mounts;
  for (const std::string& text : options.mounts) {
    const size_t colon = text.find(':');
    const Mount mount{text.substr(0, colon), colon == std::string::npos ? text : text.substr(colon + 1)};
    if (!mount.source.starts_with('/') || !mount.destination.starts_with('/'))
      throw UserError("--mount {}: use absolute paths, SOURCE:DESTINATION or one path for both", text);
    mounts.push_back(mount);
  }
  if (!options.data.empty()) {
    const std::string folder = std::filesystem::absolute(options.data).string();
    mounts.push_back({folder, folder});
  }
  return mounts;
}

std::vector<std::string> profiler_command(const Job& job, const Settings& settings) {
  return {job.command.front(),
          "launch",
          "profile-rank",
          "--ranks",
          fmt::format("{}", fmt::join(settings.model.profile.ranks, ",")),
          "--output",
          (job.folder / "nsys").string(),
          "--trace",
          fmt::format("{}", fmt::join(settings.model.profile.trace, ",")),
          "--"};
}

}  // namespace trireme
