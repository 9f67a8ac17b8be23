// Finds the algorithm of a GEMM by running it on its real operands, with the result in separate memory.
#pragma once

#include "backend/cuda/gemm_plan.h"

namespace trireme::cuda {

// Returns the fastest of the library's candidates and their variants, the fastest first.
std::vector<cublasLtMatmulAlgo_t> tuned_algorithms(GemmPlan& plan, const GemmShape& shape, const GemmOperands& operands,
                                                   const GemmPlace& where);

}  // namespace trireme::cuda
