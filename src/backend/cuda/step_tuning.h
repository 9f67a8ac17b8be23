// Plans of products, chosen in the steps of a run. A product that runs alone on a rested device tells little about a step of a
// large model, which runs at the limit of the device's power, at lower clocks, with other kernels' data in the caches: of two
// plans that take the same time alone one can take a tenth longer there. So repeated work, a pass of a micro-batch, is done with
// one plan exchanged at a time, and timed. It computes the same within rounding: the run trains on meanwhile.
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

  bool done();  // then it is no longer needed: the plans are chosen and kept
  void run(const WorkKey& key, cudaStream_t stream, const std::function<void()>& enqueue);

 private:
  struct Work {
    bool seen = false;
    std::vector<Product> products;  // those tried here: each has a place in one work only
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
  void collect();  // the times of runs that are over
  void discard(const TimedRun& timed);
  void announce();
  void finish();

  Gemm& gemm_;
  std::map<WorkKey, Work> works_;
  std::set<Product> claimed_;
  std::deque<TimedRun> running_;
  int64_t collected_ = 0;
  bool done_ = false;
};

}  // namespace trireme::cuda
