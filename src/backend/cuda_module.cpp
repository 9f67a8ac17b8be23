#include "backend/cuda_module.h"

#include <dlfcn.h>

#include "base/module_file.h"

namespace trireme {
namespace {

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

Module load() {
  Module module;
  if (!has_driver()) {
    module.missing = "no GPU was found (nvidia-smi lists them)";
    return module;
  }
  const std::filesystem::path file = module_file("libtrireme_cuda.so");
  void* library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    module.missing = file.empty() ? "this build has no cuda backend" : fmt::format("it cannot be loaded: {}", dlerror());
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
