#include "comm/probe/probe_memory.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

constexpr int64_t kPiece = 1 << 20;  // elements

template <class Work>
void in_pieces(const Tensor& tensor, const Work& work) {
  std::vector<float> host(static_cast<size_t>(std::min(kPiece, tensor.count())));
  const Tensor flat = tensor.reshaped({tensor.count()});
  for (int64_t begin = 0; begin < tensor.count(); begin += kPiece) {
    const int64_t count = std::min(kPiece, tensor.count() - begin);
    work(begin, std::span(host).first(static_cast<size_t>(count)), flat.flat_range(begin, {count}));
  }
}

void wait_for(Backend& backend, Stream stream) { backend.synchronize(backend.record(stream, "values_moved")); }

}  // namespace

void wait_for_probe(Backend& backend) { wait_for(backend, kProbeStream); }

void fill_values(Backend& backend, Stream stream, Tensor to, const ValueAt& value) {
  in_pieces(to, [&](int64_t begin, std::span<float> host, const Tensor& piece) {
    for (size_t i = 0; i < host.size(); ++i) host[i] = value(begin + static_cast<int64_t>(i));
    backend.upload(stream, host.data(), piece);
    wait_for(backend, stream);
  });
}

int64_t count_wrong(Backend& backend, Stream stream, Tensor from, const ValueAt& value) {
  int64_t wrong = 0;
  in_pieces(from, [&](int64_t begin, std::span<float> host, const Tensor& piece) {
    backend.download(stream, piece, host.data());
    wait_for(backend, stream);
    for (size_t i = 0; i < host.size(); ++i) wrong += host[i] != value(begin + static_cast<int64_t>(i)) ? 1 : 0;
  });
  return wrong;
}

}  // namespace trireme
