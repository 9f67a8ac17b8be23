#include "base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace trireme {
namespace {

TEST(ProcessTest, AvailableMemoryIsSomeOfTheMachines) {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory_bytes(), 0);
  // Swap may add to it; nobody has eight times their memory in swap.
  EXPECT_LT(available_memory_bytes(), 8 * machine);
}

TEST(ProcessTest, ResidentMemoryGrowsByWhatIsTouched) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = resident_bytes();
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GE(resident_bytes(), before + kBytes / 2);  // half: other memory may go back to the system meanwhile
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
  EXPECT_EQ(touched.back(), 1);
}

}  // namespace
}  // namespace trireme
