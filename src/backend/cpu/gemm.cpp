#include "backend/cpu/gemm.h"

#include <algorithm>

#include "backend/cpu/kernels/pointwise_select.h"
#include "base/error.h"

namespace trireme::cpu {
namespace {

const LinearKernel& linear_kernel(Isa isa) { return TRIREME_KERNELS_FOR(isa, kLinearKernel); }

// The size of equal parts of `total`: as few parts as possible, none larger than `most`.
int64_t even_part(int64_t total, int64_t most) { return ceil_div(total, ceil_div(total, std::max<int64_t>(most, 1))); }

// How a GEMM is split. The outermost parts are chunks, whose packed panels fit into the scratch. The sums of a chunk are split
// into tasks, and a task processes K in blocks. Sizes along M and N are in panels, those along K in elements.
struct Plan {
  int64_t k_block = 0, k_chunk = 0;
  int64_t m_chunk = 0, n_chunk = 0;
  int64_t m_task = 0, n_task = 0;
  bool keeps_sums = false;    // K has several chunks, and the sums of all tasks stay in scratch between them
  bool single_block = false;  // each tile's epilogue overlaps with the next tile's GEMM, so two buffers are enough
  int64_t a_bytes = 0, b_bytes = 0, task_sums_bytes = 0, sums_bytes = 0;

  int64_t scratch_bytes() const { return a_bytes + b_bytes + sums_bytes; }
};

constexpr int64_t kTilesInTurn = 2;  // one is computed while the epilogue of the other runs

Plan make_plan(const GemmKernel& kernel, int threads, const Gemm& gemm) {
  // Chunks are long enough that packing costs little compared with the multiply-adds per element, and short enough to stay mostly
  // in the last-level cache, which grows with the number of threads.
  const int64_t chunk_bytes = (int64_t{16} + threads) << 20;
  constexpr int64_t kMaxChunkK = 2048;
  // Several tasks per thread, so that a thread that starts late or is interrupted does not delay the others for long.
  const int64_t tasks_per_thread = kernel.task_packs_a ? 2 : 6;

  Plan plan;
  plan.k_block = round_up(even_part(gemm.k, kernel.k_block), kernel.k_step);
  plan.k_chunk = plan.k_block * std::min(ceil_div(gemm.k, plan.k_block), std::max<int64_t>(1, kMaxChunkK / plan.k_block));
  const int64_t m_panels = ceil_div(gemm.m, kernel.tile_rows), n_panels = ceil_div(gemm.n, kernel.tile_columns);
  plan.m_chunk = kernel.task_packs_a ? m_panels : even_part(m_panels, chunk_bytes / (plan.k_chunk * kernel.a_k_bytes));
  plan.n_chunk = even_part(n_panels, chunk_bytes / (plan.k_chunk * kernel.b_k_bytes));

  const int64_t a_panel_bytes = plan.k_block * kernel.a_k_bytes;
  int64_t m_most = std::min(kernel.task_rows / kernel.tile_rows, std::max<int64_t>(1, kernel.task_a_bytes / a_panel_bytes));
  int64_t n_most = std::min(kernel.task_columns / kernel.tile_columns, plan.n_chunk);
  const auto tasks = [&] { return ceil_div(plan.m_chunk, m_most) * ceil_div(plan.n_chunk, n_most); };
  while (threads > 1 && tasks() < tasks_per_thread * threads && m_most * n_most > 1)
    (m_most * kernel.tile_rows > (kernel.task_packs_a ? 256 : n_most * kernel.tile_columns) || n_most == 1 ? m_most : n_most) /=
        2;
  plan.m_task = even_part(plan.m_chunk, m_most);
  plan.n_task = even_part(plan.n_chunk, n_most);

  plan.keeps_sums = plan.k_chunk < gemm.k && gemm.finish.finish != Finish::add;
  plan.single_block = plan.k_chunk == plan.k_block && !plan.keeps_sums;
  plan.a_bytes = (kernel.task_packs_a ? plan.m_task * threads : plan.m_chunk) * plan.k_chunk * kernel.a_k_bytes;
  plan.b_bytes = plan.n_chunk * plan.k_chunk * kernel.b_k_bytes;
  const int64_t tiles = plan.single_block ? kTilesInTurn : plan.m_task * plan.n_task;
  plan.task_sums_bytes = tiles * kernel.tile_rows * kernel.tile_columns * int64_t{sizeof(float)};
  plan.sums_bytes = plan.task_sums_bytes *
                    (plan.keeps_sums ? ceil_div(plan.m_chunk, plan.m_task) * ceil_div(plan.n_chunk, plan.n_task) : threads);
  return plan;
}

struct Range {
  int64_t begin = 0, count = 0;
};
Range part(int64_t total, int64_t size, int64_t begin) { return {begin, std::min(size, total - begin)}; }

// The packed panels of one operand in one chunk: blocks of K in order, within each block its panels in order.
struct PackedChunk {
  std::byte* data = nullptr;
  int64_t panel_width = 0, k_bytes = 0;
  Range width, k;  // the range of the operand, in elements
  int64_t k_block = 0, k_step = 0;

  int64_t panels() const { return ceil_div(width.count, panel_width); }
  int64_t blocks() const { return ceil_div(k.count, k_block); }
  Range block(int64_t index) const { return part(k.begin + k.count, k_block, k.begin + index * k_block); }
  int64_t padded_k(int64_t index) const { return round_up(block(index).count, k_step); }
  std::byte* panel(int64_t block_index, int64_t index) const {
    return data + (block_index * k_block * panels() + index * padded_k(block_index)) * k_bytes;
  }
};

const std::byte* element_address(const GemmOperand& operand, int64_t width, int64_t k) {
  const int64_t index = operand.layout == Layout::k_contiguous ? width * operand.stride + k : k * operand.stride + width;
  return static_cast<const std::byte*>(operand.data) + index * (operand.element == Element::f32 ? 4 : 2);
}

// Panels per packing task: enough that runs along the width are several cache lines long.
int64_t panels_per_pack(const PackedChunk& chunk) { return ceil_div(128, chunk.panel_width); }
int64_t pack_tasks(const PackedChunk& chunk) { return ceil_div(chunk.panels(), panels_per_pack(chunk)); }
Range panels_of(const PackedChunk& chunk, int64_t pack_task) {
  return part(chunk.panels(), panels_per_pack(chunk), pack_task * panels_per_pack(chunk));
}

class GemmRun {
 public:
  GemmRun(ThreadPool& pool, Isa isa, const Gemm& gemm, std::span<std::byte> scratch)
      : pool_(pool),
        gemm_(gemm),
        kernel_(gemm_kernel(isa, gemm.a.element)),
        linear_(linear_kernel(isa)),
        plan_(make_plan(kernel_, pool.size(), gemm)) {
    CHECK(static_cast<int64_t>(scratch.size()) >= plan_.scratch_bytes());
    a_.data = scratch.data();
    b_.data = a_.data + plan_.a_bytes;
    sums_ = b_.data + plan_.b_bytes;
    a_.panel_width = kernel_.tile_rows, a_.k_bytes = kernel_.a_k_bytes;
    b_.panel_width = kernel_.tile_columns, b_.k_bytes = kernel_.b_k_bytes;
    a_.k_block = b_.k_block = plan_.k_block;
    a_.k_step = b_.k_step = kernel_.k_step;
  }

  void run() {
    const int64_t n_step = plan_.n_chunk * kernel_.tile_columns, m_step = plan_.m_chunk * kernel_.tile_rows;
    for (int64_t n = 0; n < gemm_.n; n += n_step)
      for (int64_t m = 0; m < gemm_.m; m += m_step)
        for (int64_t k = 0; k < gemm_.k; k += plan_.k_chunk) {
          a_.width = part(gemm_.m, m_step, m), b_.width = part(gemm_.n, n_step, n);
          a_.k = b_.k = part(gemm_.k, plan_.k_chunk, k);
          // With a single chunk along K all chunks along M share the panels of B.
          pack(m == 0 || plan_.k_chunk < gemm_.k);
          multiply();
        }
  }

 private:
  void pack(bool b_too) {
    const int64_t a_tasks = kernel_.task_packs_a ? 0 : pack_tasks(a_);
    pool_.run(a_tasks + (b_too ? pack_tasks(b_) : 0), [&](int64_t task) {
      if (task < a_tasks)
        pack_panels(gemm_.a, a_, panels_of(a_, task), kernel_.pack_a, b_.width.begin == 0 ? gemm_.a_sums : nullptr);
      else
        pack_panels(gemm_.b, b_, panels_of(b_, task - a_tasks), kernel_.pack_b, nullptr);
    });
  }

  void pack_panels(const GemmOperand& operand, const PackedChunk& chunk, Range panels, const PackPanels (&packs)[kElements][2],
                   float* row_sums) const {
    const PackPanels pack_block = packs[static_cast<int>(operand.element)][static_cast<int>(operand.layout)];
    const Range width = part(chunk.width.count, panels.count * chunk.panel_width, panels.begin * chunk.panel_width);
    if (row_sums != nullptr) row_sums += chunk.width.begin + width.begin;
    for (int64_t block = 0; block < chunk.blocks(); ++block) {
      const Range k = chunk.block(block);
      const std::byte* from = element_address(operand, chunk.width.begin + width.begin, k.begin);
      pack_block(from, operand.stride, width.count, k.count, chunk.panel(block, panels.begin), row_sums);
    }
  }

  void multiply() {
    const int64_t m_tasks = ceil_div(a_.panels(), plan_.m_task), n_tasks = ceil_div(b_.panels(), plan_.n_task);
    pool_.run_on_threads(m_tasks * n_tasks, [&](int64_t task, int thread) {
      const Range m = part(a_.panels(), plan_.m_task, task % m_tasks * plan_.m_task);
      const Range n = part(b_.panels(), plan_.n_task, task / m_tasks * plan_.n_task);
      float* sums = reinterpret_cast<float*>(sums_ + (plan_.keeps_sums ? task : thread) * plan_.task_sums_bytes);
      if (kernel_.task_packs_a)
        multiply_task(own_panels(m, n.begin == 0 && b_.width.begin == 0, thread), {0, m.count}, n, sums);
      else
        multiply_task(a_, m, n, sums);
      if (gemm_.finish.streams) linear_.end_stream();
    });
  }

  // The A panels of one task, packed into this thread's part of the scratch.
  PackedChunk own_panels(Range m, bool with_sums, int thread) const {
    PackedChunk own = a_;
    own.data += thread * plan_.m_task * plan_.k_chunk * kernel_.a_k_bytes;
    own.width = part(a_.width.begin + a_.width.count, m.count * kernel_.tile_rows, a_.width.begin + m.begin * kernel_.tile_rows);
    pack_panels(gemm_.a, own, {0, m.count}, kernel_.pack_a, with_sums ? gemm_.a_sums : nullptr);
    return own;
  }

  // A tile whose sums are complete and whose epilogue has not run.
  struct CompleteTile {
    const GemmRun* run = nullptr;
    TilePlace place;
    const float* sums = nullptr;

    SideWork rest() const { return {.rows = place.rows, .run = finish_rows, .state = this}; }
  };

  static void finish_rows(const void* state, int64_t first, int64_t count) {
    const auto& [run, place, sums] = *static_cast<const CompleteTile*>(state);
    const int64_t stride = run->kernel_.tile_columns;
    const TilePlace rows = {place.row + first, place.column, count, place.columns};
    run->linear_.finish(run->gemm_.finish, rows, sums + first * stride, stride);
  }

  // Computes the tiles of m x n panels. B panels are the outer loop, so that one stays in L1 or L2 while the A panels stream
  // through. The epilogue of each tile overlaps with the GEMM of the next.
  void multiply_task(const PackedChunk& a, Range m, Range n, float* sums) const {
    const int64_t tile = kernel_.tile_rows * kernel_.tile_columns;
    CompleteTile complete;
    kernel_.begin_task();
    for (int64_t block = 0; block < a.blocks(); ++block) {
      const bool first = block == 0 && (a.k.begin == 0 || !plan_.keeps_sums);
      const bool last = block + 1 == a.blocks() && (a.k.begin + a.k.count == gemm_.k || !plan_.keeps_sums);
      const int64_t step = last ? 1 : m.count;
      for (int64_t i = 0; i < n.count; ++i) {
        const std::byte* b_panel = b_.panel(block, n.begin + i);
        const std::byte* b_next = b_.panel(block, n.begin + i + 1);
        for (int64_t j = 0; j < m.count; j += step) {
          const int64_t index = i * m.count + j;
          float* tiles = sums + (plan_.single_block ? index % kTilesInTurn : index) * tile;
          const int64_t b_bytes = (b_next - b_panel) / (m.count / step);
          kernel_.multiply(step, a.padded_k(block), a.panel(block, m.begin + j), b_panel, tiles, first,
                           {b_next + j / step * b_bytes, b_bytes}, complete.rest());
          complete = last ? CompleteTile{this, place_of(a, m.begin + j, n.begin + i), tiles} : CompleteTile{};
        }
      }
    }
    kernel_.end_task();
    if (complete.run != nullptr) finish_rows(&complete, 0, complete.place.rows);
  }

  TilePlace place_of(const PackedChunk& a, int64_t m_panel, int64_t n_panel) const {
    const Range rows = part(a.width.count, kernel_.tile_rows, m_panel * kernel_.tile_rows);
    const Range columns = part(b_.width.count, kernel_.tile_columns, n_panel * kernel_.tile_columns);
    return {a.width.begin + rows.begin, b_.width.begin + columns.begin, rows.count, columns.count};
  }

  ThreadPool& pool_;
  const Gemm& gemm_;
  const GemmKernel& kernel_;
  const LinearKernel& linear_;
  const Plan plan_;
  PackedChunk a_, b_;
  std::byte* sums_ = nullptr;
};

// With few rows each weight is used only a few times, so packing it would cost more than the GEMM.
bool is_few(const Gemm& gemm) {
  return gemm.m <= LinearKernel::kFewRows && gemm.a.layout == Layout::k_contiguous && gemm.b.layout == Layout::k_contiguous;
}

void run_few(ThreadPool& pool, Isa isa, const Gemm& gemm) {
  constexpr int64_t kColumns = 64;
  const LinearKernel& linear = linear_kernel(isa);
  pool.run(ceil_div(gemm.n, kColumns), [&](int64_t task) {
    const Range columns = part(gemm.n, kColumns, task * kColumns);
    float sums[LinearKernel::kFewRows * kColumns] = {};
    linear.multiply_few(gemm.a.element, gemm.a.data, element_address(gemm.b, columns.begin, 0), gemm.m, columns.count, gemm.k,
                        sums, kColumns);
    linear.finish(gemm.finish, {0, columns.begin, gemm.m, columns.count}, sums, kColumns);
  });
}

}  // namespace

const GemmKernel& gemm_kernel(Isa isa, Element element) {
#if defined(__x86_64__)
  if (element == Element::bf16 && isa == Isa::amx) return amx::kGemmKernel;
  if (element == Element::bf16 && isa == Isa::amx_emulated) return amx_emulated::kGemmKernel;
#endif
  return TRIREME_KERNELS_FOR(isa, kGemmKernel);
}

int64_t gemm_scratch_bytes(int threads, Isa isa, const Gemm& gemm) {
  return is_few(gemm) ? 0 : make_plan(gemm_kernel(isa, gemm.a.element), threads, gemm).scratch_bytes();
}

void run_gemm(ThreadPool& pool, Isa isa, const Gemm& gemm, std::span<std::byte> scratch) {
  if (is_few(gemm)) return run_few(pool, isa, gemm);
  GemmRun(pool, isa, gemm, scratch).run();
}

}  // namespace trireme::cpu
