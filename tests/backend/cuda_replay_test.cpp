// Work that the CUDA backend records and launches again does what it did the first time, on all the streams that it is spread
// over. Runs where a GPU is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "support/gpu.h"
#include "support/host_tensors.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

enum class Passes { separate, repeated, tuned };

// The gradients after `times` equal passes over 8192 rows, so many that the sums of the bias go beside the product.
std::vector<float> weight_and_bias_grads(int times, Passes passes) {
  constexpr int64_t N = 8192, I = 64, O = 32;
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  HostTensors host;
  std::vector<Memory> memory;
  const auto on_device = [&](const Tensor& from) {
    Tensor device{.dtype = from.dtype, .shape = from.shape, .device = Device::cuda};
    memory.push_back(backend->allocate(device.bytes()));
    device.data = memory.back().block.get();
    backend->upload(kCompute, from.data, device);
    return device;
  };
  const Tensor grads = on_device(host.uniform({O * I + O}, DType::f32));
  const LinearWeightGrad op{.x = on_device(host.uniform({N, I}, DType::bf16)),
                            .d_out = on_device(host.uniform({N, O}, DType::bf16)),
                            .d_weight = grads.rows(0, O * I).reshaped({O, I}),
                            .d_bias = grads.rows(O * I, O)};
  const int64_t scratch_bytes = backend->scratch_bytes(op);
  const Memory scratch = backend->allocate(scratch_bytes);
  backend->set_scratch(kCompute, {scratch.block.get(), DType::u8, {scratch_bytes}, Device::cuda});
  if (passes == Passes::tuned) backend->tune_repeated_work();
  for (int i = 0; i < times; ++i) {
    const auto enqueue = [&] { backend->run(kCompute, op); };
    passes != Passes::separate ? backend->repeat(kCompute, WorkKey{.kind = WorkKind::backward_weight}, enqueue) : enqueue();
  }
  std::vector<float> result(static_cast<size_t>(grads.count()));
  backend->download(kCompute, grads, result.data());
  backend->synchronize(backend->record(kCompute, "downloaded"));
  return result;
}

TEST(CudaReplay, GivesTheSameBits) {
  SKIP_WITHOUT_GPU();
  const std::vector<float> expected = weight_and_bias_grads(5, Passes::separate);
  EXPECT_NE(expected, weight_and_bias_grads(4, Passes::separate));
  EXPECT_EQ(expected, weight_and_bias_grads(5, Passes::repeated));
}

// Every pass counts once, with whichever plan: 500 sums in f32 differ by less than 1e-4 of the largest, one pass is 2e-3 of it.
TEST(CudaReplay, WorkIsDoneWhileItIsTuned) {
  SKIP_WITHOUT_GPU();
  constexpr int kPasses = 500;  // some 50 are needed to tune one product
  const TemporaryFolder folder;
  const auto cache = folder.path() / "cache";
  setenv("TRIREME_CACHE", cache.c_str(), 1);
  const std::vector<float> tuned = weight_and_bias_grads(kPasses, Passes::tuned);
  EXPECT_FALSE(std::filesystem::is_empty(cache)) << "the plan was not kept";
  const std::vector<float> expected = weight_and_bias_grads(kPasses, Passes::separate);
  unsetenv("TRIREME_CACHE");
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(tuned[i], expected[i], 1e-4 * largest) << i;
}

}  // namespace
}  // namespace trireme
