#include "backend/cuda/step_tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/replays.h"

namespace trireme::cuda {
namespace {

constexpr int64_t kBothPasses = 4;  // runs after which both forward and backward have run

}  // namespace

StepTuning::StepTuning(Gemm& gemm) : gemm_(gemm) { gemm_.keep_finalists(); }

StepTuning::~StepTuning() {
  if (!done_ && collected_ > 0)
    fmt::print(stderr,
               "tuning  ended with the run, before all plans had been compared; a larger trainer.max_steps gives it time\n");
  cudaDeviceSynchronize();
  for (const TimedRun& timed : running_) discard(timed);
}

bool StepTuning::done() {
  collect();
  const auto over = [](const auto& entry) { return entry.second.trials.done(); };
  if (!done_ && collected_ >= kBothPasses && std::ranges::all_of(works_, over)) finish();
  return done_;
}

void StepTuning::run(const WorkKey& key, cudaStream_t stream, const std::function<void()>& enqueue) {
  Work& work = works_[key];
  if (!work.seen) {  // the first run loads kernels and tunes GEMMs alone
    work.seen = true;
    return enqueue();
  }
  TimedRun timed{.work = &work, .run = work.trials.next()};
  timed.graph = record(work, timed.run, stream, enqueue);
  CUDA_CHECK(cudaEventCreate(&timed.begin));
  CUDA_CHECK(cudaEventCreate(&timed.end));
  CUDA_CHECK(cudaEventRecord(timed.begin, stream));
  CUDA_CHECK(cudaGraphLaunch(timed.graph, stream));
  CUDA_CHECK(cudaEventRecord(timed.end, stream));
  running_.push_back(timed);
}

// Captures the work with the algorithms of this run as a graph. Launched kernel by kernel, small work would take as long as its
// launches.
cudaGraphExec_t StepTuning::record(Work& work, const ChoiceTrials::Run& run, cudaStream_t stream,
                                   const std::function<void()>& enqueue) {
  const auto use = [&](const std::vector<int>& choices) {
    for (size_t i = 0; i < choices.size(); ++i) gemm_.use_finalist(work.gemms[i], choices[i]);
  };
  const std::vector<int> always(work.gemms.size(), 0);
  std::vector<int> choices = run.part == ChoiceTrials::kAllParts ? work.trials.best() : always;
  if (run.part >= 0) choices[static_cast<size_t>(run.part)] = run.choice;
  use(choices);
  gemm_.forget_used();
  const cudaGraphExec_t graph = record_graph(stream, enqueue);
  use(always);
  claim_products(work);
  return graph;
}

// The first works to run a second time are the micro-batches after the first of a step, which have most of the GEMMs. Later
// works, such as an evaluation, may not run often enough to be tuned.
void StepTuning::claim_products(Work& work) {
  if (!work.gemms.empty() || collected_ >= kBothPasses) return;
  std::vector<int> choices;
  for (const GemmShape& shape : gemm_.used()) {
    const int finalists = gemm_.finalists(shape);
    if (finalists < 2 || !claimed_.insert(shape).second) continue;
    work.gemms.push_back(shape);
    choices.push_back(finalists);
  }
  work.trials = ChoiceTrials(choices);
}

void StepTuning::collect() {
  while (!running_.empty() && cudaEventQuery(running_.front().end) == cudaSuccess) {
    const TimedRun timed = running_.front();
    running_.pop_front();
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, timed.begin, timed.end));
    timed.work->trials.report(timed.run, milliseconds / 1e3);
    discard(timed);
    if (++collected_ == kBothPasses) announce();
  }
}

void StepTuning::discard(const TimedRun& timed) {
  cudaGraphExecDestroy(timed.graph);
  cudaEventDestroy(timed.begin);
  cudaEventDestroy(timed.end);
}

void StepTuning::announce() {
  int64_t runs = 0;
  for (const auto& [key, work] : works_) runs = std::max(runs, work.trials.expected_runs());
  fmt::print(stderr, "tuning  {} GEMMs in the steps of this run, about {} micro-batches\n", claimed_.size(), runs);
}

void StepTuning::finish() {
  size_t changed = 0;
  double before = 0, after = 0;
  for (const auto& [key, work] : works_) {
    if (work.gemms.empty()) continue;
    before += work.trials.seconds_always();
    after += work.trials.seconds_best();
    for (size_t i = 0; i < work.gemms.size(); ++i) {
      const int choice = work.trials.best()[i];
      changed += choice != 0 ? 1 : 0;
      gemm_.keep(work.gemms[i], choice);
    }
  }
  done_ = true;
  fmt::print(stderr, "tuned   {} of {} GEMMs have a better algorithm: {:.2f} ms per micro-batch, {:.2f} before\n", changed,
             claimed_.size(), 1e3 * after, 1e3 * before);
}

}  // namespace trireme::cuda
