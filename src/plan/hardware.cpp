#include "plan/hardware.h"

#include <array>

#include "base/error.h"
#include "config/catalogue.h"
#include "config/yaml.h"
#include "plan/number_keys.h"

namespace trireme {
namespace {

std::string text_at(const Tree& file, const char* key) {
  const Tree* value = file.find(key);
  return value == nullptr ? "" : value->text();
}

Tree read_hardware_file(const std::string& path) {
  Tree file = read_yaml_file(path);
  if (!file.is_map()) throw UserError("{} is not a hardware file: it has no keys", path);
  return file;
}

constexpr std::array<std::string_view, 3> kGpuTexts{"summary", "source", "fitted"};
constexpr std::array<std::string_view, 3> kPlatformTexts{"summary", "source", "gpu"};

}  // namespace

std::vector<NumberKey> number_keys(GpuModel& gpu) {
  return {{"bf16_tflops", &gpu.bf16_tflops},
          {"fp8_tflops", &gpu.fp8_tflops, true},
          {"memory_gib", &gpu.memory_gib},
          {"memory_bandwidth", &gpu.memory_bandwidth},
          {"multiprocessors", &gpu.multiprocessors},
          {"tile_us", &gpu.tile_us},
          {"launch_us", &gpu.launch_us},
          {"bf16_share", &gpu.bf16_share},
          {"fp8_share", &gpu.fp8_share, true},
          {"copy_share", &gpu.copy_share}};
}

std::vector<NumberKey> number_keys(Platform& platform) {
  return {{"gpus_per_node", &platform.gpus_per_node},
          {"nvlink_domain", &platform.nvlink_domain},
          {"nvlink_bandwidth", &platform.nvlink_bandwidth},
          {"nvlink_share", &platform.nvlink_share, true},
          {"nvlink_latency_us", &platform.nvlink_latency_us},
          {"network_bandwidth", &platform.network_bandwidth},
          {"network_share", &platform.network_share, true},
          {"network_latency_us", &platform.network_latency_us},
          {"oversubscription", &platform.oversubscription, true},
          {"price_per_gpu_hour", &platform.price_per_gpu_hour, true}};
}

GpuModel load_gpu(const std::string& name_or_path) {
  const std::filesystem::path path = find_in_catalogue("hardware/gpus", name_or_path, "gpu");
  const Tree file = read_hardware_file(path.string());
  GpuModel gpu{.name = path.stem().string(), .summary = text_at(file, "summary")};
  const auto keys = number_keys(gpu);
  require_known_keys(file, keys, kGpuTexts);
  read_numbers(file, path.string(), keys);
  for (const NumberKey& key : keys)
    if (!key.may_be_missing && *key.value == 0) throw UserError("{}: {}=0; give a number above 0", path.string(), key.key);
  if (const Tree* fitted = file.find("fitted"); fitted != nullptr && fitted->is_list())
    for (const Tree& name : fitted->list()) gpu.fitted.push_back(name.text());
  return gpu;
}

Platform load_platform(const std::string& name_or_path) {
  const std::filesystem::path path = find_in_catalogue("hardware", name_or_path, "--cluster");
  const Tree file = read_hardware_file(path.string());
  Platform platform{.name = path.stem().string(), .summary = text_at(file, "summary")};
  const auto keys = number_keys(platform);
  require_known_keys(file, keys, kPlatformTexts);
  read_numbers(file, path.string(), keys);
  for (const char* key : {"gpus_per_node", "nvlink_domain", "nvlink_bandwidth", "network_bandwidth", "oversubscription"})
    if (const Tree* value = file.find(key); value != nullptr && (value->text() == "0" || value->text() == "0.0"))
      throw UserError("{}: {}=0; give a number above 0", path.string(), key);
  const std::string gpu = text_at(file, "gpu");
  if (gpu.empty()) throw UserError("{}: gpu is missing; give the name of a GPU or the path of its file", path.string());
  platform.gpu = load_gpu(gpu);
  return platform;
}

}  // namespace trireme
