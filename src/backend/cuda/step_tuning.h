// Chooses GEMM algorithms in the steps of a run. A GEMM that runs alone on an idle device tells little about a step of a large
// model. There the device runs at its power limit, at lower clocks, with other kernels' data in the caches. Of two algorithms
// that are equally fast alone, one can be a tenth slower there. So repeated work, a pass of a micro-batch, is timed with one
// algorithm exchanged at a time. Results are the same within rounding, so training continues meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "backend/choice_trials.h"
#include "backend/cuda/gemm.h"
#include "backend/work_key.h"

namespace trireme::cuda {

class StepTuning {
 public:
  explicit StepTuning(Gemm& gemm);
  ~StepTuning();
  StepTuning(const StepTuning&) = delete;
  StepTuning& operator=(const StepTuning&) = delete;

  bool done();  // true once the algorithms are chosen and kept; the object is then no longer needed
  void run(const WorkKey& key, cudaStream_t stream, const std::function<void()>& enqueue);

 private:
  struct Work {
    bool seen = false;
    std::vector<GemmShape> gemms;  // GEMMs that are tried here; each is tried in one work only
    ChoiceTrials trials{{}};
  };
  struct TimedRun {
    Work* work = nullptr;
    ChoiceTrials::Run run;
    cudaGraphExec_t graph = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  cudaGraphExec_t record(Work& work, const ChoiceTrials::Run& run, cudaStream_t stream, const std::function<void()>& enqueue);
  void claim_products(Work& work);
  void collect();  // reads the times of runs that are finished
  void discard(const TimedRun& timed);
  void announce();
  void finish();

  Gemm& gemm_;
  std::map<WorkKey, Work> works_;
  std::set<GemmShape> claimed_;
  std::deque<TimedRun> running_;
  int64_t collected_ = 0;
  bool done_ = false;
};

}  // namespace trireme::cuda
