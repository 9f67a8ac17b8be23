// The interface that training reads: numbered samples of T tokens and T targets.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"

namespace trireme {

inline constexpr int32_t kMaskedTarget = -1;  // a target that is excluded from the loss

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;                      // readable samples: those of whole epochs, or as many as were requested
  virtual int64_t epoch_size() const { return size(); }  // samples in one pass over the data
  virtual int64_t sequence() const = 0;                  // T
  virtual int64_t vocabulary() const = 0;                // upper bound (exclusive) of tokens and unmasked targets

  // Writes sample `index`: tokens [T] and targets [T]. A target is usually the next token, but not in every dataset. Allocates
  // nothing; thread-safe.
  void sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
    CHECK_EQ(std::ssize(tokens), sequence());
    sample_part(index, 0, tokens, targets);
  }

  // Writes tokens [first, first + tokens.size()) of the sample and their targets. Datasets in files and memory read only these
  // tokens and the one after them.
  void sample_part(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
    CHECK(0 <= index && index < size());
    CHECK(!tokens.empty() && 0 <= first && first <= sequence() - std::ssize(tokens));
    CHECK_EQ(std::ssize(targets), std::ssize(tokens));
    read(index, first, tokens, targets);
  }

 private:
  virtual void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const = 0;
};

}  // namespace trireme
