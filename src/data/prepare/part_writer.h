// A part is a range of the input. Its tokens are in separate files until all parts are finished: part-00000.bin has the tokens,
// part-00000.documents the tokens per document (int32), and part-00000.journal periodic JSON lines that say how much of both is
// valid and where reading continues. A killed run continues from the last line that matches the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/file.h"
#include "data/prepare/block.h"

namespace trireme::prepare {

struct PartState {
  Position next;
  int64_t token_bytes = 0;
  uint32_t token_checksum = 0;  // crc32c
  int64_t documents = 0;
  uint32_t document_checksum = 0;
  int64_t open_tokens = 0;      // tokens of a document that continues in the next block
  int64_t input_bytes = 0;      // after decompression
  uint32_t input_checksum = 0;  // of those input bytes
  uint32_t unit_checksum = 0;   // input_checksum at the start of the unit of `next`
  int64_t text_bytes = 0;
  bool finished = false;
  Tally tally;
};

struct PartFiles {
  std::filesystem::path tokens, documents, journal;
  static PartFiles in(const std::filesystem::path& folder, int64_t part);
};

// Returns the state in the journal, checked against the files unless it is finished. Returns nothing without a journal or a valid
// line.
std::optional<PartState> read_part_state(const PartFiles& files);
// Returns the last complete line of a journal, unchecked.
std::optional<PartState> peek_part_state(const PartFiles& files);

class PartWriter {
 public:
  // Continues after the last valid state of these files.
  explicit PartWriter(const PartFiles& files);

  const PartState& state() const { return state_; }
  void write(Block& block);  // blocks must be written in order
  void save();               // appends a line to the journal
  void finish();             // appends the last line; everything is on disk when it returns

 private:
  PartFiles files_;
  PartState state_;
  int64_t on_their_way_ = 0;  // bytes of tokens whose write-back has been started
  std::optional<File> tokens_, documents_, journal_;
};

}  // namespace trireme::prepare
