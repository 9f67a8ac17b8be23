// The only place where a product meets a collective. A column-parallel layer holds rows of its weight [O/tp,I] and gives its part
// of the outputs; a row-parallel layer holds columns [O,I/tp] and its outputs are summed over the group. With sequence
// parallelism (SP) the residual stream, which is the input of the one and the output of the other, lies as [R,C] = [N/tp,C] on
// each rank:
//
//                 forward                                 backward
//   column        (SP: gather x) product                  product, sum of d_x (SP: scattered); (SP: gather x) weight product
//   row           product, sum of out (SP: scattered)     (SP: gather d_out) product, weight product
//
// In backward of a column-parallel layer, the gather goes on during the first product and the sum during the second. With
// TensorOverlap::pieces the other gathers and sums are cut into pieces too, each of which goes on during the product of another.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"

namespace trireme {

// All N rows of what the ranks hold R rows of each: gathered, or not yet summed. Only with sequence parallelism.
struct RowBuffers {
  Tensor gathered, sums;  // [N,C]
};

// When the gradients of weights are made: with the other gradients; beside them, on a stream of their own; or later, by the
// weight_grad calls.
enum class WeightProducts : uint8_t { now, beside, later };
// Whether the input of a row-parallel layer is there in backward, or made from what its gradient reads too, activation(pre).
enum class ActivatedInput : uint8_t { kept, made_again };
enum class TensorOverlap : uint8_t { whole, pieces };

struct LinearBackward {
  Operand x, d_out, weight;
  Activation activation = Activation::none;  // that x came out of
  Tensor pre;
  ActivatedInput input = ActivatedInput::kept;
  Operand d_x;
  Tensor d_weight;
  Tensor d_bias;  // optional
};

class ParallelLinear {
 public:
  struct Options {
    RowBuffers rows;
    WeightProducts weight_products = WeightProducts::now;
    TensorOverlap overlap = TensorOverlap::whole;
    GradSum weight_grads = GradSum::adds;  // what the gradients of weights do with what is there
  };
  ParallelLinear(Backend& backend, Communicator& tp) : ParallelLinear(backend, tp, Options{}) {}
  ParallelLinear(Backend& backend, Communicator& tp, const Options& options) : backend_(backend), tp_(tp), options_(options) {
    CHECK(tp.size() == 1 || options.weight_products != WeightProducts::beside);  // what is gathered for them does not stay
  }

  void column_forward(LinearForward op) const;
  void row_forward(LinearForward op) const;
  void column_backward(const LinearBackward& op) const;
  void row_backward(const LinearBackward& op) const;
  // The weight products alone.
  void column_weight_grad(LinearWeightGrad op) const;
  void row_weight_grad(LinearWeightGrad op) const;

  GradSum weight_grads() const { return options_.weight_grads; }

  // What the op that makes this rank's rows of a linear layer's input, or of the gradient of its output, is to write: with
  // sequence parallelism FP8 copies are made of all rows, when they have been gathered.
  Operand written(const Operand& part) const { return cuts_rows() ? Operand(static_cast<const Tensor&>(part)) : part; }

  // For the two ends of the model, which are cut over the vocabulary. Without sequence parallelism a rank holds all rows.
  Operand all_rows(const Operand& part) const;    // what all ranks hold of it, [N,C], and its FP8 copies
  Tensor row_sums(Tensor part) const;             // where the rows of `part` can be made that are still to be summed, [N,C]
  void sum_rows(Tensor sums, Tensor part) const;  // sums them over the group

 private:
  struct Piece {
    int64_t begin = 0, count = 0;  // rows
  };

  bool cuts_rows() const { return static_cast<bool>(options_.rows.gathered); }
  bool in_pieces() const { return options_.overlap == TensorOverlap::pieces && tp_.size() > 1; }
  LinearWeightGrad weight_grad(const LinearBackward& op, const Operand& x, const Operand& d_out) const;
  void run_weight_grad(const LinearWeightGrad& op) const;  // whose operands the compute stream has made
  static int64_t pieces_of(int64_t rows);
  static Piece piece(int64_t rows, int64_t number);
  // Calls product(rows gathered, where they are among the N rows) for all of them, as they come.
  template <class Product>
  void gather_in_pieces(Tensor part, const Product& product) const;
  template <class Product>
  void for_gathered(Tensor part, const Product& product) const;
  void sum_in_pieces(const LinearForward& op) const;
  void scatter_in_pieces(const LinearForward& op) const;
  // What was gathered, with the copies that `part` is to have.
  Operand gathered(const Operand& part) const;
  Event start_gather(Tensor part) const;
  Event start_sum(Tensor sums, Tensor part) const;

  Backend& backend_;
  Communicator& tp_;
  Options options_;
};

}  // namespace trireme
