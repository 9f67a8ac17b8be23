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
constexpr std::array<std::string_view, 4> kPlatformTexts{"summary", "source", "gpu", "measured"};

GpuModel gpu_in(const Tree& file, const std::string& path, const std::string& name) {
  GpuModel gpu{.name = name, .summary = text_at(file, "summary")};
  const auto keys = number_keys(gpu);
  require_known_keys(file, keys, kGpuTexts);
  read_numbers(file, path, keys);
  for (const NumberKey& key : keys)
    if (!key.may_be_missing && *key.value == 0) throw UserError("{}: {}=0; give a number above 0", path, key.key);
  if (const Tree* fitted = file.find("fitted"); fitted != nullptr && fitted->is_list())
    for (const Tree& one : fitted->list()) gpu.fitted.push_back(one.text());
  return gpu;
}

// Measured with one rank, a machine has no network that is known.
bool has_network(const Tree& file) {
  const Tree* ranks = file.find("measured.ranks");
  return ranks == nullptr || ranks->text() != "1" || file.find("network_bandwidth") != nullptr;
}

}  // namespace

std::vector<NumberKey> number_keys(GpuModel& gpu) {
  return {{"bf16_tflops", &gpu.bf16_tflops},
          {"fp8_tflops", &gpu.fp8_tflops, true},
          {"f32_tflops", &gpu.f32_tflops, true},
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
  return gpu_in(read_hardware_file(path.string()), path.string(), path.stem().string());
}

Platform load_platform(const std::string& name_or_path) {
  const std::filesystem::path path = find_in_catalogue("hardware", name_or_path, "--cluster");
  const Tree file = read_hardware_file(path.string());
  Platform platform{.name = path.stem().string(), .summary = text_at(file, "summary")};
  auto keys = number_keys(platform);
  require_known_keys(file, keys, kPlatformTexts);
  if (!has_network(file)) std::erase_if(keys, [](const NumberKey& key) { return key.key.starts_with("network_"); });
  read_numbers(file, path.string(), keys);
  for (const char* key : {"gpus_per_node", "nvlink_domain", "nvlink_bandwidth", "network_bandwidth", "oversubscription"})
    if (const Tree* value = file.find(key); value != nullptr && (value->text() == "0" || value->text() == "0.0"))
      throw UserError("{}: {}=0; give a number above 0", path.string(), key);
  if (const Tree* measured = file.find("measured"); measured != nullptr)
    platform.measured = std::make_shared<const MeasuredMachine>(read_measured(*measured, path.string()));
  if (const Tree* own = file.find("gpu"); own != nullptr && own->is_map()) {
    platform.gpu = gpu_in(*own, path.string(), platform.name);
    return platform;
  }
  const std::string gpu = text_at(file, "gpu");
  if (gpu.empty()) throw UserError("{}: gpu is missing; give the name of a GPU or the path of its file", path.string());
  platform.gpu = load_gpu(gpu);
  return platform;
}

}  // namespace trireme
