// What training reads: numbered samples of T tokens and T targets.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"

namespace trireme {

inline constexpr int32_t kMaskedTarget = -1;  // a target that takes no part in the loss

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;  // samples that can be read: those of whole epochs, or those that were asked for
  virtual int64_t epoch_size() const { return size(); }  // samples in one pass over the data
  virtual int64_t sequence() const = 0;                  // T
  virtual int64_t vocabulary() const = 0;                // every token and unmasked target is below it

  // Writes sample `index`: tokens [T] and targets [T]. Usually a target is the next token, but not in every dataset.
  // Allocates nothing, and may be called from several threads at once.
  void sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
    CHECK_EQ(std::ssize(tokens), sequence());
    sample_part(index, 0, tokens, targets);
  }

  // The same for tokens [first, first + tokens.size()) of the sample and their targets. Of what lies in files and memory no other
  // token is read, but the one after the last.
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
