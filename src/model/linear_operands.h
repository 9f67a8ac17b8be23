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

// The operands for computing the output of a norm again: its parameters, and the sum and statistics that forward saved.
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

  // Return `wide` with memory for the FP8 copies that its readers want; the op that writes the operand fills them. With copies,
  // `wide` itself holds nothing afterwards unless it is kept.
  Operand input(LinearSite site, const Tensor& wide, Wide keep = Wide::scratch) const;
  Operand wgrad_input(LinearSite site, const Tensor& wide) const;
  Operand output_grad(LinearSite site, const Tensor& wide, Wide keep = Wide::scratch) const;

  // Return the same for a tensor that is already written, as a matrix, with the copies filled.
  Operand quantized_input(LinearSite site, const Tensor& wide) const;
  Operand quantized_wgrad_input(LinearSite site, const Tensor& wide) const;
  Operand quantized_output_grad(LinearSite site, const Tensor& wide) const;
  // For a matrix that a GEMM and its wgrad read in the same pass.
  Operand quantized_for_both(LinearSite site, const Tensor& wide) const;

  // Computes the input of a column-parallel layer again, for wgrad: equal bits.
  Operand normed_again(LinearSite site, const char* name, const NormAgain& norm) const;

  // Whether forward keeps the inputs for backward. If not, backward computes them again into wgrad_input().
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
  Operand filled(const Operand& operand) const;  // runs Quantize
  bool is_cut_input(LinearSite site) const { return cuts_rows() && site.is_column_parallel(); }
  bool is_cut_output_grad(LinearSite site) const { return cuts_rows() && !site.is_column_parallel(); }

  TensorSource& memory_;
  Options options_;
};

}  // namespace trireme
