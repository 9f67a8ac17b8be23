// The random numbers of Python's `random` module, by which lm-eval draws its examples: the Mersenne Twister, seeded by an
// integer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);  // random.Random(seed)

  // The indices of random.sample(population, count), for a population of that size.
  std::vector<int64_t> sample(int64_t population, int64_t count);

 private:
  static constexpr size_t kWords = 624;
  uint32_t next();
  uint64_t below(uint64_t limit);
  void twist();

  std::array<uint32_t, kWords> state_{};
  size_t used_ = kWords;
};

}  // namespace trireme
