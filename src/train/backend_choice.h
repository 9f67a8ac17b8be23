// What a run computes on, and why: trainer.backend and the GPUs that its ranks see.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda_module.h"
#include "comm/device_choice.h"
#include "config/settings.h"

namespace trireme {

struct BackendChoice {
  BackendKind kind = BackendKind::cpu;  // never automatic
  std::string reason;                   // "no GPU was found"
  std::string warning;                  // of GPUs that stay unused, with the setting that would use them; empty: none does

  std::string text() const;  // "cpu: no GPU was found"
};

// `offers` by rank; `obstacle` says why this process sees no GPU.
BackendChoice choose_backend(BackendKind asked, const std::vector<DeviceOffer>& offers, const GpuObstacle& obstacle);

}  // namespace trireme
