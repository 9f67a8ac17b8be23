// Ops without sums: residual adds, dropout and activations. Each is a body that computes one pack of elements; for_each_pack runs
// it over all packs.
#include "backend/cuda/activation.cuh"
#include "backend/cuda/quantize.h"

namespace trireme {
namespace cuda {
namespace {

// ------------------------------------------------------------------------------------------------ residual and dropout

template <class T, bool kDropout>
struct AddBranches {
  const T *residual, *branch, *branch2;  // branch2 may be null
  DropoutArguments dropout, dropout2;
  int64_t C;
  T* sum;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const Pack<T, W> base = Pack<T, W>::load_once(residual + i), first = Pack<T, W>::load_once(branch + i);
    Pack<T, W> second;
    if (branch2) second = Pack<T, W>::load_once(branch2 + i);
    float total[W];
#pragma unroll
    for (int k = 0; k < W; ++k) total[k] = base[k];
    add(total, first, dropout, i);
    if (branch2) add(total, second, dropout2, i);
    Pack<T, W> out;
#pragma unroll
    for (int k = 0; k < W; ++k) out.set(k, total[k]);
    out.store(sum + i);
  }

 private:
  template <int W>
  __device__ void add(float (&total)[W], const Pack<T, W>& values, const DropoutArguments& how, int64_t i) const {
    float factors[W];
    if (kDropout && how.active()) {
      how.factors(i / C, i % C, factors);
    } else {
#pragma unroll
      for (int k = 0; k < W; ++k) factors[k] = 1;
    }
#pragma unroll
    for (int k = 0; k < W; ++k) total[k] += values[k] * factors[k];
  }
};

template <class T>
struct DropElements {
  const T* from;
  DropoutArguments dropout;
  int64_t C;
  T* to;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const Pack<T, W> values = Pack<T, W>::load_once(from + i);
    float factors[W];
    dropout.factors(i / C, i % C, factors);
    Pack<T, W> out;
#pragma unroll
    for (int k = 0; k < W; ++k) out.set(k, values[k] * factors[k]);
    out.store(to + i);
  }
};

// --------------------------------------------------------------------------------------------------------- activations

template <class T, Activation kind>
struct Activate {
  const T* pre;
  T* out;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const Pack<T, W> z = Pack<T, W>::load_once(pre + i);
    Pack<T, W> result;
#pragma unroll
    for (int k = 0; k < W; ++k) result.set(k, activate<kind>(z[k]));
    result.store(out + i);
  }
};

// Element i of [N,F] has its gate at 2F n + f and its up value F elements after that.
template <class T>
struct Swiglu {
  const T* gate_up;
  int64_t F;
  T* out;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const T* at = gate_up + i + i / F * F;
    const Pack<T, W> gate = Pack<T, W>::load_once(at), up = Pack<T, W>::load_once(at + F);
    Pack<T, W> result;
#pragma unroll
    for (int k = 0; k < W; ++k) result.set(k, gate[k] * sigmoid(gate[k]) * up[k]);
    result.store(out + i);
  }
};

template <class T>
struct SwigluGradient {
  const T *gate_up, *d_out;
  int64_t F;
  T* d_gate_up;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const int64_t at = i + i / F * F;
    const Pack<T, W> gate = Pack<T, W>::load_once(gate_up + at), up = Pack<T, W>::load_once(gate_up + at + F);
    const Pack<T, W> gradient = Pack<T, W>::load_once(d_out + i);
    Pack<T, W> d_gate, d_up;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float s = sigmoid(gate[k]);
      d_gate.set(k, gradient[k] * up[k] * s * (1 + gate[k] * (1 - s)));
      d_up.set(k, gradient[k] * gate[k] * s);
    }
    d_gate.store(d_gate_up + at);
    d_up.store(d_gate_up + at + F);
  }
};

}  // namespace
}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const ResidualAdd& op) {
  const int64_t C = op.sum.shape[1];
  CHECK_EQ(op.residual.shape, op.sum.shape);
  CHECK_EQ(op.branch.shape, op.sum.shape);
  with_act(op.sum.dtype, [&]<class T>(T) {
    with_width<T>(C, {op.residual.data, op.branch.data, op.branch2.data, op.sum.data},
                  [&]<int W>(std::integral_constant<int, W>) {
                    const auto launch = [&]<bool kDropout>(std::bool_constant<kDropout>) {
                      const AddBranches<T, kDropout> body{data_of<T>(op.residual),
                                                          data_of<T>(op.branch),
                                                          data_of<T>(op.branch2),
                                                          DropoutArguments::of(op.dropout),
                                                          DropoutArguments::of(op.dropout2),
                                                          C,
                                                          data_of<T>(op.sum)};
                      for_each_pack<W>(this->stream(stream), op.sum.count(), body, ResidualAdd::kName);
                    };
                    if (op.dropout.active() || op.dropout2.active())
                      launch(std::true_type{});
                    else
                      launch(std::false_type{});
                  });
  });
}

void CudaBackend::run(Stream stream, const DropoutBackward& op) {
  const int64_t C = op.d_sum.shape[1];
  CHECK_EQ(op.d_branch.shape(), op.d_sum.shape);
  if (!op.dropout.active()) {
    run(stream, Copy{.from = op.d_sum, .to = op.d_branch.tensor});
    return fill_copies(stream, op.d_branch);
  }
  with_act(op.d_sum.dtype, [&]<class T>(T) {
    with_width<T>(C, {op.d_sum.data, op.d_branch.tensor.data}, [&]<int W>(std::integral_constant<int, W>) {
      const DropElements<T> body{data_of<T>(op.d_sum), DropoutArguments::of(op.dropout), C, data_of<T>(op.d_branch.tensor)};
      for_each_pack<W>(this->stream(stream), op.d_sum.count(), body, DropoutBackward::kName);
    });
  });
  fill_copies(stream, op.d_branch);
}

void CudaBackend::run(Stream stream, const ActivationForward& op) {
  CHECK_EQ(op.pre.shape, op.out.shape());
  if (op.out.fp8) {
    quantize_activated(op.activation, op.pre, op.out, this->stream(stream));
    if (op.out.wide == Wide::scratch) return;
  }
  if (op.activation == Activation::none) return run(stream, Copy{.from = op.pre, .to = op.out.tensor});
  with_act(op.out.dtype(), [&]<class T>(T) {
    with_width<T>(op.out.count(), {op.pre.data, op.out.tensor.data}, [&]<int W>(std::integral_constant<int, W>) {
      const auto launch = [&](auto body) {
        for_each_pack<W>(this->stream(stream), op.out.count(), body, ActivationForward::kName);
      };
      if (op.activation == Activation::gelu_tanh)
        launch(Activate<T, Activation::gelu_tanh>{data_of<T>(op.pre), data_of<T>(op.out.tensor)});
      else
        launch(Activate<T, Activation::gelu_erf>{data_of<T>(op.pre), data_of<T>(op.out.tensor)});
    });
  });
}

void CudaBackend::run(Stream stream, const SwigluForward& op) {
  const int64_t F = op.out.shape()[1];
  CHECK_EQ(op.gate_up.shape[1], 2 * F);
  if (op.out.fp8) {
    quantize_swiglu(op.gate_up, op.out, this->stream(stream));
    if (op.out.wide == Wide::scratch) return;
  }
  with_act(op.out.dtype(), [&]<class T>(T) {
    with_width<T>(F, {op.gate_up.data, op.out.tensor.data}, [&]<int W>(std::integral_constant<int, W>) {
      const Swiglu<T> body{data_of<T>(op.gate_up), F, data_of<T>(op.out.tensor)};
      for_each_pack<W>(this->stream(stream), op.out.count(), body, SwigluForward::kName);
    });
  });
}

void CudaBackend::run(Stream stream, const SwigluBackward& op) {
  const int64_t F = op.d_out.shape[1];
  CHECK_EQ(op.gate_up.shape[1], 2 * F);
  CHECK_EQ(op.d_gate_up.shape(), op.gate_up.shape);
  with_act(op.d_out.dtype, [&]<class T>(T) {
    with_width<T>(F, {op.gate_up.data, op.d_out.data, op.d_gate_up.tensor.data}, [&]<int W>(std::integral_constant<int, W>) {
      const SwigluGradient<T> body{data_of<T>(op.gate_up), data_of<T>(op.d_out), F, data_of<T>(op.d_gate_up.tensor)};
      for_each_pack<W>(this->stream(stream), op.d_out.count(), body, SwigluBackward::kName);
    });
  });
  fill_copies(stream, op.d_gate_up);
}

}  // namespace trireme
