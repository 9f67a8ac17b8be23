// Finds the algorithm of a product by running it, on its own operands but with the result in memory of its own.
#pragma once

#include "backend/cuda/gemm_plan.h"

namespace trireme::cuda {

// The fastest of the library's candidates and of close relatives of the best of them, the fastest first.
std::vector<cublasLtMatmulAlgo_t> tuned_algorithms(GemmPlan& plan, const Product& product, const ProductOperands& operands,
                                                   const GemmPlace& where);

}  // namespace trireme::cuda
