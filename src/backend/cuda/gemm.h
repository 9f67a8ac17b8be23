// GEMMs by cuBLASLt. The GEMM algorithm for a shape is found once and kept in memory and in a file. So the next run of the same
// program on the same GPU starts with the same algorithms and gives the same bits.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "backend/cuda/gemm_plan.h"
#include "backend/cuda/plan_file.h"

namespace trireme::cuda {

class Gemm {
 public:
  explicit Gemm(const std::string& device);
  ~Gemm();

  void run(GemmShape shape, const GemmOperands& operands, void* workspace, cudaStream_t stream);

  // Keeps several GEMM algorithms per shape, for a caller that compares them in use. From now on all GEMMs are tuned, and
  // algorithms nearly as fast as the first one are kept as finalists. Finalist 0 is the fastest, or the one known from an earlier
  // run.
  void keep_finalists() { keeps_finalists_ = true; }
  int finalists(const GemmShape& shape) const { return narrow<int>(std::ssize(plans_.at(shape)->finalists)); }
  void use_finalist(const GemmShape& shape, int finalist);
  void keep(const GemmShape& shape, int finalist);  // uses it from now on, in later runs too
  const std::set<GemmShape>& used() const { return used_; }
  void forget_used() { used_.clear(); }

 private:
  void announce_tuning(const GemmShape& shape);  // once, for GEMMs so large that tuning takes seconds
  void tune(GemmPlan& plan, const GemmShape& shape, const GemmOperands& operands, const GemmPlace& where);
  GemmPlan& plan_for(const GemmShape& shape, const GemmOperands& operands, const GemmPlace& where);

  std::string device_;
  bool announced_ = false, keeps_finalists_ = false;
  cublasLtHandle_t handle_ = nullptr;
  PlanFile file_;
  std::map<GemmShape, std::unique_ptr<GemmPlan>> plans_;
  std::set<GemmShape> used_;  // since forget_used(), if finalists are kept
};

}  // namespace trireme::cuda
