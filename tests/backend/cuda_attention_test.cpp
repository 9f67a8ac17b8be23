// The dropout of attention on a GPU, which cuDNN draws: the same in forward and backward, of the right size, and repeatable; with
// documents that do not see each other too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/gpu.h"
#include "support/host_tensors.h"

namespace trireme {
namespace {

constexpr int64_t B = 2, T = 128, H = 4, D = 64;

class CudaAttentionDropout : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    backend_ = make_cuda_backend();
    qkv_ = upload(host_.uniform({B, T, 3 * H, D}, DType::bf16));
    d_out_ = upload(host_.uniform({B, T, H, D}, DType::bf16));
    keys_ = upload(host_.row_keys(B * T));
    out_ = upload(host_.uniform({B, T, H, D}, DType::bf16));
    lse_ = upload(host_.uniform({B, H, T}, DType::f32));
    d_qkv_ = upload(host_.uniform({B, T, 3 * H, D}, DType::bf16));
  }

  Tensor upload(const Tensor& host) {
    memory_.push_back(backend_->allocate(host.bytes()));
    Tensor device = host;
    device.data = memory_.back().block.get();
    device.device = Device::cuda;
    backend_->upload(kCompute, host.data, device);
    return device;
  }

  std::vector<float> values(const Tensor& device) {
    std::vector<bf16> bits(static_cast<size_t>(device.count()));
    backend_->download(kCompute, device, bits.data());
    backend_->synchronize(backend_->record(kCompute, "downloaded"));
    std::vector<float> result;
    for (const bf16 value : bits) result.push_back(to_float(value));
    return result;
  }

  template <class Op>
  void run(const Op& op) {
    const Memory scratch = backend_->allocate(backend_->scratch_bytes(op));
    backend_->set_scratch(kCompute, {scratch.block.get(), DType::u8, {backend_->scratch_bytes(op)}, Device::cuda});
    backend_->run(kCompute, op);
    backend_->synchronize(backend_->record(kCompute, "done"));
  }

  Dropout dropout(float probability, uint32_t site = 5) const {
    return {.probability = probability, .seed = 11, .site = site, .row_keys = keys_};
  }
  void forward(const Dropout& dropout) {
    run(AttentionForward{.q = {qkv_, 0, H},
                         .k = {qkv_, H, H},
                         .v = {qkv_, 2 * H, H},
                         .key_length = T,
                         .scale = 0.125f,
                         .dropout = dropout,
                         .document_starts = starts_,
                         .out = out_,
                         .lse = lse_});
  }
  void backward(const Dropout& dropout) {
    run(AttentionBackward{.q = {qkv_, 0, H},
                          .k = {qkv_, H, H},
                          .v = {qkv_, 2 * H, H},
                          .key_length = T,
                          .scale = 0.125f,
                          .dropout = dropout,
                          .document_starts = starts_,
                          .out = out_,
                          .lse = lse_,
                          .d_out = d_out_,
                          .d_q = {d_qkv_, 0, H},
                          .d_k = {d_qkv_, H, H},
                          .d_v = {d_qkv_, 2 * H, H}});
  }

  HostTensors host_;
  std::unique_ptr<Backend> backend_;
  std::vector<Memory> memory_;
  Tensor qkv_, d_out_, keys_, out_, lse_, d_qkv_;
  Tensor starts_;  // of documents, or absent
};

class CudaAttentionDropoutInDocuments : public CudaAttentionDropout, public testing::WithParamInterface<int32_t> {
 protected:
  void SetUp() override {
    CudaAttentionDropout::SetUp();
    if (IsSkipped() || GetParam() == 0) return;
    const Tensor starts = host_.integers({B * T}, 0, 1);
    for (int64_t i = 0; i < B * T; ++i) starts.as<int32_t>()[i] = narrow<int32_t>(i % T / GetParam() * GetParam());
    starts_ = upload(starts);
  }
};
INSTANTIATE_TEST_SUITE_P(Lengths, CudaAttentionDropoutInDocuments, testing::Values(0, 24));

// The output is linear in the values, so <d_v, v> = <d_out, out>, but only if both directions drop the same probabilities.
TEST_P(CudaAttentionDropoutInDocuments, BackwardDropsWhatForwardDropped) {
  forward(dropout(0.3f));
  backward(dropout(0.3f));
  const auto qkv = values(qkv_), d_qkv = values(d_qkv_), out = values(out_), d_out = values(d_out_);
  double by_values = 0, by_outputs = 0, size = 0;
  for (size_t i = 0; i < qkv.size(); ++i)
    if (i / D % (3 * H) >= 2 * H) by_values += static_cast<double>(qkv[i]) * static_cast<double>(d_qkv[i]);
  for (size_t i = 0; i < out.size(); ++i) {
    by_outputs += static_cast<double>(out[i]) * static_cast<double>(d_out[i]);
    size += std::abs(static_cast<double>(out[i]) * static_cast<double>(d_out[i]));
  }
  // Products of bf16 values that were each rounded to 2^-9 with either sign: of the sum of their sizes, about 1/sqrt(65536) of
  // that.
  EXPECT_NEAR(by_values, by_outputs, size * 0x1p-9 * 0x1p-4);
  forward(dropout(0.3f, 6));
  const auto other = values(out_);
  EXPECT_NE(other, out) << "another layer drops other probabilities";
  forward(dropout(0.3f));
  EXPECT_EQ(values(out_), out) << "the same draws twice";
}

// What is kept is scaled up: on average nothing changes. Over 65536 outputs of size 0.1 and a standard deviation of about that.
TEST_F(CudaAttentionDropout, KeepsTheMean) {
  forward({});
  const auto plain = values(out_);
  forward(dropout(0.3f));
  const auto dropped = values(out_);
  double projection = 0, size = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    projection += static_cast<double>(dropped[i]) * static_cast<double>(plain[i]);
    size += static_cast<double>(plain[i]) * static_cast<double>(plain[i]);
  }
  EXPECT_NEAR(projection / size, 1, 0.05);
  EXPECT_NE(dropped, plain);
}

}  // namespace
}  // namespace trireme
