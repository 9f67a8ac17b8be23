// deploy/make_image: its mistakes, and with podman an image from a package, built offline on a base of this machine's own files.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeImage = TRIREME_SOURCE_DIR "/deploy/make_image";

TEST(MakeImage, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "bin");
  for (const char* tool : {"sh", "sed", "dirname", "mktemp", "rm"})
    fs::create_symlink(run_shell(fmt::format("printf %s $(command -v {})", tool)).output, folder / "bin" / tool);
  const std::string path = "env -i PATH=" + (folder / "bin").string() + " ";
  const ProgramResult none = run_shell(path + kMakeImage + " build");
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.output, "make_image: podman, docker or buildah is needed; install one: apt-get install podman\n");
  const ProgramResult other = run_shell(path + "ENGINE=dokcer " + kMakeImage + " build");
  EXPECT_EQ(other.output, "make_image: ENGINE=dokcer is not on PATH; use podman, docker or buildah\n");
}

// An engine that records its words and knows no image.
TEST(MakeImage, PassesItsVariablesToTheEngine) {
  const TemporaryFolder folder;
  const std::string engine = folder.write("bin/podman", "#!/bin/sh\necho \"$@\"\n[ \"$1\" != inspect ]\n");
  fs::permissions(engine, fs::perms::owner_all);
  const std::string package = folder.write("p.tar.gz", "");
  const std::string path = fmt::format("env PATH={}/bin:$PATH ENGINE=podman ", folder.path().string());
  const ProgramResult built = run_shell(fmt::format(
      "{} PACKAGE={} BASE=b:1 BUILD_BASE=nvcr.io/nvidia/cuda:1 PACKAGES= IMAGE=r/i:2 {} build", path, package, kMakeImage));
  EXPECT_EQ(built.status, 0) << built.output;
  EXPECT_TRUE(contains(built.output,
                       "build -f deploy/Containerfile -t r/i:2 --build-arg GPUS=all --build-arg BASE=b:1 --build-arg "
                       "BUILD_BASE=nvcr.io/nvidia/cuda:1 --build-arg PACKAGES= /"));
  const ProgramResult missing = run_shell(fmt::format("{} PACKAGE={}/no {} build", path, folder.path().string(), kMakeImage));
  EXPECT_EQ(missing.status, 2);
  EXPECT_TRUE(contains(missing.output, "is not a file; make dist writes"));
  const ProgramResult pushed = run_shell(path + "IMAGE=r/i:2 " + kMakeImage + " push");
  EXPECT_EQ(pushed.status, 2);
  EXPECT_TRUE(contains(pushed.output, "make_image: there is no image r/i:2; make it with make image IMAGE=r/i:2"));
}

class Image : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v podman").status != 0) SKIP_FOR(machine) << "podman is not installed";
    if (::geteuid() != 0 || run_shell("unshare --mount true").status != 0) SKIP_FOR(machine) << "podman is tried as root only";
    const std::string here = folder_.path().string();
    folder_.write("storage.conf",
                  fmt::format("[storage]\ndriver = \"overlay\"\nrunroot = \"{0}/run\"\ngraphroot = \"{0}/graph\"\n", here));
    folder_.write("containers.conf",
                  "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\ncgroups = \"disabled\"\nnetns = "
                  "\"none\"\n");
  }

  // In an environment of its own, and where cgroups are not podman's to change.
  ProgramResult in_podman(const std::string& command) const {
    const std::string here = folder_.path().string();
    return run_shell(
        fmt::format("cd {0} && env CONTAINERS_CONF={0}/containers.conf CONTAINERS_STORAGE_CONF={0}/storage.conf "
                    "BUILDAH_ISOLATION=chroot ENGINE=podman "
                    "unshare --mount --propagation private sh -c 'umount /sys/fs/cgroup/unified 2> /dev/null; {1}'",
                    here, command));
  }
  ProgramResult podman(const std::string& words) const { return in_podman("podman " + words); }

  // A base with what the Containerfile's commands need, and nothing else.
  void import_base() const {
    std::string files;
    for (const char* tool : {"sh", "tar", "gzip", "mkdir", "chmod", "env", "id"})
      files += run_shell(fmt::format("readlink -f $(command -v {0}) > /dev/null && command -v {0}", tool)).output;
    const ProgramResult packed =
        run_shell(fmt::format(
            "mkdir -p {0}/base/tmp {0}/base/usr/bin && cd {0}/base && ln -s usr/bin bin && for file in {1} " TRIREME_BINARY
            "; do case $file in " TRIREME_BINARY ") ;; *) cp -L $file usr/bin ;; esac; "
            "ldd $file | grep -o '/[^ ]*' | while read library; do mkdir -p .$(dirname $library) && cp -L $library .$library; "
            "done; done && "
            "tar -cf ../base.tar .",
            folder_.path().string(), [&] {
              std::string line = files;
              std::ranges::replace(line, '\n', ' ');
              return line;
            }()));
    ASSERT_EQ(packed.status, 0) << packed.output;
    const ProgramResult imported = podman("import -q base.tar base:1");
    ASSERT_EQ(imported.status, 0) << imported.output;
  }

  void make_package() const {
    const ProgramResult packed = run_shell(fmt::format(
        "cd {0} && cmake -DCMAKE_INSTALL_PREFIX={0}/trireme -DCMAKE_INSTALL_DO_STRIP=ON -P {1}/cmake_install.cmake > log && "
        "rm -f trireme/lib/trireme/libtrireme_cuda.so && tar -czf package.tar.gz trireme",
        folder_.path().string(), TRIREME_BINARY_DIR));
    ASSERT_EQ(packed.status, 0) << packed.output;
  }

  void make_image() const {
    import_base();
    if (const ProgramResult probe = podman("run --rm base:1 id"); probe.status != 0)
      SKIP_FOR(machine) << "podman cannot run a container here: " << probe.output;
    make_package();
    const ProgramResult built =
        in_podman(fmt::format("IMAGE=trireme:test PACKAGE={}/package.tar.gz BASE=localhost/base:1 PACKAGES= {} build",
                              folder_.path().string(), kMakeImage));
    ASSERT_EQ(built.status, 0) << built.output;
  }

  std::string text_of(const std::string& file) const { return run_shell("cat " + (folder_ / file).string()).output; }

  TemporaryFolder folder_;
};

TEST_F(Image, TrainsAsAnyUserAndHasNothingOfItsBuild) {
  make_image();
  if (IsSkipped() || HasFatalFailure()) return;
  const ProgramResult trained = podman("run --rm --user 1234:1234 trireme:test trireme train demo trainer.max_steps=2");
  EXPECT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(contains(trained.output, "done    2 steps"));
  const ProgramResult left = podman("run --rm trireme:test sh -c \"echo /build* /image* /opt/*\"");
  EXPECT_TRUE(contains(left.output, "/build* /image* /opt/trireme\n"));
  const ProgramResult saved =
      in_podman(fmt::format("IMAGE=trireme:test OUTPUT={}/image.tar {} tar", folder_.path().string(), kMakeImage));
  EXPECT_EQ(saved.status, 0) << saved.output;
  EXPECT_TRUE(fs::exists(folder_ / "image.tar"));
}

// `trireme launch local` with a real container runtime: trains as outside, and leaves no container, also after kill -9.
TEST_F(Image, LaunchesStartInContainers) {
  make_image();
  if (IsSkipped() || HasFatalFailure()) return;
  const auto launch = [](const std::string& words) {
    return TRIREME_BINARY
           " launch local demo --ranks 2 --results results --container podman localhost/trireme:test "
           "trainer.threads=1 trainer.val_check_interval=null " +
           words;
  };
  const ProgramResult trained = in_podman(launch("--name short trainer.max_steps=3"));
  EXPECT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(contains(trained.output, "done    3 steps")) << trained.output;
  const ProgramResult outside = run_shell(
      fmt::format("cd {} && " TRIREME_BINARY " launch local demo --ranks 2 --results results --name outside trainer.threads=1 "
                  "trainer.val_check_interval=null trainer.max_steps=3",
                  folder_.path().string()));
  EXPECT_EQ(outside.status, 0) << outside.output;
  const auto losses = [&](const std::string& name) {
    return run_shell(fmt::format("grep -o 'loss *[0-9.]*' {}/results/{}/log.txt", folder_.path().string(), name)).output;
  };
  EXPECT_NE(losses("short"), "");
  EXPECT_EQ(losses("short"), losses("outside"));

  const ProgramResult killed = in_podman(
      launch("--name long --detach trainer.max_steps=100000 > out.txt 2>&1") +
      "; for i in $(seq 300); do grep -q \"step \" results/long/log.txt && break; sleep 0.1; done; echo there $(podman ps -q | "
      "wc -l); "
      "kill -9 $(sed -n \"s/started long as \\([0-9]*\\)@.*/\\1/p\" out.txt); "
      "for i in $(seq 200); do [ -z \"$(podman ps -q)\" ] && break; sleep 0.1; done; echo left $(podman ps -q | wc -l)");
  EXPECT_EQ(killed.output, "there 1\nleft 0\n") << text_of("out.txt");
}

}  // namespace
}  // namespace trireme
