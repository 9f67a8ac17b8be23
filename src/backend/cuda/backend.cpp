#include <cublasLt.h>
#include <cuda_profiler_api.h>
#include <cudnn.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cuda/aside.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/replays.h"
#include "backend/cuda/staging.h"
#include "backend/cuda/step_tuning.h"
#include "backend/cuda/streams.h"
#include "backend/cuda/times.h"
#include "base/units.h"

namespace trireme {

CudaBackend::CudaBackend(int device) : device_(device) {
  CUDA_CHECK(cudaSetDevice(device));
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  name_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  capability_ = 10 * properties.major + properties.minor;
  streams_ = std::make_unique<cuda::Streams>();
  staging_ = std::make_unique<cuda::Staging>();
  gemm_ = std::make_unique<cuda::Gemm>(name_);
  attention_ = std::make_unique<cuda::Attention>();
  aside_ = std::make_unique<cuda::Aside>();
  replays_ = std::make_unique<cuda::Replays>();
  times_ = std::make_unique<cuda::Times>();
}

CudaBackend::~CudaBackend() { cudaDeviceSynchronize(); }

void CudaBackend::set_scratch(Stream stream, Tensor scratch) {
  CHECK(stream == kCompute || stream == kWgrad);
  CHECK(scratch.dtype == DType::u8);
  (stream == kCompute ? scratch_ : scratch_wgrad_) = scratch;
}

void* CudaBackend::scratch(Stream stream, int64_t bytes) const {
  const Tensor& memory = stream == kCompute ? scratch_ : scratch_wgrad_;
  CHECK(bytes <= memory.bytes());
  return memory.data;
}

bool CudaBackend::has_room_for_wgrad(int64_t rows, int64_t columns) const {
  return cuda::gemm_tiles(rows, columns) < 2 * multiprocessors_;  // the last wave leaves many multiprocessors idle
}

void CudaBackend::repeat(Stream stream, const WorkKey& key, const std::function<void()>& enqueue) {
  if (step_tuning_ && step_tuning_->done()) step_tuning_.reset();
  if (step_tuning_)
    step_tuning_->run(key, this->stream(stream), enqueue);
  else
    replays_->run(key, this->stream(stream), enqueue);
}

void CudaBackend::forget_repeated_work() { replays_ = std::make_unique<cuda::Replays>(); }

void CudaBackend::tune_repeated_work() { step_tuning_ = std::make_unique<cuda::StepTuning>(*gemm_); }

void CudaBackend::note_time(Stream stream, double* seconds) { times_->note(this->stream(stream), seconds); }
void CudaBackend::read_times() { times_->read(); }
void CudaBackend::collect_times() { times_->collect(); }

void CudaBackend::begin_range(const char* name, std::optional<int64_t> number) {
  if (!number) {
    nvtxRangePushA(name);
    return;
  }
  std::array<char, 64> text{};  // on the stack, because steps must not allocate
  fmt::format_to_n(text.data(), text.size() - 1, "{} {}", name, *number);
  nvtxRangePushA(text.data());
}
void CudaBackend::end_range() { nvtxRangePop(); }

void CudaBackend::set_profiling(Profiling profiling) {
  CUDA_CHECK(cudaDeviceSynchronize());  // so that the profile covers whole steps
  CUDA_CHECK(profiling == Profiling::on ? cudaProfilerStart() : cudaProfilerStop());
}

Event CudaBackend::record(Stream stream, const char* name) { return streams_->record(stream, name); }
void CudaBackend::wait(Stream stream, const Event& event) { streams_->wait(stream, event); }
void CudaBackend::synchronize(const Event& event) { streams_->synchronize(event); }
bool CudaBackend::reached(const Event& event) const {
  thread_local int current = -1;  // a thread's first call must select the device
  if (current != device_) CUDA_CHECK(cudaSetDevice(device_));
  current = device_;
  return streams_->reached(event);
}
void* CudaBackend::native(Stream stream) const { return streams_->get(stream); }
void CudaBackend::set_watch(Watch watch) { streams_->set_watch(std::move(watch)); }
cudaStream_t CudaBackend::stream(Stream stream) { return streams_->get(stream); }

Memory CudaBackend::allocate(int64_t bytes) {
  CHECK(bytes >= 0);
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is handled here
    size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw Failure(
        "out of GPU memory: {} were asked for, {} of {} are free on {}; a smaller model.micro_batch_size or "
        "model.activations_checkpoint_granularity=full needs less",
        format_bytes(bytes), format_bytes(static_cast<int64_t>(free)), format_bytes(static_cast<int64_t>(total)), name_);
  }
  CUDA_CHECK(status);
  return {.device = Device::cuda, .block = std::shared_ptr<void>(block, [](void* address) { cudaFree(address); })};
}

Memory CudaBackend::allocate_host(int64_t bytes) {
  void* block = nullptr;
  CUDA_CHECK(cudaMallocHost(&block, static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  return {.device = Device::host, .block = std::shared_ptr<void>(block, [](void* address) { cudaFreeHost(address); })};
}

void CudaBackend::upload(Stream stream, const void* from, Tensor to) {
  staging_->upload(from, to.data, static_cast<size_t>(to.bytes()), this->stream(stream));
}

void CudaBackend::download(Stream stream, Tensor from, void* to) {
  CUDA_CHECK(cudaMemcpyAsync(to, from.data, static_cast<size_t>(from.bytes()), cudaMemcpyDeviceToHost, this->stream(stream)));
}

std::optional<DeviceMemory> CudaBackend::device_memory() const {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return DeviceMemory{.used = static_cast<int64_t>(total - free), .total = static_cast<int64_t>(total)};
}

std::string CudaBackend::description() const {
  int runtime = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const size_t blas = cublasLtGetVersion(), dnn = cudnnGetVersion();
  return fmt::format("cuda: {}, CUDA {}.{}, cuBLASLt {}.{}.{}, cuDNN {}.{}.{}", name_, runtime / 1000, runtime % 1000 / 10,
                     blas / 10000, blas / 100 % 100, blas % 100, dnn / 10000, dnn / 100 % 100, dnn % 100);
}

}  // namespace trireme

// The entry points that cuda_module.cpp loads.
extern "C" int trireme_cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;  // CUDA reports a driver without a GPU as an error
}
extern "C" trireme::Backend* trireme_make_cuda_backend(int device) { return new trireme::CudaBackend(device); }
