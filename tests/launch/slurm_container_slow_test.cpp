// trireme launch slurm --image on a real Slurm, with a plugin that stands in for pyxis: ranks train in a squashfs image.
#include <gtest/gtest.h>

#include "launch/slurm_cluster.h"
#include "support/skip.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class SlurmContainer : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = SlurmCluster::missing(); !missing.empty()) SKIP_FOR(machine) << missing;
    const ProgramResult built = run_shell(fmt::format(
        "cc -shared -fPIC -o {0}/container.so {1}/tests/support/container_plugin.c && command -v mksquashfs unsquashfs",
        folder_.path().string(), TRIREME_SOURCE_DIR));
    if (built.status != 0) SKIP_FOR(machine) << "libslurm-dev or squashfs-tools is not installed";
  }

  // What `make image-sqsh` leaves, as far as ranks need it: the installed program, a shell and their libraries. The program says
  // that it runs there.
  void make_image() const {
    const ProgramResult made = run_shell(fmt::format(
        "cd {0} && mkdir -p image/usr/bin image/etc image/tmp && ln -s usr/bin image/bin && "
        "cmake -DCMAKE_INSTALL_PREFIX={0}/image/opt/trireme -DCMAKE_INSTALL_DO_STRIP=ON -P {1}/cmake_install.cmake > log && "
        "rm -f image/opt/trireme/lib/trireme/libtrireme_cuda.so && cp -L $(command -v sh) image/usr/bin && "
        "for file in $(command -v sh) {2}; do ldd $file | grep -o '/[^ ]*' | while read library; do "
        "mkdir -p image$(dirname $library) && cp -L $library image$library; done; done && "
        "printf '#!/bin/sh\\necho this is the image\\nexec /opt/trireme/bin/trireme \"$@\"\\n' > image/usr/bin/trireme && "
        "chmod +x image/usr/bin/trireme && mksquashfs image trireme.sqsh -quiet -no-progress -comp gzip",
        folder_.path().string(), TRIREME_BINARY_DIR, TRIREME_BINARY));
    ASSERT_EQ(made.status, 0) << made.output;
  }

  TemporaryFolder folder_;
};

TEST_F(SlurmContainer, RanksTrainInTheImage) {
  make_image();
  const SlurmCluster cluster(2, (folder_ / "container.so").string());
  const auto launch = [&](const std::string& words) {
    return cluster.trireme(
        "launch slurm demo --nodes 2 --wait trainer.backend=cpu trainer.precision=32 trainer.threads=1 "
        "trainer.max_steps=5 trainer.val_check_interval=null " +
        words);
  };
  const ProgramResult inside =
      launch(fmt::format("--name inside --image {}/trireme.sqsh --env MARK=here", folder_.path().string()));
  EXPECT_EQ(inside.status, 0) << inside.output << cluster.run("cat ../*/cluster/*.log | tail -50").output;
  const ProgramResult outside = launch("--name outside");
  EXPECT_EQ(outside.status, 0) << outside.output;
  const auto log = [&](const std::string& name) { return cluster.run("cat runs/" + name + "/log.txt").output; };
  const auto losses = [&](const std::string& name) {
    return cluster
        .run("cut -d, -f1-3 runs/" + name + "/results/*.csv | head -20; grep -o 'loss *[0-9.]*' runs/" + name + "/log.txt")
        .output;
  };
  EXPECT_TRUE(contains(log("inside"), "this is the image")) << log("inside");
  EXPECT_FALSE(contains(log("outside"), "this is the image"));
  EXPECT_NE(losses("inside"), "");
  EXPECT_EQ(losses("inside"), losses("outside"));
}

TEST_F(SlurmContainer, AnImageThatCannotBeUnpackedEndsTheJob) {
  folder_.write("broken.sqsh", "this is not an image");
  const SlurmCluster cluster(1, (folder_ / "container.so").string());
  const ProgramResult result = cluster.trireme(fmt::format(
      "launch slurm demo --nodes 1 --wait --name broken trainer.max_steps=5 --image {}/broken.sqsh", folder_.path().string()));
  EXPECT_EQ(result.status, 93) << result.output;
}

}  // namespace
}  // namespace trireme
