// What a user may ask of the build: flags of one's own, and a build that stops where CUDA is missing.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

ProgramResult configure(const std::string& options) {
  return run_shell("cmake -S " TRIREME_SOURCE_DIR " -G Ninja -DTRIREME_TESTS=OFF " + options);
}

TEST(Configure, TakesTheUsersFlagsOfARelease) {
  const TemporaryFolder folder;
  const std::string build = (folder / "build").string();
  const ProgramResult result = configure("-B " + build + " -DTRIREME_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE='-Os -g1'");
  ASSERT_EQ(result.status, 0) << result.output;
  std::ifstream file(build + "/compile_commands.json");
  const std::string commands((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(commands.find(" -Os -g1 "), std::string::npos);
}

TEST(Configure, StopsWithoutCudaWhereItIsRequired) {
  const TemporaryFolder folder;
  // Where CMake finds no CUDA compiler, whatever this machine has.
  const std::string options = "-B " + (folder / "build").string() + " -DCMAKE_CUDA_COMPILER=NOTFOUND";
  EXPECT_EQ(configure(options).status, 0);
  const ProgramResult required = configure(options + " -DTRIREME_CUDA_REQUIRED=ON");
  EXPECT_EQ(required.status, 1);
  EXPECT_NE(required.output.find("no CUDA compiler was found"), std::string::npos) << required.output;
}

}  // namespace
}  // namespace trireme
