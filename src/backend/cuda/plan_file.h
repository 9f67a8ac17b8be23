// The fastest algorithm of every product that was ever tuned on this GPU with this version of the library, as a file in the
// user's cache folder. A run that finds its plans there starts at once and repeats the bits of the run that made them.
#pragma once

#include <cublasLt.h>

#include <filesystem>
#include <map>
#include <string>

#include "backend/product.h"

namespace trireme::cuda {

class PlanFile {
 public:
  // TRIREME_CACHE, XDG_CACHE_HOME/trireme or ~/.cache/trireme; without any of them plans live as long as the program.
  explicit PlanFile(const std::string& device);

  const cublasLtMatmulAlgo_t* find(const Product& product) const;
  void add(const Product& product, const cublasLtMatmulAlgo_t& algorithm);  // and writes the file

 private:
  void read();
  void write() const;

  std::filesystem::path path_;  // empty: no file
  std::map<Product, cublasLtMatmulAlgo_t> plans_;
};

}  // namespace trireme::cuda
