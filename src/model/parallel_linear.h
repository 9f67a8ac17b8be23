// The only place where a GEMM meets a collective. A column-parallel layer holds rows of its weight [O/tp,I] and gives its part
// of the outputs; a row-parallel layer holds columns [O,I/tp] and its outputs are summed over the group. With sequence
// parallelism (SP) the residual stream, which is the input of the one and the output of the other, is [R,C] = [N/tp,C] on
// each rank:
//
//                 forward                                 backward
//   column        (SP: gather x) GEMM                     dgrad, sum of d_x (SP: scattered); (SP: gather x) wgrad
//   row           GEMM, sum of out (SP: scattered)        (SP: gather d_out) dgrad, wgrad
//
// In backward of a column-parallel layer, the gather overlaps dgrad and the sum overlaps wgrad. With TensorOverlap::pieces the
// other gathers and sums are cut into pieces too, each of which overlaps the GEMM of another.
#pragma once

#include "comm/communicator.h"
#include "model/linear_operands.h"

namespace trireme {

// When wgrad runs: with dgrad; concurrent with it, on a stream of its own; or later, by the weight_grad calls.
enum class Wgrad : uint8_t { with_dgrad, concurrent, deferred };
enum class TensorOverlap : uint8_t { whole, pieces };

struct LinearBackward {
  Operand x;  // absent: it is activation(pre), and made again
  Operand d_out, weight;
  LinearSite d_out_site;                     // whose scale d_out has: two branches may have one gradient
  Activation activation = Activation::none;  // that x came out of
  Tensor pre;
  Operand d_x;
  Tensor d_weight;
  Tensor d_bias;  // optional
};

class ParallelLinear : public LinearOperands {
 public:
  struct Options {
    LinearOperands::Options operands;
    Wgrad wgrad = Wgrad::with_dgrad;
    TensorOverlap overlap = TensorOverlap::whole;
    GradSum weight_grads = GradSum::adds;  // what wgrad does with the values that are there
  };
  ParallelLinear(Backend& backend, Communicator& tp, TensorSource& memory, const Options& options)
      : LinearOperands(backend, memory, options.operands), tp_(tp), options_(options) {
    CHECK(tp.size() == 1 || options.wgrad != Wgrad::concurrent);
  }

  void column_forward(LinearSite site, LinearForward op) const;
  void row_forward(LinearForward op) const;
  void column_backward(LinearSite site, const LinearBackward& op) const;
  void row_backward(LinearSite site, const LinearBackward& op) const;
  // wgrad alone.
  void column_weight_grad(LinearSite site, LinearWeightGrad op) const;
  void row_weight_grad(LinearSite site, LinearWeightGrad op) const;

  GradSum weight_grads() const { return options_.weight_grads; }
  bool defers_weight_grads() const { return options_.wgrad == Wgrad::deferred; }

  // For the two ends of the model, which are cut over the vocabulary. Without sequence parallelism a rank holds all rows.
  Tensor all_rows(const Tensor& part) const;      // what all ranks hold of it, [N,C]
  Tensor row_sums(const Tensor& part) const;      // where the rows of `part` can be made that are still to be summed, [N,C]
  void sum_rows(Tensor sums, Tensor part) const;  // sums them over the group

 private:
  struct Piece {
    int64_t begin = 0, count = 0;  // rows
  };
  static constexpr int64_t kMostPieces = 4;  // what the reference systems cut into

  bool in_pieces() const { return options_.overlap == TensorOverlap::pieces && tp_.size() > 1; }
  Tensor take_all_rows(const char* name, const Tensor& part) const;
  LinearWeightGrad weight_grad(const LinearBackward& op, const Operand& x, const Operand& d_out) const;
  void run_weight_grad(const LinearWeightGrad& op) const;  // whose operands the compute stream has made
  void row_backward_in_pieces(const LinearBackward& op) const;
  static int64_t pieces_of(int64_t rows);
  static Piece piece(int64_t rows, int64_t number);
  // Calls gemm(rows gathered, where they are among the N rows) for all of them, as they arrive in `gathered`.
  template <class Gemm>
  void gather_in_pieces(Tensor part, Tensor gathered, const Gemm& gemm) const;
  template <class Gemm>
  void for_gathered(Tensor part, Tensor gathered, const Gemm& gemm) const;
  void sum_in_pieces(const LinearForward& op) const;
  void scatter_in_pieces(const LinearForward& op) const;
  Event start_gather(Tensor part, Tensor all) const;
  Event start_sum(Tensor sums, Tensor part) const;

  Communicator& tp_;
  Options options_;
};

}  // namespace trireme
