#include "model/inference.h"

#include <array>

namespace trireme {

Context InferencePass::begin(const Dims& dims, std::span<const int32_t> tokens, std::span<const int32_t> positions) const {
  CHECK_EQ(std::ssize(tokens), dims.N());
  CHECK_EQ(std::ssize(positions), dims.N());
  Context context{.backend = backend_,
                  .memory = arena_,
                  .tp = *mesh_.tp,
                  .cp = *mesh_.cp,
                  .linear = ParallelLinear(backend_, *mesh_.tp, arena_, {}),
                  .model = model_,
                  .dims = dims,
                  .dtype = dtype_,
                  .batch = {.tokens = arena_.take({dims.N()}, DType::i32), .positions = arena_.take({dims.N()}, DType::i32)},
                  .mode = Mode::evaluation};
  backend_.upload(kCompute, tokens.data(), context.batch.tokens);
  backend_.upload(kCompute, positions.data(), context.batch.positions);
  return context;
}

// Layers take turns with two parts of the memory: each reads its predecessor's stream before that is overwritten. The first layer
// takes less than the others and has a part of its own.
PendingSum InferencePass::forward(const Context& context, PendingSum stream, std::span<KeyValueCache> caches) const {
  std::array<int64_t, 2> begin{};
  for (int64_t i = 0; i < context.dims.L; ++i) {
    int64_t& mark = begin[static_cast<size_t>(i % 2)];
    if (i < 3)
      mark = arena_.used();
    else
      arena_.rewind(mark);
    const int64_t layer = context.dims.L_first + i;
    BlockActivations a;
    stream = block_forward({context, layer, weights_.acquire(layer), a}, stream, BlockOutput::yes,
                           caches.empty() ? nullptr : &caches[static_cast<size_t>(i)]);
  }
  return stream;
}

}  // namespace trireme
