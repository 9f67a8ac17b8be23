// Reads units of input into blocks: decompresses, walks archives, cuts at line ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "data/prepare/block.h"
#include "data/prepare/byte_source.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme::prepare {

// Supplies a reader with empty blocks and takes the full ones.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  virtual Block* fresh() = 0;               // waits for an empty block; null: the run is stopping
  virtual bool may_grow(Block& block) = 0;  // waits until the block may become large; false: the run is stopping
  virtual void put(Block* block) = 0;       // hands it over
};

struct ReaderSettings {
  int64_t line_bytes = 0;           // limit of a line
  int64_t uncut_bytes = 0;          // limit of text without a place to cut
  int64_t decompressor_bytes = 0;   // limit of one stream's window
  const Tokenizer* cuts = nullptr;  // finds the places to cut long texts; null: texts are not cut
};

// Returns the message for text of so many bytes without a place to cut.
std::string too_long_to_cut(int64_t bytes);

// Checksums of the part's input up to the start of a unit, and up to the position where reading continues.
struct PassedChecksums {
  uint32_t before = 0, after = 0;
};

class BlockReader {
 public:
  BlockReader(const ReaderSettings& settings, BlockSink& sink, std::atomic<int64_t>& bytes_read)
      : settings_(settings), sink_(sink), bytes_read_(bytes_read) {}

  // Puts the blocks of a unit starting at `from`. Input errors go to the tallies of the blocks. UserError if the blocks before
  // `from` are read again and differ. Returns false if the run is stopping and the unit is not read to its end.
  bool read(const InputFile& file, const Unit& unit, const Position& from, const PassedChecksums& passed = {});

 private:
  struct Stopped {};  // thrown when the sink supplies no more blocks

  void read_unit(const InputFile& file, const Unit& unit);
  void read_stream(const InputFile& file, const Unit& unit);
  void compare_passed(const std::string& name);
  void read_wrapped(ByteSource& source, const std::string& name, Wrapping wrapping);
  void read_unknown(ByteSource& source, const std::string& name);
  void read_tar(ByteSource& source, const std::string& name);
  void read_lines(ByteSource& source, const std::string& name);
  void read_plain_lines(const InputFile& file, const Unit& unit);
  void read_text(ByteSource& source, const std::string& name);

  void open_block(Content content, const std::string& name);
  bool fill(ByteSource& source, size_t bytes);
  void grow_block();
  size_t end_of_lines(size_t searched, bool ended);
  bool drop_line(ByteSource& source, int64_t& dropped);
  bool make_room_in_text(ByteSource& source, const std::string& name);
  void end_text_piece(size_t end, PieceEnd how, const std::string& name);
  void put_block(int64_t consumed, int64_t lines);
  void give_up(const std::string& name, Finding finding, const char* what);

  ReaderSettings settings_;
  BlockSink& sink_;
  std::atomic<int64_t>& bytes_read_;

  Block* block_ = nullptr;  // the block being filled
  Block passed_over_;       // replaces the blocks that an earlier run finished
  ByteBuffer tail_;         // the start of the next block
  Position at_;             // position of the block being filled
  int64_t skip_blocks_ = 0;
  PassedChecksums passed_;    // `before` is updated by skipped blocks
  int64_t unit_bytes_ = 0;    // bytes in the blocks of the unit
  int64_t line_limit_ = 0;    // lines that start at this byte or later belong to the next unit
  size_t searched_ = 0;       // bytes of the open piece without a place to cut
  bool in_document_ = false;  // the open text document has pieces in earlier blocks
};

}  // namespace trireme::prepare
