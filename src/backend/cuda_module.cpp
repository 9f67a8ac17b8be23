#include "backend/cuda_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Module {
  int (*device_count)() = nullptr;
  Backend* (*make_backend)(int device) = nullptr;
  std::string missing;  // why the module cannot be used; empty: it can
};

// Every NVIDIA driver installs this library and nothing else does, so without it the module is not loaded.
bool has_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

// The module is beside the program or its tests in a build folder, or under lib after installation.
void* open_module() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  void* module = nullptr;
  for (const fs::path& folder : {here, here.parent_path(), here.parent_path() / "lib"}) {
    const fs::path path = folder / "libtrireme_cuda.so";
    if (fs::exists(path, error)) return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return module;
}

Module load() {
  Module module;
  if (!has_driver()) {
    module.missing = "no GPU was found (nvidia-smi lists them)";
    return module;
  }
  void* library = open_module();
  if (library == nullptr) {
    const char* reason = dlerror();
    module.missing = reason != nullptr ? fmt::format("it cannot be loaded: {}", reason) : "this build has no cuda backend";
    return module;
  }
  module.device_count = reinterpret_cast<int (*)()>(dlsym(library, "trireme_cuda_device_count"));
  module.make_backend = reinterpret_cast<Backend* (*)(int)>(dlsym(library, "trireme_make_cuda_backend"));
  if (module.device_count == nullptr || module.make_backend == nullptr)
    module.missing = "libtrireme_cuda.so is of another version";
  else if (module.device_count() == 0)
    module.missing = "no GPU was found (nvidia-smi lists them)";
  return module;
}

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

}  // namespace

int cuda_device_count() { return module().missing.empty() ? module().device_count() : 0; }

GpuObstacle cuda_obstacle() {
  return {.text = module().missing, .has_gpu = !module().missing.empty() && has_driver() && module().make_backend == nullptr};
}

std::unique_ptr<Backend> make_cuda_backend(int device) {
  if (!module().missing.empty()) throw UserError("trainer.backend=cuda: {}; use auto or cpu", module().missing);
  return std::unique_ptr<Backend>(module().make_backend(device));
}

}  // namespace trireme
