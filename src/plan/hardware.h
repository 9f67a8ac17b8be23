// GPUs and the platforms that connect them, from hardware/gpus/*.yaml and hardware/*.yaml.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/measured_machine.h"
#include "plan/number_keys.h"

namespace trireme {

// The fit may change at most three of the values: `fitted` names them.
struct GpuModel {
  std::string name, summary;
  double bf16_tflops = 0, fp8_tflops = 0, f32_tflops = 0;  // the maker's dense figures, or what was measured; 0: not there
  double memory_gib = 0;
  double memory_bandwidth = 0;  // GB/s
  double multiprocessors = 0;
  double tile_us = 0;                                    // of a GEMM's tile besides its multiplications
  double launch_us = 0;                                  // of a kernel that another kernel of the stream precedes
  double bf16_share = 1, fp8_share = 1, copy_share = 1;  // of the peaks, that large GEMMs and copies reach
  std::vector<std::string> fitted;                       // which of these three the fit may change
};

struct Platform {
  std::string name, summary;
  GpuModel gpu;
  double gpus_per_node = 8;
  double nvlink_domain = 8;     // GPUs that NVLink connects
  double nvlink_bandwidth = 0;  // GB/s per GPU, one direction
  double nvlink_share = 0.8;    // of it, that large collectives reach
  double nvlink_latency_us = 0;
  double network_bandwidth = 0;  // GB/s per GPU, one direction
  double network_share = 0.8;
  double network_latency_us = 0;
  double oversubscription = 1;                      // of the switches above the first
  double price_per_gpu_hour = 0;                    // 0: not known
  std::shared_ptr<const MeasuredMachine> measured;  // null: its times are modelled
};

// The keys of the files, and where their values go.
std::vector<NumberKey> number_keys(GpuModel& gpu);
std::vector<NumberKey> number_keys(Platform& platform);

// By the name of a shipped file, or a path.
GpuModel load_gpu(const std::string& name_or_path);
Platform load_platform(const std::string& name_or_path);

}  // namespace trireme
