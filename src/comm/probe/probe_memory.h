// Memory of a backend that is filled with known numbers and compared again, in pieces, so that the host needs little memory.
#pragma once

#include <functional>

#include "backend/backend.h"

namespace trireme {

// Of everything between ranks: its calls are enqueued one after the other, as a run does.
inline constexpr Stream kProbeStream = kDataParallel;
void wait_for_probe(Backend& backend);  // until all its calls are done

using ValueAt = std::function<float(int64_t index)>;

// `to` and `from` are f32 and contiguous. Both wait until all earlier work of the stream is done.
void fill_values(Backend& backend, Stream stream, Tensor to, const ValueAt& value);
int64_t count_wrong(Backend& backend, Stream stream, Tensor from, const ValueAt& value);  // elements that differ

}  // namespace trireme
