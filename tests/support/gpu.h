// For tests that run where a GPU is.
#pragma once

#include <gtest/gtest.h>

#include "backend/cuda_module.h"
#include "support/skip.h"

#define SKIP_WITHOUT_GPU() \
  if (cuda_device_count() == 0) SKIP_FOR(gpu) << "there is no GPU, or no CUDA backend in this build"
