// The fastest algorithm of every GEMM that was tuned on this GPU with this version of the library, as a file in the user's cache
// folder. A run that finds its algorithms there starts without tuning and repeats the bits of the run that tuned them.
#pragma once

#include <cublasLt.h>

#include <filesystem>
#include <map>
#include <string>

#include "backend/gemm_shape.h"

namespace trireme::cuda {

class PlanFile {
 public:
  // The folder is TRIREME_CACHE, XDG_CACHE_HOME/trireme or ~/.cache/trireme. Without any of them algorithms are not kept after
  // the program ends.
  explicit PlanFile(const std::string& device);

  const cublasLtMatmulAlgo_t* find(const GemmShape& shape) const;
  void add(const GemmShape& shape, const cublasLtMatmulAlgo_t& algorithm);  // also writes the file

 private:
  void read();
  void write() const;

  std::filesystem::path path_;  // empty: no file
  std::map<GemmShape, cublasLtMatmulAlgo_t> plans_;
};

}  // namespace trireme::cuda
