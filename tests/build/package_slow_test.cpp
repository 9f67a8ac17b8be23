// The package of `make dist`: needs no library but glibc's, and trains where nothing else is installed.
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScripts = TRIREME_SOURCE_DIR "/scripts";

// An installation as packed, without the CUDA module, whose libraries are gigabytes.
class Package : public testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult help = run_shell("ldd " TRIREME_BINARY);
    if (help.output.find("libasan") != std::string::npos || help.output.find("libtsan") != std::string::npos)
      SKIP_FOR(machine) << "a build with sanitizers is not portable";
    const ProgramResult installed =
        run_shell(fmt::format("cmake -DCMAKE_INSTALL_PREFIX={} -DCMAKE_INSTALL_DO_STRIP=ON -P {}/cmake_install.cmake > {}",
                              tree().string(), TRIREME_BINARY_DIR, (folder_ / "log").string()));
    ASSERT_EQ(installed.status, 0) << installed.output;
    fs::remove(tree() / "lib/trireme/libtrireme_cuda.so");
  }
  fs::path tree() const { return root() / "anywhere/trireme"; }
  fs::path root() const { return folder_ / "root"; }

  // Copies the libraries of glibc, as the loader finds them here.
  void install_glibc() const {
    const ProgramResult listed = run_shell("ldd " TRIREME_BINARY);
    std::istringstream lines(listed.output);
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find('/'), end = line.find(" (", begin);
      if (begin == std::string::npos) continue;
      const fs::path library = line.substr(begin, end - begin);
      fs::create_directories(root() / library.relative_path().parent_path());
      fs::copy_file(library, root() / library.relative_path());
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Package, NeedsNothingButGlibc) {
  const ProgramResult checked = run_shell(fmt::format("{}/check_dist {}", kScripts, tree().string()));
  EXPECT_EQ(checked.status, 0) << checked.output;
  const std::string needs = "needs glibc 2.", own = ::gnu_get_libc_version();
  const size_t at = checked.output.find(needs);
  ASSERT_NE(at, std::string::npos) << checked.output;
  EXPECT_LT(std::stoi(checked.output.substr(at + needs.size())), std::stoi(own.substr(2)))
      << "a function that is as new as this system's glibc: " << checked.output;
  for (const char* file : {"share/trireme/recipes/demo.yaml", "share/trireme/networks/tcp.yaml", "share/man/man1/trireme-train.1",
                           "share/bash-completion/completions/trireme", "share/doc/trireme/docs/train.md"})
    EXPECT_TRUE(fs::exists(tree() / file)) << file;
}

TEST_F(Package, NamesALibraryThatIsMissing) {
  if (run_shell("command -v g++").status != 0) SKIP_FOR(machine) << "no g++";
  const std::string source =
      folder_.write("needy.cpp", "#include <zlib.h>\nextern \"C\" const char* f() { return zlibVersion(); }\n");
  const fs::path module = tree() / "lib/trireme/needy.so";
  const ProgramResult built = run_shell(fmt::format("g++ -shared -fPIC {} -o {} -lz", source, module.string()));
  ASSERT_EQ(built.status, 0) << built.output;
  const ProgramResult checked = run_shell(fmt::format("{}/check_dist {}", kScripts, tree().string()));
  EXPECT_EQ(checked.status, 1);
  EXPECT_TRUE(contains(checked.output, "needy.so needs libz.so.1, which is not in the package"));
}

TEST_F(Package, TrainsWhereNothingElseIsInstalled) {
  if (::geteuid() != 0 || run_shell("unshare --mount true").status != 0) SKIP_FOR(machine) << "chroot needs root";
  install_glibc();
  fs::create_directories(root() / "proc");
  fs::create_directories(root() / "tmp");
  const auto run = [&](const std::string& arguments) {
    return run_shell(
        fmt::format("unshare --mount sh -c 'mount -t proc proc {0}/proc && exec chroot {0} /anywhere/trireme/bin/trireme {1}'",
                    root().string(), arguments));
  };
  const ProgramResult trained = run("train demo trainer.max_steps=2 exp_manager.explicit_log_dir=/tmp/run");
  EXPECT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(fs::exists(root() / "tmp/run/summary.json"));
  EXPECT_TRUE(
      contains(run("launch local demo --ranks 2 --network nonesuch --dry-run").output, "tcpxo"));  // found beside the recipes
  const ProgramResult fetched = run("data fetch http://127.0.0.1:9/a --output /tmp/a");
  EXPECT_EQ(fetched.status, 2);
  EXPECT_TRUE(contains(fetched.output, "http and https need libcurl.so.4, which is not installed; install libcurl4"));
}

TEST_F(Package, SaysHowToStartRanksWithoutMpi) {
  fs::remove(tree() / "lib/trireme/libtrireme_mpi.so");
  const ProgramResult alone =
      run_shell(fmt::format("cd {} && env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 {}/bin/trireme train demo",
                            folder_.path().string(), tree().string()));
  EXPECT_EQ(alone.status, 2);
  EXPECT_TRUE(contains(alone.output, "built without MPI and cannot join the others that mpirun started"));
  EXPECT_TRUE(contains(alone.output, "trireme launch local"));
}

}  // namespace
}  // namespace trireme
