// A block is about half a megabyte of input on its way from a reader through a worker to the writer of its part. Blocks are
// allocated once and reused, because fresh memory costs more than the work done on it.
//
// Block boundaries depend on the input alone. So a resumed run finds the same blocks, and a block number says how far a run got.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/prepare/input_files.h"
#include "data/prepare/tally.h"

namespace trireme::prepare {

inline constexpr size_t kBlockBytes = size_t{1} << 19;

// A byte buffer that keeps its memory, does not zero it, and grows without a second copy (realloc moves pages).
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~ByteBuffer() { std::free(data_); }

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  void resize(size_t size) {
    if (size > capacity_) reallocate(std::max(size, capacity_ + capacity_ / 2));
    size_ = size;
  }
  void clear() { size_ = 0; }
  void append(std::span<const char> bytes) {
    const size_t at = size_;
    resize(at + bytes.size());
    std::copy(bytes.begin(), bytes.end(), data_ + at);
  }
  // Frees the memory that a large document took beyond `usual`.
  void shrink(size_t usual) {
    size_ = std::min(size_, usual);
    if (capacity_ > usual) reallocate(usual);
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(data_, size_)); }

 private:
  void reallocate(size_t capacity) {
    void* grown = std::realloc(data_, capacity);
    if (grown == nullptr) throw std::bad_alloc();
    data_ = static_cast<char*>(grown);
    capacity_ = capacity;
  }
  char* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

// Where reading continues.
struct Position {
  int64_t unit = 0;   // index in the part
  int64_t block = 0;  // index in the unit
  int64_t byte = 0;   // offset of that block in the decompressed file
  int64_t line = 1;   // its first line; 0: unknown, in a unit that starts inside a file

  bool operator==(const Position&) const = default;
};

enum class PieceEnd : uint8_t { document, cut };  // a long text is cut only where the cut changes no token

struct TextPiece {
  size_t end = 0;  // offset in the bytes of the block
  PieceEnd how = PieceEnd::document;
  std::string name;  // name of its file
};

enum class Size : uint8_t { usual, large };

struct Block {
  // Set by the reader.
  int64_t number = 0;  // in its part, counted from the start of this run
  Position next;       // position after this block
  Content content = Content::json_lines;
  Size size = Size::usual;
  std::string name;  // name of the file
  int64_t first_line = 0, first_byte = 0;
  ByteBuffer bytes;
  std::vector<TextPiece> pieces;  // for Content::text
  bool continues = false;         // the first piece continues a document of the previous block
  Tally tally;

  // Set by the worker.
  ByteBuffer tokens;                     // in the format of the .bin
  std::vector<int32_t> document_tokens;  // per document that ends in this block: its tokens in this block
  int64_t open_tokens = 0;               // tokens of a document that continues in the next block
  int64_t text_bytes = 0;

  void reset() {
    size = Size::usual;
    name.clear();
    bytes.shrink(2 * kBlockBytes);
    bytes.clear();
    pieces.clear();
    continues = false;
    tally.clear();
    tokens.shrink(4 * kBlockBytes);
    tokens.clear();
    document_tokens.clear();
    open_tokens = text_bytes = 0;
  }
};

}  // namespace trireme::prepare
