#include "backend/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "backend/cuda/check.h"
#include "tensor/fp8.h"

namespace trireme::cuda {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Failure("{} from {}", cublasLtGetStatusString(status), call);
}
#define CUBLAS_CHECK(call) check(call, #call)

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    default:
      CHECK(dtype == DType::f32);
      return CUDA_R_32F;
  }
}
// What biases and inputs of GELU have beside these operands.
cudaDataType_t beside(DType dtype) { return is_fp8(dtype) ? CUDA_R_16BF : cuda_type(dtype); }

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::d_gelu:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Candidates to time for a shape. The library orders them by its own estimate, which is rarely the true order but rarely far off.
constexpr int kCandidates = 48;
// Reductions in place depend on the order in which blocks finish; the others do not.
constexpr uint32_t kDeterministicReductions =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

Layout make_layout(DType dtype, int64_t rows, int64_t columns, Transposed transposed) {
  if (transposed == Transposed::yes) std::swap(rows, columns);
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(
      cublasLtMatrixLayoutCreate(&layout, cuda_type(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
  return Layout(layout);
}

class Timer {
 public:
  Timer() {
    CUDA_CHECK(cudaEventCreate(&begin_));
    CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  template <class Work>
  float milliseconds(cudaStream_t stream, Work&& work) {
    CUDA_CHECK(cudaEventRecord(begin_, stream));
    work();
    CUDA_CHECK(cudaEventRecord(end_, stream));
    CUDA_CHECK(cudaEventSynchronize(end_));
    float time = 0;
    CUDA_CHECK(cudaEventElapsedTime(&time, begin_, end_));
    return time;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Memory that tuning may write to in place of the real output.
class TemporaryOutput {
 public:
  explicit TemporaryOutput(int64_t bytes) {
    if (bytes > 0 && cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      cudaGetLastError();  // too little memory for tuning: the library's first choice will do
      data_ = nullptr;
    }
  }
  ~TemporaryOutput() { cudaFree(data_); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace

struct Gemm::Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> description;
  Layout a, b, d;
  float beta = 0;
  cublasLtMatmulAlgo_t algorithm{};

  explicit Plan(const Product& p) {
    cublasLtMatmulDesc_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    description.reset(made);
    const auto operation = [](Transposed t) { return t == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.a_transposed));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.b_transposed));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(p.epilogue));
    if (p.epilogue == Epilogue::gelu_bias || p.epilogue == Epilogue::d_gelu) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.m);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, beside(p.a));
    }
    if (p.epilogue == Epilogue::bias || p.epilogue == Epilogue::gelu_bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, beside(p.a));
    if (p.sums == Sums::fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    a = make_layout(p.a, p.m, p.k, p.a_transposed);
    b = make_layout(p.b, p.k, p.n, p.b_transposed);
    d = make_layout(p.out, p.m, p.n, Transposed::no);
    beta = p.accumulate == Accumulate::yes ? 1 : 0;
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)));
  }

  void point_at(const ProductOperands& operands) {
    if (operands.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    if (operands.pre != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.pre);
    if (operands.a_scale != nullptr) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.a_scale);
    if (operands.b_scale != nullptr) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.b_scale);
  }
};

Gemm::Gemm(const std::string& device) : file_(device) { CUBLAS_CHECK(cublasLtCreate(&handle_)); }
Gemm::~Gemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Gemm::run(Product product, const ProductOperands& operands, void* workspace, cudaStream_t stream) {
  for (const void* pointer :
       {operands.a, operands.b, static_cast<const void*>(operands.d), operands.bias, static_cast<const void*>(operands.pre)})
    while (reinterpret_cast<uintptr_t>(pointer) % product.alignment != 0) product.alignment /= 2;
  execute(plan_for(product, operands, workspace, stream), operands, workspace, stream);
}

void Gemm::execute(Plan& plan, const ProductOperands& operands, void* workspace, cudaStream_t stream) {
  constexpr float kAlpha = 1;
  plan.point_at(operands);
  CUBLAS_CHECK(cublasLtMatmul(handle_, plan.description.get(), &kAlpha, operands.a, plan.a.get(), operands.b, plan.b.get(),
                              &plan.beta, operands.d, plan.d.get(), operands.d, plan.d.get(), &plan.algorithm, workspace,
                              static_cast<size_t>(kWorkspaceBytes), stream));
}

Gemm::Plan& Gemm::plan_for(const Product& product, const ProductOperands& operands, void* workspace, cudaStream_t stream) {
  std::unique_ptr<Plan>& plan = plans_[product];
  if (!plan) {
    plan = std::make_unique<Plan>(product);
    if (const cublasLtMatmulAlgo_t* known = file_.find(product)) {
      plan->algorithm = *known;
    } else {
      tune(*plan, product, operands, workspace, stream);
      file_.add(product, plan->algorithm);
    }
  }
  return *plan;
}

void Gemm::tune(Plan& plan, const Product& product, const ProductOperands& operands, void* workspace, cudaStream_t stream) {
  plan.point_at(operands);
  cublasLtMatmulPreference_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(made);
  const auto workspace_bytes = static_cast<uint64_t>(kWorkspaceBytes);
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                                    sizeof(workspace_bytes)));
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &kDeterministicReductions,
                                                    sizeof(kDeterministicReductions)));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, attribute, &product.alignment, sizeof(product.alignment)));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, plan.description.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                                              plan.d.get(), made, kCandidates, found.data(), &count));
  if (count == 0) throw Failure("cuBLASLt has no product for m={} n={} k={}", product.m, product.n, product.k);
  plan.algorithm = found[0].algo;

  const int64_t output_bytes = product.m * product.n * size_of(product.out);
  const bool writes_pre = product.epilogue == Epilogue::gelu_bias;
  const TemporaryOutput output(output_bytes), pre(writes_pre ? product.m * product.n * size_of(product.a) : 0);
  if (output.data() == nullptr || (writes_pre && pre.data() == nullptr)) return;
  ProductOperands trial = operands;
  trial.d = output.data();
  if (writes_pre) trial.pre = pre.data();
  CUDA_CHECK(cudaMemsetAsync(output.data(), 0, static_cast<size_t>(output_bytes), stream));

  plan.algorithm = fastest(plan, std::span(found).first(static_cast<size_t>(count)), trial, workspace, stream);
}

// Each alone, with pauses. Long runs without them, in turns, were tried too, because large products run into the limit of the
// device's power: what they chose was slower in a step, by 2% for a model of 1.3b.
cublasLtMatmulAlgo_t Gemm::fastest(Plan& plan, std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                   const ProductOperands& trial, void* workspace, cudaStream_t stream) {
  constexpr int kRounds = 5;
  constexpr float kHopeless = 1.25f;  // a candidate that much slower than the best at its first try gets no more
  Timer timer;
  float best = std::numeric_limits<float>::max();
  cublasLtMatmulAlgo_t fastest = candidates[0].algo;
  for (const cublasLtMatmulHeuristicResult_t& candidate : candidates) {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) continue;
    plan.algorithm = candidate.algo;
    std::array<float, kRounds> times{};
    execute(plan, trial, workspace, stream);  // loads the kernel
    for (float& time : times) {
      time = timer.milliseconds(stream, [&] { execute(plan, trial, workspace, stream); });
      if (time <= kHopeless * best) continue;
      times.fill(time);
      break;
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    if (times[kRounds / 2] >= best) continue;
    best = times[kRounds / 2];
    fastest = candidate.algo;
  }
  return fastest;
}

}  // namespace trireme::cuda
