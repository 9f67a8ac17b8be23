// From a unit of input to blocks: unfolds what is compressed, walks through archives, cuts at line ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "data/prepare/block.h"
#include "data/prepare/byte_source.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme::prepare {

// Where a reader's blocks come from and go to.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  virtual Block* fresh() = 0;               // an empty one, waited for; null: the run is being stopped
  virtual bool may_grow(Block& block) = 0;  // waits until it may become large; false: the run is being stopped
  virtual void put(Block* block) = 0;       // hands it over
};

struct ReaderSettings {
  int64_t line_bytes = 0;           // a longer line is too long
  int64_t uncut_bytes = 0;          // a longer stretch of text that cannot be cut is too long
  int64_t decompressor_bytes = 0;   // for the window of one stream
  const Tokenizer* cuts = nullptr;  // says where long texts are cut; null: nowhere
};

// What is said of text without a place to cut it in so many bytes.
std::string too_long_to_cut(int64_t bytes);

// Of the part's input, before a unit and at the place where reading goes on.
struct PassedChecksums {
  uint32_t before = 0, after = 0;
};

class BlockReader {
 public:
  BlockReader(const ReaderSettings& settings, BlockSink& sink, std::atomic<int64_t>& bytes_read)
      : settings_(settings), sink_(sink), bytes_read_(bytes_read) {}

  // Puts the blocks of a unit from `from` on. What is wrong with the input is in the tallies of the blocks. UserError if the
  // blocks before `from` are read again and are not what they were. False: the run is being stopped, and the unit is not read to
  // its end.
  bool read(const InputFile& file, const Unit& unit, const Position& from, const PassedChecksums& passed = {});

 private:
  struct Stopped {};  // thrown when the sink has no more blocks to give

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

  Block* block_ = nullptr;  // being filled
  Block passed_over_;       // stands in for the blocks that an earlier run has finished
  ByteBuffer tail_;         // what begins the next block
  Position at_;             // of the block being filled
  int64_t skip_blocks_ = 0;
  PassedChecksums passed_;    // `before` grows with the blocks that are passed over
  int64_t unit_bytes_ = 0;    // in the blocks of the unit
  int64_t line_limit_ = 0;    // lines that begin at this byte or later belong to another unit
  size_t searched_ = 0;       // bytes of the open piece that have no place to cut
  bool in_document_ = false;  // the open document of text has pieces in earlier blocks
};

}  // namespace trireme::prepare
