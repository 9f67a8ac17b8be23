// A part is a stretch of the input whose tokens lie in files of their own until everything is there: part-00000.bin, the tokens;
// part-00000.documents, the tokens of each document (int32); part-00000.journal, a line of JSON now and then that says how much
// of both is good and where reading goes on. The last line that agrees with the files is where a run goes on that was killed.
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
  int64_t open_tokens = 0;      // of a document that goes on in the next block
  int64_t input_bytes = 0;      // unfolded
  uint32_t input_checksum = 0;  // of those bytes
  uint32_t unit_checksum = 0;   // the same at the beginning of the unit that `next` is in
  int64_t text_bytes = 0;
  bool finished = false;
  Tally tally;
};

struct PartFiles {
  std::filesystem::path tokens, documents, journal;
  static PartFiles in(const std::filesystem::path& folder, int64_t part);
};

// What the journal says, checked against the files unless it is finished; nothing where there is no journal or no good line.
std::optional<PartState> read_part_state(const PartFiles& files);
// The last line of a journal that is whole, unchecked.
std::optional<PartState> peek_part_state(const PartFiles& files);

class PartWriter {
 public:
  // Goes on with what is there.
  explicit PartWriter(const PartFiles& files);

  const PartState& state() const { return state_; }
  void write(Block& block);  // blocks come in their order
  void save();               // a line in the journal
  void finish();             // the last one; everything is on the disk when it returns

 private:
  PartFiles files_;
  PartState state_;
  int64_t on_their_way_ = 0;  // bytes of tokens that the system was asked to write to the disk
  std::optional<File> tokens_, documents_, journal_;
};

}  // namespace trireme::prepare
