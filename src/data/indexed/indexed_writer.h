// Writes a Megatron dataset, PREFIX.bin and PREFIX.idx, byte for byte as Megatron's own builder does (format: indexed_format.h).
// It streams: memory does not grow with the number of tokens or documents.
//
//   IndexedDatasetWriter writer("folder/pile_text_document", token_type_for(50257));
//   writer.add_sequence(tokens);   // a GPT document is one sequence, or none if it is empty
//   writer.end_document();
//   writer.finish();
//
// The two files appear under their names at finish(). A writer destroyed without finish() leaves no files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "data/token_type.h"

namespace trireme {

enum class SequenceModes : uint8_t { none, kept };  // one byte per sequence, in multimodal datasets only
enum class Replace : uint8_t { no, yes };

// A piece of a dataset in the layout of the files.
struct IndexedBlock {
  std::span<const std::byte> tokens;          // tokens of all its sequences, in the dataset's token type
  std::span<const int32_t> sequence_lengths;  // tokens per sequence
  std::span<const int64_t> document_ends;     // sequences of this block before each document end
  std::span<const int8_t> modes;              // one per sequence, with SequenceModes::kept
};

class IndexedDatasetWriter {
 public:
  // UserError if the files exist and may not be replaced, or if the folder does not exist.
  IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type, Replace replace = Replace::no,
                       SequenceModes modes = SequenceModes::none);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  void add_sequence(std::span<const int32_t> tokens, int8_t mode = 0);
  void end_document();
  void append(const IndexedBlock& block);  // adds many sequences without conversion; the fast path

  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }
  TokenType type() const { return type_; }

  void finish();  // publishes both files, .bin first; they are durable

 private:
  // A file written front to back through a buffer. It has a temporary name until publish().
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
    void publish();  // renames it to the real name; durable
    // Passes everything written so far, from the start, in pieces of whole T.
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
  // The counts of the .idx precede the arrays they count, so each array is first written to its own file.
  std::optional<Stream> bin_, lengths_, document_ends_, mode_bytes_;
};

}  // namespace trireme
