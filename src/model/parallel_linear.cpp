#include "model/parallel_linear.h"

#include <algorithm>
#include <array>

namespace trireme {
namespace {

// Rows [begin, begin + count) of an operand that may be absent. FP8 copies are of all rows, so it has none.
Tensor rows_of(const Operand& operand, int64_t begin, int64_t count) {
  CHECK(!operand.fp8);
  return operand ? operand.tensor.rows(begin, count) : Tensor{};
}

// The GEMM of some rows of x, which may be elsewhere than among the others.
LinearForward forward_rows(const LinearForward& op, Tensor x, Tensor out, int64_t begin) {
  LinearForward part = op;
  part.x = x;
  part.pre = rows_of(op.pre, begin, x.shape[0]);
  part.out = out;
  return part;
}

LinearInputGrad input_grad(const LinearBackward& op, const Operand& d_out, const Operand& d_x) {
  return {.d_out = d_out, .weight = op.weight, .activation = op.activation, .pre = op.pre, .x = {}, .d_x = d_x};
}

}  // namespace

LinearWeightGrad ParallelLinear::weight_grad(const LinearBackward& op, const Operand& x, const Operand& d_out) const {
  return {.sum = options_.weight_grads, .x = x, .d_out = d_out, .d_weight = op.d_weight, .d_bias = op.d_bias};
}

void ParallelLinear::run_weight_grad(const LinearWeightGrad& op) const {
  if (options_.wgrad == Wgrad::with_dgrad) return backend_.run(kCompute, op);
  backend_.wait(kWgrad, backend_.record(kCompute, "operands_made"));
  backend_.run(kWgrad, op);
}

int64_t ParallelLinear::pieces_of(int64_t rows) { return std::min(kMostPieces, rows); }

ParallelLinear::Piece ParallelLinear::piece(int64_t rows, int64_t number) {
  const int64_t pieces = pieces_of(rows), begin = rows * number / pieces;
  return {begin, rows * (number + 1) / pieces - begin};
}

Tensor ParallelLinear::take_all_rows(const char* name, const Tensor& part) const {
  return take(name, {part.shape[0] * tp_.size(), part.shape[1]}, part.dtype);
}

Tensor ParallelLinear::all_rows(const Tensor& part) const {
  if (!cuts_rows()) return part;
  const Tensor all = take_all_rows("gathered_rows", part);
  tp_.all_gather(kCompute, part, all);
  return all;
}

Tensor ParallelLinear::row_sums(const Tensor& part) const { return cuts_rows() ? take_all_rows("row_sums", part) : part; }

void ParallelLinear::sum_rows(Tensor sums, Tensor part) const {
  if (cuts_rows())
    tp_.reduce_scatter(kCompute, sums, part, Reduce::sum);
  else
    tp_.all_reduce(kCompute, part, Reduce::sum);
}

Event ParallelLinear::start_gather(Tensor part, Tensor all) const {
  backend_.wait(kTensorParallel, backend_.record(kCompute, "rows_ready"));
  tp_.all_gather(kTensorParallel, part, all);
  return backend_.record(kTensorParallel, "rows_gathered");
}

Event ParallelLinear::start_sum(Tensor sums, Tensor part) const {
  backend_.wait(kTensorParallel, backend_.record(kCompute, "rows_made"));
  if (cuts_rows())
    tp_.reduce_scatter(kTensorParallel, sums, part, Reduce::sum);
  else
    tp_.all_reduce(kTensorParallel, part, Reduce::sum);
  return backend_.record(kTensorParallel, "rows_summed");
}

// A piece has some rows of every rank. In the buffer the pieces are one after the other, and in a piece the ranks.
template <class Gemm>
void ParallelLinear::for_gathered(Tensor part, Tensor gathered, const Gemm& gemm) const {
  const int64_t R = part.shape[0], ranks = tp_.size();
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    for (int64_t rank = 0; rank < ranks; ++rank)
      gemm(i, gathered.rows(ranks * p.begin + rank * p.count, p.count), rank * R + p.begin);
  }
}

template <class Gemm>
void ParallelLinear::gather_in_pieces(Tensor part, Tensor gathered, const Gemm& gemm) const {
  const int64_t R = part.shape[0], ranks = tp_.size();
  std::array<Event, kMostPieces> arrived;
  backend_.wait(kTensorParallel, backend_.record(kCompute, "rows_ready"));
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    tp_.all_gather(kTensorParallel, part.rows(p.begin, p.count), gathered.rows(ranks * p.begin, ranks * p.count));
    arrived[static_cast<size_t>(i)] = backend_.record(kTensorParallel, "piece_gathered");
  }
  int64_t waited = -1;
  for_gathered(part, gathered, [&](int64_t i, Tensor rows, int64_t begin) {
    if (i != waited) backend_.wait(kCompute, arrived[static_cast<size_t>(waited = i)]);
    gemm(rows, begin);
  });
}

void ParallelLinear::scatter_in_pieces(const LinearForward& op) const {
  const int64_t R = op.out.shape()[0], ranks = tp_.size();
  const Tensor all_sums = row_sums(op.out.tensor);
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    const Tensor sums = all_sums.rows(ranks * p.begin, ranks * p.count);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t begin = rank * R + p.begin;
      backend_.run(kCompute, forward_rows(op, rows_of(op.x, begin, p.count), sums.rows(rank * p.count, p.count), begin));
    }
    backend_.wait(kTensorParallel, backend_.record(kCompute, "piece_made"));
    tp_.reduce_scatter(kTensorParallel, sums, rows_of(op.out, p.begin, p.count), Reduce::sum);
  }
  backend_.wait(kCompute, backend_.record(kTensorParallel, "rows_summed"));
}

void ParallelLinear::sum_in_pieces(const LinearForward& op) const {
  const int64_t N = op.out.shape()[0];
  for (int64_t i = 0; i < pieces_of(N); ++i) {
    const Piece p = piece(N, i);
    const Tensor out = rows_of(op.out, p.begin, p.count);
    backend_.run(kCompute, forward_rows(op, rows_of(op.x, p.begin, p.count), out, p.begin));
    backend_.wait(kTensorParallel, backend_.record(kCompute, "piece_made"));
    tp_.all_reduce(kTensorParallel, out, Reduce::sum);
  }
  backend_.wait(kCompute, backend_.record(kTensorParallel, "rows_summed"));
}

void ParallelLinear::column_forward(LinearSite site, LinearForward op) const {
  if (cuts_rows() && in_pieces())
    return gather_in_pieces(op.x.tensor, take_all_rows("gathered_rows", op.x.tensor), [&](Tensor x, int64_t begin) {
      backend_.run(kCompute, forward_rows(op, x, rows_of(op.out, begin, x.shape[0]), begin));
    });
  if (cuts_rows()) op.x = quantized_input(site, all_rows(op.x.tensor));
  backend_.run(kCompute, op);
}

void ParallelLinear::row_forward(LinearForward op) const {
  if (tp_.rank() != 0) op.bias = Tensor{};  // added once
  if (in_pieces()) return cuts_rows() ? scatter_in_pieces(op) : sum_in_pieces(op);
  const Tensor part = op.out.tensor;
  if (cuts_rows()) op.out = row_sums(part);
  backend_.run(kCompute, op);
  sum_rows(op.out.tensor, part);
}

void ParallelLinear::column_backward(LinearSite site, const LinearBackward& op) const {
  const bool gathers = cuts_rows() && !defers_weight_grads();
  if (tp_.size() == 1) {
    backend_.run(kCompute, input_grad(op, op.d_out, op.d_x));
    if (!defers_weight_grads()) run_weight_grad(weight_grad(op, op.x, op.d_out));
    return;
  }
  const Tensor all_x = gathers ? take_all_rows("gathered_rows", op.x.tensor) : Tensor{}, sums = row_sums(op.d_x.tensor);
  const Event arrived = gathers ? start_gather(op.x.tensor, all_x) : Event{};
  backend_.run(kCompute, input_grad(op, op.d_out, sums));
  const Event summed = start_sum(sums, op.d_x.tensor);
  if (gathers) backend_.wait(kCompute, arrived);
  if (!defers_weight_grads())
    backend_.run(kCompute, weight_grad(op, gathers ? quantized_wgrad_input(site, all_x) : op.x, op.d_out));
  backend_.wait(kCompute, summed);
}

void ParallelLinear::row_backward_in_pieces(const LinearBackward& op) const {
  const auto add_weights = [&](Tensor d_out, int64_t begin) {
    LinearWeightGrad part = weight_grad(op, rows_of(op.x, begin, d_out.shape[0]), d_out);
    if (begin > 0) part.sum = GradSum::adds;  // the rows that arrive first are this group's first
    backend_.run(kCompute, part);
  };
  const auto write_inputs = [&](Tensor d_out, int64_t begin) {
    LinearInputGrad part = input_grad(op, d_out, rows_of(op.d_x, begin, d_out.shape[0]));
    part.pre = rows_of(op.pre, begin, d_out.shape[0]);
    backend_.run(kCompute, part);
  };
  const Tensor gathered = take_all_rows("gathered_rows", op.d_out.tensor);
  if (defers_weight_grads()) return gather_in_pieces(op.d_out.tensor, gathered, write_inputs);
  gather_in_pieces(op.d_out.tensor, gathered, add_weights);
  for_gathered(op.d_out.tensor, gathered, [&](int64_t, Tensor d_out, int64_t begin) { write_inputs(d_out, begin); });
}

// wgrad before dgrad, so that d_x may be written where x was.
void ParallelLinear::row_backward(LinearSite site, const LinearBackward& op) const {
  if (cuts_rows() && in_pieces()) return row_backward_in_pieces(op);
  const Operand d_out = cuts_rows() ? quantized_output_grad(op.d_out_site, all_rows(op.d_out.tensor)) : op.d_out;
  LinearInputGrad inputs = input_grad(op, d_out, op.d_x);
  if (!op.x) {
    CHECK(!defers_weight_grads());
    inputs.x = wgrad_input(site, take("activated", op.pre.shape, op.pre.dtype));
    backend_.run(kCompute, inputs);
    return backend_.run(kCompute, weight_grad(op, inputs.x, d_out));
  }
  if (!defers_weight_grads()) run_weight_grad(weight_grad(op, op.x, d_out));
  backend_.run(kCompute, inputs);
}

void ParallelLinear::column_weight_grad(LinearSite site, LinearWeightGrad op) const {
  if (cuts_rows()) op.x = quantized_wgrad_input(site, all_rows(op.x.tensor));
  op.sum = options_.weight_grads;
  backend_.run(kCompute, op);
}

void ParallelLinear::row_weight_grad(LinearSite site, LinearWeightGrad op) const {
  op.sum = options_.weight_grads;
  if (cuts_rows()) op.d_out = quantized_output_grad(site, all_rows(op.d_out.tensor));
  backend_.run(kCompute, op);
}

}  // namespace trireme
