#include "backend/cpu/kernels/attention.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme::cpu {
namespace {

constexpr int64_t kScratchAlignment = 64;

const AttentionKernels& kernels_for(Isa isa, DType dtype) {
  CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16);
  if (dtype == DType::f32) return TRIREME_KERNELS_FOR(isa, attention_f32);
  if (dtype == DType::f16) return TRIREME_KERNELS_FOR(isa, attention_f16);
#if defined(__x86_64__)
  if (isa == Isa::amx) return amx::attention_bf16;
  if (isa == Isa::amx_emulated) return amx_emulated::attention_bf16;
#endif
  return TRIREME_KERNELS_FOR(isa, attention_bf16);
}

HeadsArgument heads_argument(const HeadsView& view, DType dtype) {
  const Shape& shape = view.packed.shape();  // [B,T,*,D]
  CHECK_EQ(shape.rank(), 4);
  CHECK(view.packed.dtype() == dtype);
  CHECK(view.first >= 0 && view.first + view.count <= shape[2]);
  // While scratch is measured the tensor has no storage, so there is no address to offset.
  void* data = view.packed.tensor.data;
  if (data != nullptr) data = static_cast<char*>(data) + view.first * shape[3] * size_of(dtype);
  return {.data = data, .batch_stride = shape[1] * shape[2] * shape[3], .row_stride = shape[2] * shape[3]};
}

HeadsView all_heads(const Operand& heads) { return {.packed = heads, .first = 0, .count = heads.shape()[2]}; }

// The arguments that AttentionForward and AttentionBackward share.
template <class Op>
AttentionArguments arguments(const Op& op) {
  const Shape &q = op.q.packed.shape(), &k = op.k.packed.shape(), &v = op.v.packed.shape();
  const DType dtype = op.q.packed.dtype();
  const int64_t B = q[0], Tq = q[1], D = q[3], H = op.q.count, G = op.k.count;
  CHECK_EQ(k[0], B);
  CHECK_EQ(v[0], B);
  CHECK_EQ(v[1], k[1]);
  CHECK_EQ(k[3], D);
  CHECK_EQ(v[3], D);
  CHECK_EQ(op.v.count, G);
  const HeadsView out = all_heads(op.out);
  CHECK_EQ(out.packed.shape(), Shape({B, Tq, H, D}));
  CHECK_EQ(op.lse.shape, Shape({B, H, Tq}));
  CHECK(D >= 1 && D <= 256);
  CHECK(op.key_length >= 1 && op.key_length <= k[1]);
  CHECK_EQ(op.first_key % 4, 0);
  CHECK(!op.document_starts || op.document_starts.count() == B * Tq);
  CHECK(op.scale > 0);  // the maximum is taken before scaling
  return {.queries = Tq,
          .keys = k[1],
          .key_length = op.key_length,
          .first_key = op.first_key,
          .heads = H,
          .group = div_exact(H, G),
          .width = D,
          .causal = op.causal == CausalMask::yes,
          .scale = op.scale,
          .dropout = dropout_arguments(op.dropout, B * Tq),
          .document_starts = op.document_starts ? op.document_starts.template as<int32_t>() : nullptr,
          .q = heads_argument(op.q, dtype),
          .k = heads_argument(op.k, dtype),
          .v = heads_argument(op.v, dtype),
          .out = heads_argument(out, dtype),
          .lse = op.lse.template as<float>()};
}

// Queries per forward task. Long tasks pack the keys less often. A query's result is the same in any task, so the length may
// depend on the number of threads: each thread should get several tasks.
int64_t task_queries(const AttentionArguments& a, int64_t key_heads, int threads) {
  constexpr int64_t kMost = 512, kFewest = 128, kTasksPerThread = 4;
  const int64_t queries = round_up(a.queries, kAttentionQueryBlock);
  int64_t length = std::min(queries, std::max(kFewest, round_up(kMost / a.group, kAttentionQueryBlock)));
  while (length >= 2 * kFewest && key_heads * ceil_div(a.queries, length) < kTasksPerThread * threads) length /= 2;
  return round_up(length, kAttentionQueryBlock);
}

// How many parts backward splits the work of a key/value head into when there are few heads. Each part has its own sums of d_k
// and d_v, which are added at the end. The number depends only on shapes, so that the bits do not depend on the number of
// threads.
int64_t backward_parts(const AttentionArguments& a, int64_t key_heads) {
  constexpr int64_t kTasks = 16;
  const int64_t units = a.group * ceil_div(a.queries, kAttentionBackwardChunk);
  return std::clamp<int64_t>(kTasks / key_heads, 1, units);
}

// The scratch of backward: one piece per thread, followed by the sums of every part if heads are split into parts. A head in one
// part keeps its sums in the piece of its thread.
struct BackwardMemory {
  int64_t parts;
  int64_t sums_bytes;
  int64_t thread_bytes;
  int64_t total_bytes;
};

BackwardMemory backward_memory(const AttentionKernels& kernels, const AttentionArguments& a, int64_t key_heads, int threads) {
  const int64_t parts = backward_parts(a, key_heads), sums = kernels.key_gradient_bytes(a);
  const int64_t thread = kernels.backward_scratch_bytes(a) + (parts == 1 ? sums : 0);
  const int64_t shared = parts == 1 ? 0 : key_heads * parts * sums;
  return {.parts = parts, .sums_bytes = sums, .thread_bytes = thread, .total_bytes = threads * thread + shared};
}

char* scratch_of(const Tensor& scratch, int64_t bytes) {
  CHECK(scratch.bytes() >= bytes);
  CHECK_EQ(reinterpret_cast<uintptr_t>(scratch.data) % kScratchAlignment, 0u);
  return static_cast<char*>(scratch.data);
}

}  // namespace
}  // namespace trireme::cpu

namespace trireme {

int64_t CpuBackend::scratch_bytes(const AttentionForward& op) const {
  const cpu::AttentionArguments a = cpu::arguments(op);
  const int64_t queries = cpu::task_queries(a, op.q.packed.shape()[0] * op.k.count, pool_.size());
  return cpu::kernels_for(isa_, op.q.packed.dtype()).forward_scratch_bytes(a, queries) * pool_.size();
}

void CpuBackend::run(Stream, const AttentionForward& op) {
  const cpu::AttentionArguments a = cpu::arguments(op);
  const cpu::AttentionKernels& kernels = cpu::kernels_for(isa_, op.q.packed.dtype());
  const int64_t G = op.k.count, key_heads = op.q.packed.shape()[0] * G;
  const int64_t length = cpu::task_queries(a, key_heads, pool_.size()), chunks = ceil_div(a.queries, length);
  const int64_t thread_bytes = kernels.forward_scratch_bytes(a, length);
  char* scratch = cpu::scratch_of(scratch_, thread_bytes * pool_.size());
  pool_.run_on_threads(chunks * key_heads, [&](int64_t i, int thread) {
    // Under the causal mask late queries have the most work, so they run first.
    const int64_t begin = (chunks - 1 - i / key_heads) * length, head = i % key_heads;
    kernels.forward(a, {.batch = head / G, .key_head = head % G, .begin = begin, .end = std::min(begin + length, a.queries)},
                    scratch + thread * thread_bytes);
  });
}

int64_t CpuBackend::scratch_bytes(const AttentionBackward& op) const {
  const int64_t key_heads = op.q.packed.shape()[0] * op.k.count;
  return cpu::backward_memory(cpu::kernels_for(isa_, op.q.packed.dtype()), cpu::arguments(op), key_heads, pool_.size())
      .total_bytes;
}

void CpuBackend::run(Stream, const AttentionBackward& op) {
  const DType dtype = op.q.packed.dtype();
  const cpu::AttentionBackwardArguments b{.forward = cpu::arguments(op),
                                          .d_out = cpu::heads_argument(cpu::all_heads(op.d_out), dtype),
                                          .d_q = cpu::heads_argument(op.d_q, dtype),
                                          .d_k = cpu::heads_argument(op.d_k, dtype),
                                          .d_v = cpu::heads_argument(op.d_v, dtype)};
  CHECK_EQ(op.d_out.shape, op.out.shape);
  const cpu::AttentionKernels& kernels = cpu::kernels_for(isa_, dtype);
  const int64_t G = op.k.count, key_heads = op.q.packed.shape()[0] * G;
  const cpu::BackwardMemory memory = cpu::backward_memory(kernels, b.forward, key_heads, pool_.size());
  const int64_t parts = memory.parts;
  char* scratch = cpu::scratch_of(scratch_, memory.total_bytes);
  char* sums_of_parts = scratch + pool_.size() * memory.thread_bytes;
  pool_.run_on_threads(parts * key_heads, [&](int64_t i, int thread) {
    const int64_t part = parts - 1 - i / key_heads, head = i % key_heads;  // the last part has the latest queries
    char* own = scratch + thread * memory.thread_bytes;
    char* sums =
        parts == 1 ? own + memory.thread_bytes - memory.sums_bytes : sums_of_parts + (head * parts + part) * memory.sums_bytes;
    kernels.backward(b, {.batch = head / G, .key_head = head % G, .part = part, .parts = parts}, own,
                     reinterpret_cast<float*>(sums));
    if (parts == 1) kernels.store_key_gradients(b, head / G, head % G, 1, reinterpret_cast<float*>(sums));
  });
  if (parts == 1) return;
  pool_.run(key_heads, [&](int64_t head) {
    float* sums = reinterpret_cast<float*>(sums_of_parts + head * parts * memory.sums_bytes);
    kernels.store_key_gradients(b, head / G, head % G, parts, sums);
  });
}

}  // namespace trireme
