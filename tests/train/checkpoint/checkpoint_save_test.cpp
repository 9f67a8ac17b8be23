// Saving when nothing, and when everything, goes wrong.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/file_size_limit.h"
#include "support/skip.h"
#include "train/checkpoint/checkpoint_fixture.h"

namespace trireme {
namespace {

using CheckpointSave = CheckpointTest;

// Does `work` in a process of its own, which ends with status 0, or 1 if it throws.
template <class Work>
pid_t start_child(Work&& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  try {
    work();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

int wait_for_child(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(CheckpointSave, LeavesOneFolderPerStep) {
  save(1);
  save(20);
  EXPECT_EQ(names(), Names({"step-00000001", "step-00000020"}));
  EXPECT_EQ(loaded_step(), 20);
}

TEST_F(CheckpointSave, StagingIsTheShard) {
  save(1);
  EXPECT_EQ(CheckpointWriter::staging_bytes(tensors_of(model)), narrow<int64_t>(std::filesystem::file_size(shard_of(1))));
}

// The copy is taken when snapshot returns: what training writes afterwards is not in it.
TEST_F(CheckpointSave, TrainingGoesOnAfterTheSnapshot) {
  for (HeldSlice& slice : model) slice.fill(1);
  CheckpointWriter writer(folder.path(), tensors_of(model), {});
  writer.snapshot({.step = 1});
  for (HeldSlice& slice : model) slice.fill(2);
  writer.snapshot({.step = 2});
  for (HeldSlice& slice : model) slice.fill(3);
  writer.wait();
  EXPECT_EQ(loaded_step(), 2);
  load_checkpoint(open_checkpoint(folder / checkpoint_name(1)), tensors_of(model));
  for (HeldSlice& slice : model) EXPECT_EQ(slice.values(), slice.expected(1));
}

TEST_F(CheckpointSave, SameStepAgainReplacesIt) {
  save(5, {}, 2.0);
  save(5, {}, 1.0);
  EXPECT_EQ(names(), Names({"step-00000005"}));
  EXPECT_EQ(load().checkpoint->manifest.info.validation_loss, 1.0);
}

TEST_F(CheckpointSave, SeveralSlicesOfOneTensor) {
  const Shape global{6, 4};  // two of the three segments of packed heads, as one tensor-parallel rank holds them
  model = {{"qkv.weight", TensorSlice::rectangle(global, {0, 0}, {1, 4})},
           {"qkv.weight", TensorSlice::rectangle(global, {2, 0}, {1, 4})}};
  save(1);
  EXPECT_EQ(loaded_step(), 1);
}

TEST_F(CheckpointSave, FullDiskLeavesThePreviousOne) {
  save(1);
  CheckpointWriter writer(folder.path(), tensors_of(model), {});
  {
    const FileSizeLimit full(200);
    writer.snapshot({.step = 2});
    EXPECT_TRUE(contains(message_of<Failure>([&] { writer.wait(); }), "rank-00000.safetensors: File too large"));
    EXPECT_EQ(names(), Names({"step-00000001"}));

    // Without waiting, the next call tells it.
    writer.snapshot({.step = 3});
    EXPECT_TRUE(contains(message_of<Failure>([&] { writer.snapshot({.step = 4}); }), "step-00000003.writing"));
  }
  EXPECT_EQ(loaded_step(), 1);
  // There is room again: the same writer goes on.
  for (HeldSlice& slice : model) slice.fill(5);
  writer.snapshot({.step = 5});
  writer.wait();
  EXPECT_EQ(loaded_step(), 5);
}

TEST_F(CheckpointSave, CheckTellsAFailureWithoutWaiting) {
  CheckpointWriter writer(folder.path(), tensors_of(model), {});
  EXPECT_NO_THROW(writer.check());
  const FileSizeLimit full(200);
  writer.snapshot({.step = 2});
  std::string message;
  while (message.empty()) {
    try {
      writer.check();
      std::this_thread::yield();
    } catch (const Failure& failure) {
      message = failure.what();
    }
  }
  EXPECT_TRUE(contains(message, "File too large"));
  EXPECT_NO_THROW(writer.check());  // told once
}

TEST_F(CheckpointSave, AFileInTheWayOfTheFolder) {
  File::create(folder / "file");
  CheckpointWriter writer(folder / "file", tensors_of(model), {});
  EXPECT_TRUE(contains(message_of<Failure>([&] { writer.snapshot({.step = 1}); }), "cannot create the folder"));
}

TEST_F(CheckpointSave, NoPermission) {
  if (::geteuid() == 0) SKIP_FOR(machine) << "root may write everywhere";
  save(1);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_TRUE(contains(message_of<Failure>([&] { save(2); }), "Permission denied"));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(loaded_step(), 1);
}

TEST_F(CheckpointSave, StateThatCannotBeReadBackIsNotCommitted) {
  save(1);
  CheckpointWriter writer(folder.path(), tensors_of(model), {});
  writer.snapshot({.step = 2, .settings = "\xff"});
  EXPECT_TRUE(contains(message_of<Failure>([&] { writer.wait(); }), "the manifest cannot be written"));
  nlohmann::json deep = 1;
  for (int i = 0; i < 100; ++i) deep = nlohmann::json::array({std::move(deep)});
  writer.snapshot({.step = 3, .state = deep});
  EXPECT_TRUE(contains(message_of<Failure>([&] { writer.wait(); }), "nested deeper"));
  EXPECT_EQ(names(), Names({"step-00000001"}));
}

// The kernel kills the writer at a chosen byte of the shard, or of the manifest if that grows longer.
TEST_F(CheckpointSave, KilledAtAByteOfTheFile) {
  save(1);
  ASSERT_GT(std::filesystem::file_size(manifest_of(1)), std::filesystem::file_size(shard_of(1)));
  for (rlim_t bytes = 0; bytes < std::filesystem::file_size(manifest_of(1)); bytes += 100) {
    SCOPED_TRACE(bytes);
    const int status = wait_for_child(start_child([&] {
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      save(2);
    }));
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    EXPECT_EQ(names(), Names({"step-00000001", "step-00000002.writing"}));
    EXPECT_EQ(loaded_step(), 1);
  }
  save(2);
  EXPECT_EQ(names(), Names({"step-00000001", "step-00000002"}));
  EXPECT_EQ(loaded_step(), 2);
}

// Killed at any moment while it replaces a step, removes old ones and starts the next: what is there is always whole, and never
// older than what was there before. The time to live grows until a few saves have come through.
TEST_F(CheckpointSave, KilledAtAnyMoment) {
  save(1);
  int64_t reached = 1;
  for (std::chrono::microseconds life{0}; reached < 3; life += std::chrono::microseconds(1500)) {
    const pid_t child = start_child([&] {
      for (int64_t step = reached;; ++step) save(step, {.keep_last = 1, .keep_best = 0});
    });
    std::this_thread::sleep_for(life);
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(wait_for_child(child)));
    const NewestCheckpoint newest = load();
    EXPECT_TRUE(newest.skipped.empty());
    ASSERT_TRUE(newest.checkpoint);
    ASSERT_GE(newest.checkpoint->manifest.info.step, reached);
    reached = newest.checkpoint->manifest.info.step;
  }
}

TEST_F(CheckpointSave, RemovesWhatKilledWritersLeft) {
  create_folders(folder / "step-00000007.writing");
  create_folders(folder / "step-00000008.removing");
  create_folders(folder / "step-00000009.writing.replaced");
  create_folders(folder / "notes.writing");
  create_folders(folder / "step-00000009.backup");
  save(10);
  EXPECT_EQ(names(), Names({"notes.writing", "step-00000009.backup", "step-00000010"}));
}

}  // namespace
}  // namespace trireme
