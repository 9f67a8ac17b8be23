#include "model/parallel_linear.h"

#include <algorithm>

namespace trireme {
namespace {

// Rows [begin, begin + count) of an operand that may be absent.
Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t count) { return tensor ? tensor.rows(begin, count) : Tensor{}; }

// The product of some rows of x, which may lie elsewhere than among the others.
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
  if (options_.weight_products == WeightProducts::now) return backend_.run(kCompute, op);
  backend_.wait(kWeightProducts, backend_.record(kCompute, "operands_made"));
  backend_.run(kWeightProducts, op);
}

int64_t ParallelLinear::pieces_of(int64_t rows) {
  constexpr int64_t kMostPieces = 4;  // what the reference systems cut into
  return std::min(kMostPieces, rows);
}

ParallelLinear::Piece ParallelLinear::piece(int64_t rows, int64_t number) {
  const int64_t pieces = pieces_of(rows), begin = rows * number / pieces;
  return {begin, rows * (number + 1) / pieces - begin};
}

Operand ParallelLinear::all_rows(const Operand& part) const {
  if (!cuts_rows()) return part;
  tp_.all_gather(kCompute, part, options_.rows.gathered);
  return gathered(part);
}

Operand ParallelLinear::gathered(const Operand& part) const {
  const Operand all(options_.rows.gathered, part.fp8, Wide::kept);
  if (all.fp8) backend_.run(kCompute, Quantise{.x = all});
  return all;
}

Tensor ParallelLinear::row_sums(Tensor part) const { return cuts_rows() ? options_.rows.sums : part; }

void ParallelLinear::sum_rows(Tensor sums, Tensor part) const {
  if (cuts_rows())
    tp_.reduce_scatter(kCompute, sums, part, Reduce::sum);
  else
    tp_.all_reduce(kCompute, part, Reduce::sum);
}

Event ParallelLinear::start_gather(Tensor part) const {
  backend_.wait(kTensorParallel, backend_.record(kCompute, "rows_ready"));
  tp_.all_gather(kTensorParallel, part, options_.rows.gathered);
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

// A piece has some rows of every rank. In the buffer the pieces lie one after the other, and in a piece the ranks.
template <class Product>
void ParallelLinear::for_gathered(Tensor part, const Product& product) const {
  const int64_t R = part.shape[0], ranks = tp_.size();
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    for (int64_t rank = 0; rank < ranks; ++rank)
      product(i, options_.rows.gathered.rows(ranks * p.begin + rank * p.count, p.count), rank * R + p.begin);
  }
}

template <class Product>
void ParallelLinear::gather_in_pieces(Tensor part, const Product& product) const {
  const int64_t R = part.shape[0], ranks = tp_.size();
  Event gathered[4];
  backend_.wait(kTensorParallel, backend_.record(kCompute, "rows_ready"));
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    tp_.all_gather(kTensorParallel, part.rows(p.begin, p.count), options_.rows.gathered.rows(ranks * p.begin, ranks * p.count));
    gathered[i] = backend_.record(kTensorParallel, "piece_gathered");
  }
  int64_t waited = -1;
  for_gathered(part, [&](int64_t i, Tensor rows, int64_t begin) {
    if (i != waited) backend_.wait(kCompute, gathered[waited = i]);
    product(rows, begin);
  });
}

void ParallelLinear::scatter_in_pieces(const LinearForward& op) const {
  const int64_t R = op.out.shape[0], ranks = tp_.size();
  for (int64_t i = 0; i < pieces_of(R); ++i) {
    const Piece p = piece(R, i);
    const Tensor sums = options_.rows.sums.rows(ranks * p.begin, ranks * p.count);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t begin = rank * R + p.begin;
      backend_.run(kCompute, forward_rows(op, op.x.rows(begin, p.count), sums.rows(rank * p.count, p.count), begin));
    }
    backend_.wait(kTensorParallel, backend_.record(kCompute, "piece_made"));
    tp_.reduce_scatter(kTensorParallel, sums, op.out.rows(p.begin, p.count), Reduce::sum);
  }
  backend_.wait(kCompute, backend_.record(kTensorParallel, "rows_summed"));
}

void ParallelLinear::sum_in_pieces(const LinearForward& op) const {
  const int64_t N = op.out.shape[0];
  for (int64_t i = 0; i < pieces_of(N); ++i) {
    const Piece p = piece(N, i);
    const Tensor out = op.out.rows(p.begin, p.count);
    backend_.run(kCompute, forward_rows(op, op.x.rows(p.begin, p.count), out, p.begin));
    backend_.wait(kTensorParallel, backend_.record(kCompute, "piece_made"));
    tp_.all_reduce(kTensorParallel, out, Reduce::sum);
  }
  backend_.wait(kCompute, backend_.record(kTensorParallel, "rows_summed"));
}

void ParallelLinear::column_forward(LinearForward op) const {
  if (cuts_rows() && in_pieces())
    return gather_in_pieces(op.x, [&](Tensor x, int64_t begin) {
      backend_.run(kCompute, forward_rows(op, x, op.out.rows(begin, x.shape[0]), begin));
    });
  op.x = all_rows(op.x);
  backend_.run(kCompute, op);
}

void ParallelLinear::row_forward(LinearForward op) const {
  if (tp_.rank() != 0) op.bias = Tensor{};  // added once
  if (in_pieces()) return cuts_rows() ? scatter_in_pieces(op) : sum_in_pieces(op);
  const Tensor part = op.out;
  if (cuts_rows()) op.out = row_sums(part);
  backend_.run(kCompute, op);
  sum_rows(op.out, part);
}

void ParallelLinear::column_backward(const LinearBackward& op) const {
  const bool puts_off = options_.weight_products == WeightProducts::later, gathers = cuts_rows() && !puts_off;
  const Tensor sums = row_sums(op.d_x);
  if (tp_.size() == 1) {
    backend_.run(kCompute, input_grad(op, op.d_out, op.d_x));
    if (!puts_off) run_weight_grad(weight_grad(op, op.x, op.d_out));
    return;
  }
  const Event arrived = gathers ? start_gather(op.x) : Event{};
  backend_.run(kCompute, input_grad(op, op.d_out, sums));
  const Event summed = start_sum(sums, op.d_x);
  if (gathers) backend_.wait(kCompute, arrived);
  if (!puts_off) backend_.run(kCompute, weight_grad(op, gathers ? gathered(op.x) : op.x, op.d_out));
  backend_.wait(kCompute, summed);
}

void ParallelLinear::row_backward(const LinearBackward& op) const {
  const bool puts_off = options_.weight_products == WeightProducts::later;
  // Weight products first: d_x may take the place of x.
  if (cuts_rows() && in_pieces()) {
    const auto add_weights = [&](Tensor d_out, int64_t begin) {
      LinearWeightGrad part = weight_grad(op, op.x.rows(begin, d_out.shape[0]), d_out);
      if (begin > 0) part.sum = GradSum::adds;  // the rows that come first are this group's first
      backend_.run(kCompute, part);
    };
    const auto write_inputs = [&](Tensor d_out, int64_t begin) {
      LinearInputGrad part = input_grad(op, d_out, op.d_x.rows(begin, d_out.shape[0]));
      part.pre = rows_of(op.pre, begin, d_out.shape[0]);
      backend_.run(kCompute, part);
    };
    if (puts_off) return gather_in_pieces(op.d_out, write_inputs);
    gather_in_pieces(op.d_out, add_weights);
    return for_gathered(op.d_out, [&](int64_t, Tensor d_out, int64_t begin) { write_inputs(d_out, begin); });
  }
  const Operand d_out = all_rows(op.d_out);
  LinearInputGrad inputs = input_grad(op, d_out, op.d_x);
  if (op.input == ActivatedInput::made_again) {
    CHECK(!puts_off);
    inputs.x = op.x;
    backend_.run(kCompute, inputs);
    return backend_.run(kCompute, weight_grad(op, op.x, d_out));
  }
  if (!puts_off) run_weight_grad(weight_grad(op, op.x, d_out));
  backend_.run(kCompute, inputs);
}

void ParallelLinear::column_weight_grad(LinearWeightGrad op) const {
  op.x = all_rows(op.x);
  op.sum = options_.weight_grads;
  backend_.run(kCompute, op);
}

void ParallelLinear::row_weight_grad(LinearWeightGrad op) const {
  op.sum = options_.weight_grads;
  op.d_out = all_rows(op.d_out);
  backend_.run(kCompute, op);
}

}  // namespace trireme
