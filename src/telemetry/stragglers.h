// Finds ranks that compute more slowly than their peers: those of the same pipeline stage, which do the same work. The times are
// those of computing alone; ranks wait for each other, so the times of whole steps are equal.
//
// Steps are taken in blocks, because a rank with a quota of CPU time is not slow in every step, but stands still every now and
// then. In each block a rank is compared with the median of its peers: x = log(own seconds / theirs). A cumulated sum (Page's
// test) adds up how much more likely each x is for a rank that is kSlow slower than for one that is not, if x is normal:
//
//   evidence = max(0, evidence + kSlow (x - kSlow/2) / variance)        kSlow = log 1.1
//
// A rank is named once the evidence is kEvidence: the noisier the steps, the more of them that takes. One block adds at most a
// kBlocks-th, so that a pause of the machine is no evidence. The variance is that of the blocks so far, around a slow mean, or
// that of groups of blocks if it is larger: where other programs use the cores, a rank is slow for seconds and fast for seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct StragglerFinding {
  enum class Kind : uint8_t { slow, recovered };
  Kind kind = Kind::slow;
  int rank = 0;
  int stage = 0;
  double excess = 0;        // 0.1: 10% more time than its peers
  double seconds = 0;       // of computing per step
  double peer_seconds = 0;  // the same of its peers
  double cost = 0;          // share of a step that all ranks lose by it
  int64_t steps = 0;        // that were compared

  std::string text() const;  // "computes 25.3 ms per step, 11% more than its peers of stage 0; ..."
};

class StragglerWatch {
  // The variance of one value per rank around the slow mean of the rank, over all ranks.
  class Spread {
   public:
    // Before any values `variance`, which counts as `counts_as` of them; about the last `kept` count, the last `usual` for the
    // mean.
    Spread(double variance, int64_t counts_as, int64_t kept, int64_t usual)
        : variance_(variance), counts_as_(counts_as), kept_(kept), usual_count_(usual) {}
    void add(std::span<const double> values);
    double variance() const { return variance_; }

   private:
    double variance_;
    int64_t counts_as_, kept_, usual_count_, added_ = 0;
    std::vector<double> usual_;
  };

 public:
  explicit StragglerWatch(const std::vector<int>& stage_of_rank);

  // `compute`: seconds of each rank in a step; 0: not known, and the step does not count. Returns what is new.
  std::vector<StragglerFinding> step(std::span<const double> compute, double step_seconds);

  static constexpr int64_t kBlockSteps = 5;     // at least, and
  static constexpr double kBlockSeconds = 0.1;  // at least: the period in which Linux enforces a quota
  static constexpr int64_t kBlocks = 7;         // it takes so many to name a rank, at least
  static constexpr double kEvidence = 12;       // a likelihood ratio of 160,000
  static constexpr double kLeastCost = 0.02;    // of a step, to be worth a word

 private:
  struct Rank {
    int stage = 0;
    bool is_named = false;
    double block_seconds = 0;
    double evidence = 0;  // that it is slow; of a named one, that it is not
    // Since the evidence was 0:
    int64_t steps = 0;
    double seconds = 0, peer_seconds = 0, step_seconds = 0;
  };

  std::vector<double> peer_seconds() const;  // by rank, in the block; 0: it has no peers
  void note_noise(std::span<const double> excess);
  double variance() const;  // of x
  void gather_evidence(Rank& rank, double peers, double excess);
  bool has_changed(const Rank& rank) const;
  StragglerFinding change(size_t index);
  void end_block(std::vector<StragglerFinding>& found);

  std::vector<Rank> ranks_;
  int64_t blocks_ = 0, steps_in_block_ = 0;
  double block_step_seconds_ = 0;
  Spread block_spread_, group_spread_;
  std::vector<double> group_;  // sums of x
};

}  // namespace trireme
