// Finds ranks that compute more slowly than their peers: those of the same pipeline stage, which do the same work. The times are
// those of computing alone; ranks wait for each other, so the times of whole steps are equal.
//
// Steps are taken in blocks, because a rank with a quota of CPU time is not slow in every step, but stands still every now and
// then, and because the times of single short steps are those of the scheduler. In each block a rank is compared with the median
// of its peers. It is slow if the median of its last blocks is kLeastExcess above them, and nearly all of these blocks show it.
#pragma once

#include <array>
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
 public:
  explicit StragglerWatch(std::vector<int> stage_of_rank);

  // `compute`: seconds of each rank in a step; 0: not known, and the step does not count. Returns what is new.
  std::vector<StragglerFinding> step(std::span<const double> compute, double step_seconds);

  static constexpr int64_t kBlockSteps = 5;      // at least, and
  static constexpr double kBlockSeconds = 0.25;  // at least
  static constexpr size_t kBlocks = 8;
  static constexpr size_t kBlocksThatShowIt = 7;
  static constexpr double kLeastExcess = 0.05;
  static constexpr double kLeastCost = 0.02;  // of a step, to be worth a word

 private:
  struct Rank {
    int stage = 0;
    double block_seconds = 0;
    std::array<double, kBlocks> excesses{};  // of the last blocks, as a ring
    bool is_named = false;
  };

  double peer_seconds(size_t rank) const;  // in the block
  void end_block(std::vector<StragglerFinding>& found);

  std::vector<Rank> ranks_;
  int64_t steps_in_block_ = 0, blocks_ = 0;
  double block_step_seconds_ = 0;
};

}  // namespace trireme
