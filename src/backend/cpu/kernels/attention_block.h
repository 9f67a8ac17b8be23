// The geometry of a block of scores, shared by all parts of attention, and the layout of a kernel call's scratch.
#pragma once

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA::attention {

TRIREME_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
TRIREME_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
TRIREME_INLINE int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
TRIREME_INLINE int64_t padded(int64_t count, int64_t multiple) { return blocks_of(count, multiple) * multiple; }

// The scores of some queries (rows) and some keys (columns). Under the causal mask each row sees one column more than the row
// above. GEMMs skip the tiles to the right of this staircase.
struct ScoreBlock {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row0_sees = 0;  // columns that row 0 sees; below 0 or above `columns` for rows far from the diagonal
  int64_t step = 0;       // how many more columns the next row sees

  TRIREME_INLINE int64_t visible(int64_t row) const { return larger(0, smaller(columns, row0_sees + step * row)); }
  TRIREME_INLINE int64_t first_row_that_sees(int64_t column) const { return step == 0 ? 0 : larger(0, column + 1 - row0_sees); }
};

// How many keys, from the first, query i sees.
TRIREME_INLINE int64_t visible_keys(const AttentionArguments& a, int64_t i) {
  return a.causal ? larger(0, smaller(a.key_length, i + 1 + a.key_length - a.queries)) : a.key_length;
}

TRIREME_INLINE ScoreBlock score_block(const AttentionArguments& a, int64_t query, int64_t rows, int64_t key, int64_t columns) {
  if (!a.causal) return {.rows = rows, .columns = columns, .row0_sees = columns, .step = 0};
  return {.rows = rows, .columns = columns, .row0_sees = query + 1 + a.key_length - a.queries - key, .step = 1};
}

// How many columns, from the first, the rows of a block do not see because these keys belong to earlier documents. Row 0 has the
// fewest hidden columns.
struct HiddenColumns {
  const int32_t* starts = nullptr;  // [rows] position of the first key that a row sees; null: nothing is hidden
  int64_t first_key = 0;            // position of column 0

  TRIREME_INLINE int64_t of(int64_t row) const { return starts == nullptr ? 0 : larger(0, starts[row] - first_key); }
};

TRIREME_INLINE HiddenColumns hidden_columns(const AttentionArguments& a, int64_t batch, int64_t query, int64_t key) {
  if (a.document_starts == nullptr) return {};
  return {.starts = a.document_starts + batch * a.queries + query, .first_key = a.first_key + key};
}

// Sets hidden scores to -infinity, which gives probability 0 and no gradient.
TRIREME_INLINE void hide(const ScoreBlock& block, const HiddenColumns& hidden, float* scores, int64_t stride) {
  if (hidden.starts == nullptr) return;
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t columns = smaller(hidden.of(row), block.visible(row));
    for (int64_t c = 0; c < columns; ++c) scores[row * stride + c] = -__builtin_inff();
  }
}

template <class T>
TRIREME_INLINE T* head_rows(const HeadsArgument& heads, int64_t batch, int64_t head, int64_t width, int64_t row) {
  return static_cast<T*>(heads.data) + batch * heads.batch_stride + row * heads.row_stride + head * width;
}

// Hands out pieces of a thread's scratch, each aligned to cache lines. Started at null it only measures.
class ScratchLayout {
 public:
  explicit ScratchLayout(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    const int64_t offset = used_;
    used_ += padded(count * static_cast<int64_t>(sizeof(T)), 64);
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

}  // namespace trireme::cpu::TRIREME_ISA::attention
