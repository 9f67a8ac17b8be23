// Writes a Megatron dataset, PREFIX.bin and PREFIX.idx, byte for byte as Megatron's own builder writes it (indexed_dataset.h has
// the format), as a stream: memory does not grow with the number of tokens or documents.
//
//   IndexedDatasetWriter writer("folder/pile_text_document", token_type_for(50257));
//   writer.add_sequence(tokens);   // a GPT document is one sequence; an empty one is none
//   writer.end_document();
//   writer.finish();
//
// Nothing is seen under the two names before finish(); a writer dropped without it leaves nothing behind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "data/token_type.h"

namespace trireme {

enum class SequenceModes : uint8_t { none, kept };  // a byte for every sequence, in multimodal datasets only
enum class Replace : uint8_t { no, yes };

// A piece of a dataset as it lies in the files.
struct IndexedBlock {
  std::span<const std::byte> tokens;          // of all its sequences, in the token type of the dataset
  std::span<const int32_t> sequence_lengths;  // tokens of each
  std::span<const int64_t> document_ends;     // how many sequences of this block lie before each document's end
  std::span<const int8_t> modes;              // of each sequence, with SequenceModes::kept
};

class IndexedDatasetWriter {
 public:
  // UserError when the files are there and may not be replaced, or the folder is not.
  IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type, Replace replace = Replace::no,
                       SequenceModes modes = SequenceModes::none);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  void add_sequence(std::span<const int32_t> tokens, int8_t mode = 0);
  void end_document();
  void append(const IndexedBlock& block);  // the same for many at once, without conversion: the fast way

  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }
  TokenType type() const { return type_; }

  void finish();  // makes both files visible, .bin first, and durable

 private:
  // A file that is written from front to back through a buffer, under a name of its own until it is given the real one.
  class Stream {
   public:
    explicit Stream(const std::filesystem::path& path);
    ~Stream();
    template <class T>
    void put(std::span<const T> values) {
      put_bytes(std::as_bytes(values));
    }
    void put_bytes(std::span<const std::byte> bytes);
    void flush();
    void publish();  // under the real name, durably
    // Everything written so far, from the start, in pieces of whole T.
    template <class T, class Take>
    void read_back(Take&& take);

   private:
    std::filesystem::path path_, temporary_;
    File file_;
    std::vector<std::byte> buffer_;
    int64_t written_ = 0;
  };

  std::filesystem::path prefix_;
  TokenType type_;
  SequenceModes modes_;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  std::vector<std::byte> converted_;
  // The counts of the .idx come before what they count, so its parts wait in files of their own.
  std::optional<Stream> bin_, lengths_, document_ends_, mode_bytes_;
};

}  // namespace trireme
