// The only place where a product meets a collective. A column-parallel layer holds rows of its weight [O/tp,I] and gives its part
// of the outputs; a row-parallel layer holds columns [O,I/tp] and its outputs are summed over the group. Forward and backward:
//
//                 forward                     backward
//   column        product                     product, then sum of d_x over the group
//   row           product, then sum of out    product
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"

namespace trireme {

class ParallelLinear {
 public:
  ParallelLinear(Backend& backend, Communicator& tp) : backend_(backend), tp_(tp) {}

  void column_forward(const LinearForward& op) const { backend_.run(kCompute, op); }
  void row_forward(LinearForward op) const {
    if (tp_.rank() != 0) op.bias = Tensor{};  // added once
    backend_.run(kCompute, op);
    tp_.all_reduce(kCompute, op.out, Reduce::sum);
  }

  void column_input_grad(const LinearInputGrad& op) const {
    backend_.run(kCompute, op);
    tp_.all_reduce(kCompute, op.d_x, Reduce::sum);
  }
  void row_input_grad(const LinearInputGrad& op) const { backend_.run(kCompute, op); }

  void weight_grad(const LinearWeightGrad& op) const { backend_.run(kCompute, op); }

 private:
  Backend& backend_;
  Communicator& tp_;
};

}  // namespace trireme
