// Checkpoints of tensors that are not in the host's memory: their bytes are reached through their backend only.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/backend.h"
#include "support/temporary_folder.h"
#include "train/checkpoint/reader.h"
#include "train/checkpoint/writer.h"

namespace trireme {
namespace {

// Memory whose bytes are all inverted, so that whoever reads or writes it directly gets something else.
class InvertedMemory final : public Backend {
 public:
#define TRIREME_NO_OP(Op) \
  void run(Stream, const Op&) override { FAIL() << "no op is needed"; }
  TRIREME_OPS(TRIREME_NO_OP)
#undef TRIREME_NO_OP
  void set_scratch(Stream, Tensor) override {}
  Event record(Stream stream, const char* name) override { return {name, stream, 0}; }
  void wait(Stream, const Event&) override {}
  void synchronize(const Event&) override {}
  Memory allocate(int64_t) override { return {}; }
  void upload(Stream, const void* from, Tensor to) override { copy(from, to.data, to.bytes()); }
  void download(Stream, Tensor from, void* to) override { copy(from.data, to, from.bytes()); }
  std::string description() const override { return "inverted"; }

 private:
  static void copy(const void* from, void* to, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(~static_cast<const unsigned char*>(from)[i]);
  }
};

// More than the reader takes at once.
constexpr int64_t kRows = 3, kColumns = 200'003;

struct Device {
  InvertedMemory backend;
  std::vector<float> memory = std::vector<float>(kRows * kColumns);
  Tensor tensor{.data = memory.data(), .dtype = DType::f32, .shape = {kRows, kColumns}, .device = trireme::Device::cuda};
  CheckpointTensor saved() { return {"weight", TensorSlice::whole(tensor.shape), tensor, &backend}; }
};

TEST(CheckpointOfADevice, IsSavedAndLoadedThroughItsBackend) {
  const TemporaryFolder folder;
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;

  Device from, to;
  from.backend.upload(kCompute, values.data(), from.tensor);
  CheckpointWriter writer(folder.path(), std::vector{from.saved()}, {.keep_last = 1});
  writer.snapshot({.step = 1});
  writer.wait();
  const StoredCheckpoint stored = open_checkpoint(folder.path() / checkpoint_name(1));
  load_checkpoint(stored, std::vector{to.saved()});
  EXPECT_EQ(std::memcmp(to.memory.data(), from.memory.data(), values.size() * sizeof(float)), 0);

  // What is in the file are the values themselves.
  std::vector<float> host(kRows * kColumns);
  const Tensor plain{.data = host.data(), .dtype = DType::f32, .shape = {kRows, kColumns}, .device = trireme::Device::host};
  load_checkpoint(stored, std::vector<CheckpointTensor>{{"weight", TensorSlice::whole(plain.shape), plain}});
  EXPECT_EQ(host, values);
}

}  // namespace
}  // namespace trireme
