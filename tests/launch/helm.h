// Real Helm for tests: on PATH, named by TRIREME_HELM, or packed in ../shared beside the checkout. And the chart, rendered.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/subprocess.h"
#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {

inline const std::string kChart = TRIREME_SOURCE_DIR "/charts/trireme";
inline const std::string kShared = TRIREME_SOURCE_DIR "/../shared";

// The folder of helm; empty if there is none. Unpacked once per process.
inline const std::string& helm_folder() {
  static const TemporaryFolder unpacked;
  static const std::string folder = [] {
    if (const std::string found = find_program("helm"); !found.empty())
      return std::filesystem::path(found).parent_path().string();
    if (const char* named = std::getenv("TRIREME_HELM"); named != nullptr)
      return std::filesystem::path(named).parent_path().string();
    const std::string to = unpacked.path().string();
    const std::string command = "xz -dc " + kShared + "/tools/helm.xz > " + to + "/helm && chmod +x " + to + "/helm";
    return run_shell(command).status == 0 ? to : std::string();
  }();
  return folder;
}

struct Rendered {
  int status = 0;
  std::string manifests, errors;
};

// helm template with these arguments; helm's home is a temporary folder.
inline Rendered render_chart(const TemporaryFolder& folder, const std::string& arguments, const std::string& name = "demo") {
  const std::string errors = (folder / "helm-errors").string();
  const ProgramResult result =
      run_shell("HELM_CACHE_HOME=" + folder.path().string() + " HELM_CONFIG_HOME=" + folder.path().string() + " " +
                helm_folder() + "/helm template " + name + " " + kChart + " " + arguments + " 2> " + errors);
  std::ifstream file(errors);
  return {result.status, result.output, {std::istreambuf_iterator<char>(file), {}}};
}

// The value sets of tests/launch/chart.
inline std::vector<std::filesystem::path> value_sets() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/tests/launch/chart"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace trireme

#define NEEDS_HELM() \
  if (::trireme::helm_folder().empty()) SKIP_FOR(peer) << "helm is not here; put it on PATH or name it by TRIREME_HELM"
