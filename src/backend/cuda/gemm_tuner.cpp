#include "backend/cuda/gemm_tuner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "base/median.h"

namespace trireme::cuda {
namespace {

// How many candidates to ask for. The library orders them by its own estimate, which is rarely exact but rarely far off.
constexpr int kCandidates = 48;
// Split-K reductions that do not depend on the order in which blocks finish. In-place reductions do.
constexpr uint32_t kDeterministicReductions =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

constexpr size_t kParents = 4;  // how many of the library's best candidates have their variants tried

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    CUDA_CHECK(cudaEventCreate(&begin_));
    CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  template <class Work>
  float milliseconds(Work&& work) {
    CUDA_CHECK(cudaEventRecord(begin_, stream_));
    work();
    CUDA_CHECK(cudaEventRecord(end_, stream_));
    CUDA_CHECK(cudaEventSynchronize(end_));
    float time = 0;
    CUDA_CHECK(cudaEventElapsedTime(&time, begin_, end_));
    return time;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Memory that tuning writes to instead of the real output.
class TemporaryOutput {
 public:
  explicit TemporaryOutput(int64_t bytes) {
    if (bytes > 0 && cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      cudaGetLastError();  // too little memory to tune: the library's first choice is used
      data_ = nullptr;
    }
  }
  ~TemporaryOutput() { cudaFree(data_); }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

struct Candidate {
  cublasLtMatmulAlgo_t algorithm{};
  float time = 0;  // ms
};

// Times every candidate alone, then the best ones again in alternation. A device under constant load reaches its power limit and
// slows down by a quarter, and times then depend on what ran before. So it rests between runs. Large models do train at that
// limit, but algorithms chosen there did not make steps faster; step_tuning.h chooses them in the steps.
class Tuning {
 public:
  Tuning(GemmPlan& plan, const GemmOperands& trial, const GemmPlace& where)
      : plan_(plan), trial_(trial), where_(where), timer_(where.stream) {}

  std::vector<cublasLtMatmulAlgo_t> best_of(const std::vector<cublasLtMatmulAlgo_t>& listed) {
    for (const auto& algorithm : listed) consider(algorithm);
    if (candidates_.empty()) return {listed.front()};
    sort();
    const std::vector<Candidate> parents(candidates_.begin(),
                                         candidates_.begin() + static_cast<ptrdiff_t>(std::min(kParents, candidates_.size())));
    for (const Candidate& parent : parents) try_relatives(parent.algorithm);
    sort();
    return best_of_finalists();
  }

 private:
  float time(const cublasLtMatmulAlgo_t& algorithm) {
    constexpr float kRest = 2;  // as a multiple of the run's time
    const float time = timer_.milliseconds([&] { CUBLAS_CHECK(plan_.attempt(algorithm, trial_, where_)); });
    std::this_thread::sleep_for(std::chrono::duration<float, std::milli>(kRest * time));
    return time;
  }

  void consider(const cublasLtMatmulAlgo_t& algorithm) {
    constexpr size_t kRuns = 3;
    constexpr float kHopeless = 1.25f;  // a candidate slower than the best by this factor at its first run is not timed again
    for (const Candidate& known : candidates_)
      if (same(known.algorithm, algorithm)) return;
    if (plan_.attempt(algorithm, trial_, where_) != CUBLAS_STATUS_SUCCESS) return;  // also loads the kernel
    std::vector<float> times;
    do times.push_back(time(algorithm));
    while (times.size() < kRuns && times.back() <= kHopeless * fastest_);
    candidates_.push_back({algorithm, static_cast<float>(median(times))});
    fastest_ = std::min(fastest_, candidates_.back().time);
  }

  // Tries the same kernel with other block orders and cluster shapes, of which the library lists only a few.
  void try_relatives(const cublasLtMatmulAlgo_t& parent) {
    for (const uint32_t order : {0U, 1U, 2U})
      for (const uint16_t cluster : {CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1, CUBLASLT_CLUSTER_SHAPE_4x2x1}) {
        cublasLtMatmulAlgo_t relative = parent;
        cublasLtMatmulHeuristicResult_t checked{};
        const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, const auto& value) {
          return cublasLtMatmulAlgoConfigSetAttribute(&relative, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
        };
        if (set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, order) && set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) &&
            cublasLtMatmulAlgoCheck(where_.handle, plan_.description.get(), plan_.a.get(), plan_.b.get(), plan_.d.get(),
                                    plan_.d.get(), &relative, &checked) == CUBLAS_STATUS_SUCCESS &&
            checked.workspaceSize <= static_cast<size_t>(kGemmWorkspaceBytes))
          consider(relative);
      }
  }

  std::vector<cublasLtMatmulAlgo_t> best_of_finalists() {
    constexpr size_t kFinalists = 12, kRounds = 9;
    constexpr float kClose = 1.06f;
    const auto close = [&](const Candidate& candidate) { return candidate.time < kClose * candidates_.front().time; };
    const auto end = std::find_if_not(candidates_.begin(), candidates_.end(), close);
    candidates_.resize(std::min(kFinalists, static_cast<size_t>(end - candidates_.begin())));
    std::vector<std::vector<float>> times(candidates_.size());
    for (size_t round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < candidates_.size(); ++i) times[i].push_back(time(candidates_[i].algorithm));
    for (size_t i = 0; i < candidates_.size(); ++i) candidates_[i].time = static_cast<float>(median(times[i]));
    sort();
    std::vector<cublasLtMatmulAlgo_t> best;
    for (const Candidate& candidate : candidates_) best.push_back(candidate.algorithm);
    return best;
  }

  void sort() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  }

  GemmPlan& plan_;
  const GemmOperands& trial_;
  const GemmPlace& where_;
  Timer timer_;
  std::vector<Candidate> candidates_;
  float fastest_ = std::numeric_limits<float>::max();
};

std::vector<cublasLtMatmulAlgo_t> listed_algorithms(const GemmPlan& plan, const GemmShape& shape, const GemmPlace& where) {
  cublasLtMatmulPreference_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  const OwnedCublas<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kDeterministicReductions);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, shape.alignment);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(where.handle, plan.description.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                                              plan.d.get(), made, kCandidates, found.data(), &count));
  std::vector<cublasLtMatmulAlgo_t> listed;
  for (int i = 0; i < count; ++i)
    if (found[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS) listed.push_back(found[static_cast<size_t>(i)].algo);
  if (listed.empty()) throw Failure("cuBLASLt has no algorithm for m={} n={} k={}", shape.m, shape.n, shape.k);
  return listed;
}

}  // namespace

std::vector<cublasLtMatmulAlgo_t> tuned_algorithms(GemmPlan& plan, const GemmShape& shape, const GemmOperands& operands,
                                                   const GemmPlace& where) {
  plan.point_at(operands);
  const std::vector<cublasLtMatmulAlgo_t> listed = listed_algorithms(plan, shape, where);
  const int64_t output_bytes = shape.m * shape.n * size_of(shape.out);
  const bool writes_pre = shape.epilogue == Epilogue::gelu_bias;
  const TemporaryOutput output(output_bytes), pre(writes_pre ? shape.m * shape.n * size_of(shape.a) : 0);
  if (output.data() == nullptr || (writes_pre && pre.data() == nullptr)) return {listed.front()};
  GemmOperands trial = operands;
  trial.d = output.data();
  if (writes_pre) trial.pre = pre.data();
  if (shape.out == DType::f32) trial.accumulate = Accumulate::yes;  // as in all gradients of a step except the first
  CUDA_CHECK(cudaMemsetAsync(output.data(), 0, static_cast<size_t>(output_bytes), where.stream));
  return Tuning(plan, trial, where).best_of(listed);
}

}  // namespace trireme::cuda
