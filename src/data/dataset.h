// What training reads: numbered samples of T tokens and T targets.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

inline constexpr int32_t kMaskedTarget = -1;  // a target that takes no part in the loss

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;        // samples
  virtual int64_t sequence() const = 0;    // T
  virtual int64_t vocabulary() const = 0;  // every token and unmasked target is below it

  // Writes sample `index`: tokens [T] and targets [T]. Usually a target is the next token, but not in every dataset.
  // Allocates nothing, and may be called from several threads at once.
  virtual void sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const = 0;
};

}  // namespace trireme
