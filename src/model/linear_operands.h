// What linear layers read, as their producers are to write it: tensors, and with FP8 the quantized copies that GEMMs read in
// their place. Forward's GEMM reads its input along the rows, wgrad along the columns, dgrad and wgrad read the output gradient
// along both. Each pass makes the copies it needs and nothing more; none is kept from forward to backward.
//
// With sequence parallelism (SP) the input of a column-parallel layer and the output gradient of a row-parallel one are [R,C] of
// the N rows. Their copies are made after the gather, by ParallelLinear.
#pragma once

#include "backend/backend.h"
#include "model/dims.h"
#include "model/fp8_state.h"

namespace trireme {

// What is needed to make the output of a norm again: what its forward left behind.
struct NormAgain {
  NormKind kind = NormKind::layernorm;
  float epsilon = 0;
  Tensor sum, weight, bias, mean, rstd;
};

class LinearOperands {
 public:
  struct Options {
    const Fp8State* fp8 = nullptr;  // null without FP8
    bool cuts_rows = false;         // with sequence parallelism
    bool one_at_a_time = true;      // a micro-batch goes backward before the next goes forward
  };
  LinearOperands(Backend& backend, TensorSource& memory, const Options& options)
      : backend_(backend), memory_(memory), options_(options) {}

  // `wide` with the copies that its readers want, for the op that writes it to fill. With FP8 copies, `wide` itself holds nothing
  // afterwards unless it is kept.
  Operand input(LinearSite site, const Tensor& wide, Wide keep = Wide::scratch) const;
  Operand wgrad_input(LinearSite site, const Tensor& wide) const;
  Operand output_grad(LinearSite site, const Tensor& wide, Wide keep = Wide::scratch) const;

  // The same of a tensor that is written already, as a matrix.
  Operand quantized_input(LinearSite site, const Tensor& wide) const;
  Operand quantized_wgrad_input(LinearSite site, const Tensor& wide) const;
  Operand quantized_output_grad(LinearSite site, const Tensor& wide) const;
  // Of a matrix that is the input of a GEMM and of its wgrad in the same pass.
  Operand quantized_for_both(LinearSite site, const Tensor& wide) const;

  // The input of a column-parallel layer again, for wgrad: equal bits.
  Operand normed_again(LinearSite site, const char* name, const NormAgain& norm) const;

  // Whether inputs are still there in backward. If not, wgrad_input makes them again.
  bool keeps_inputs() const { return options_.fp8 == nullptr; }

 protected:
  bool cuts_rows() const { return options_.cuts_rows; }
  bool has_copies(LinearSite site) const { return options_.fp8 != nullptr && options_.fp8->has(site); }
  Tensor take(const char* name, const Shape& shape, DType dtype) const { return memory_.take(name, shape, dtype); }

  Backend& backend_;

 private:
  enum class Copies : uint8_t { rows, columns, both, both_and_sums };
  Operand with_copies(const Tensor& wide, DType dtype, Copies which, Wide keep) const;
  Operand input_copies(LinearSite site, const Tensor& wide, Copies which, Wide keep) const;
  Operand output_grad_copies(LinearSite site, const Tensor& wide, Wide keep) const;
  Operand filled(const Operand& operand) const;
  bool is_cut_input(LinearSite site) const { return cuts_rows() && site.is_column_parallel(); }
  bool is_cut_output_grad(LinearSite site) const { return cuts_rows() && !site.is_column_parallel(); }

  TensorSource& memory_;
  Options options_;
};

}  // namespace trireme
