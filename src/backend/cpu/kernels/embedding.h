// Kernels of the embedding: gather rows, and add gradients to them.
#pragma once

#include "backend/cpu/kernels/pointwise_arguments.h"

namespace trireme::cpu {

struct EmbeddingForwardArguments {
  int64_t width = 0;                         // C
  int64_t first_token = 0, token_count = 0;  // this rank's part of the table
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  const void* word = nullptr;
  const void* position = nullptr;  // null: absent
  DropoutArguments dropout;
  void* out = nullptr;
};

struct EmbeddingBackwardArguments {
  int64_t rows = 0;                          // N
  int64_t width = 0;                         // C
  int64_t first_token = 0, token_count = 0;  // this rank's part of the table
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  DropoutArguments dropout;
  const void* d_out = nullptr;
  float* d_word = nullptr;
  float* d_position = nullptr;  // null: absent
};

struct EmbeddingKernels {
  // Rows [begin, end).
  PerDType<void (*)(const EmbeddingForwardArguments&, int64_t begin, int64_t end)> forward;
  // Columns [begin, end) of every row, in the order of the rows. begin is a multiple of 64, the number of dropout draws per call.
  PerDType<void (*)(const EmbeddingBackwardArguments&, int64_t begin, int64_t end)> backward;
};
TRIREME_DECLARE_KERNELS(EmbeddingKernels, embedding_kernels)

}  // namespace trireme::cpu
