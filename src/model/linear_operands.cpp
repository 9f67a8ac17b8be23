#include "model/linear_operands.h"

namespace trireme {
namespace {

// Backward quantizes the values that forward did, so the scale is there already.
constexpr Fp8Scaling kAsInForward = Fp8Scaling::delayed;

// A tensor as the matrix that a linear layer sees: packed heads are [B,T,*,D].
struct MatrixShape {
  int64_t rows = 0, columns = 0;
  explicit MatrixShape(const Tensor& tensor)
      : rows(tensor.shape.rank() == 4 ? tensor.shape[0] * tensor.shape[1] : tensor.shape[0]), columns(tensor.count() / rows) {}
};

}  // namespace

Operand LinearOperands::with_copies(const Tensor& wide, DType dtype, Copies which, Wide keep) const {
  const MatrixShape matrix(wide);
  Operand operand(wide, {}, keep);
  if (which != Copies::columns) operand.fp8.values = take("fp8_values", {matrix.rows, matrix.columns}, dtype);
  if (which != Copies::rows) operand.fp8.transposed = take("fp8_transposed", {matrix.columns, matrix.rows}, dtype);
  if (which == Copies::both_and_sums)
    operand.fp8.column_sums = take("fp8_column_sums", {ceil_div(matrix.rows, Fp8Copy::kSumRows), matrix.columns}, DType::f32);
  return operand;
}

Operand LinearOperands::input_copies(LinearSite site, const Tensor& wide, Copies which, Wide keep) const {
  Operand operand = with_copies(wide, options_.fp8->input_dtype(), which, keep);
  options_.fp8->assign_input(site, operand.fp8);
  return operand;
}

Operand LinearOperands::output_grad_copies(LinearSite site, const Tensor& wide, Wide keep) const {
  const Copies which = site.is_head() ? Copies::both : Copies::both_and_sums;  // sums are for the gradient of a bias
  Operand operand = with_copies(wide, options_.fp8->output_grad_dtype(), which, keep);
  options_.fp8->assign_output_grad(site, operand.fp8);
  return operand;
}

Operand LinearOperands::filled(const Operand& operand) const {
  const MatrixShape matrix(operand.tensor);
  const Operand result = operand.reshaped({matrix.rows, matrix.columns});
  backend_.run(kCompute, Quantize{.x = result});
  return result;
}

Operand LinearOperands::input(LinearSite site, const Tensor& wide, Wide keep) const {
  if (!has_copies(site) || is_cut_input(site)) return wide;
  return input_copies(site, wide, Copies::rows, keep);
}

Operand LinearOperands::wgrad_input(LinearSite site, const Tensor& wide) const {
  if (!has_copies(site) || is_cut_input(site)) return wide;
  Operand operand = input_copies(site, wide, Copies::columns, Wide::scratch);
  if (options_.one_at_a_time) operand.fp8.scaling = &kAsInForward;
  return operand;
}

Operand LinearOperands::output_grad(LinearSite site, const Tensor& wide, Wide keep) const {
  if (!has_copies(site) || is_cut_output_grad(site)) return wide;
  return output_grad_copies(site, wide, keep);
}

Operand LinearOperands::quantized_input(LinearSite site, const Tensor& wide) const {
  return has_copies(site) ? filled(input_copies(site, wide, Copies::rows, Wide::kept)) : Operand(wide);
}

Operand LinearOperands::quantized_wgrad_input(LinearSite site, const Tensor& wide) const {
  if (!has_copies(site)) return wide;
  Operand operand = input_copies(site, wide, Copies::columns, Wide::kept);
  if (options_.one_at_a_time) operand.fp8.scaling = &kAsInForward;
  return filled(operand);
}

Operand LinearOperands::quantized_for_both(LinearSite site, const Tensor& wide) const {
  return has_copies(site) ? filled(input_copies(site, wide, Copies::both, Wide::kept)) : Operand(wide);
}

Operand LinearOperands::quantized_output_grad(LinearSite site, const Tensor& wide) const {
  return has_copies(site) ? filled(output_grad_copies(site, wide, Wide::kept)) : Operand(wide);
}

Operand LinearOperands::normed_again(LinearSite site, const char* name, const NormAgain& norm) const {
  const Operand out = wgrad_input(site, take(name, norm.sum.shape, norm.sum.dtype));
  if (out.fp8)
    backend_.run(kCompute, QuantizeNorm{.kind = norm.kind,
                                        .sum = norm.sum,
                                        .weight = norm.weight,
                                        .bias = norm.bias,
                                        .mean = norm.mean,
                                        .rstd = norm.rstd,
                                        .out = out});
  else
    backend_.run(kCompute, ResidualNormForward{.kind = norm.kind,
                                               .epsilon = norm.epsilon,
                                               .residual = norm.sum,
                                               .weight = norm.weight,
                                               .bias = norm.bias,
                                               .out = out,
                                               .mean = norm.mean,
                                               .rstd = norm.rstd});
  return out;
}

}  // namespace trireme
