// A Megatron dataset, PREFIX.bin and PREFIX.idx, read in place. indexed_format.h documents the bytes.
//
// Opening checks only the header, the ends of the arrays and the file sizes, so its time does not depend on the number of
// documents. verify_dataset (indexed_verify.h) reads everything. Every fault is a UserError that names the file and the byte.
#pragma once

#include <string>

#include "base/mapped_file.h"
#include "data/corpus.h"
#include "data/indexed/indexed_format.h"
#include "data/splits.h"

namespace trireme {

// As a Corpus, its documents are the sequences of the files. GPT datasets have one sequence per non-empty document, and Megatron
// numbers, splits and shuffles sequences.
class IndexedDataset final : public Corpus {
 public:
  explicit IndexedDataset(const std::string& prefix);  // the path without .bin or .idx; either suffix is accepted too

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  bool multimodal() const { return modes_ != nullptr; }

  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return document_entries_ - 1; }
  int64_t tokens() const { return bin_bytes() / size_of(type_); }
  int64_t tokens(Range sequences) const;  // of consecutive sequences; computed from their offsets in constant time
  int64_t bin_bytes() const { return std::ssize(bin_.bytes()); }
  int64_t idx_bytes() const { return std::ssize(idx_.bytes()); }

  DocumentLengths document_lengths() const override { return DocumentLengths::of_int32(lengths_, sequences_); }
  void read(int64_t sequence, int64_t offset, std::span<int32_t> tokens) const override;
  void ask_for_place(int64_t sequence) const override;
  void ask_for_tokens(int64_t sequence, int64_t offset) const override;

  // Array entries, unchecked except at the ends of the arrays.
  int64_t length(int64_t sequence) const { return load_at<int32_t>(lengths_ + 4 * sequence); }
  int64_t pointer(int64_t sequence) const { return load_at<int64_t>(pointers_ + 8 * sequence); }
  int64_t document_start(int64_t entry) const { return load_at<int64_t>(document_starts_ + 8 * entry); }  // entry <= documents()
  int8_t mode(int64_t sequence) const { return load_at<int8_t>(modes_ + sequence); }

  // Byte offsets of these entries in the .idx, for error messages.
  int64_t length_byte(int64_t sequence) const { return kIndexHeaderBytes + 4 * sequence; }
  int64_t pointer_byte(int64_t sequence) const { return kIndexHeaderBytes + 4 * sequences_ + 8 * sequence; }
  int64_t document_byte(int64_t entry) const { return kIndexHeaderBytes + 12 * sequences_ + 8 * entry; }

  // Returns the bytes of consecutive sequences in the .bin. UserError if the .idx does not fit the .bin.
  std::span<const std::byte> token_bytes(Range sequences) const;

  std::string idx_path() const { return prefix_ + ".idx"; }
  std::string bin_path() const { return prefix_ + ".bin"; }

 private:
  void read_header();
  void check_ends() const;

  std::string prefix_;
  MappedFile idx_, bin_;
  TokenType type_ = TokenType::uint16;
  int64_t sequences_ = 0, document_entries_ = 0;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *document_starts_ = nullptr, *modes_ = nullptr;
};

}  // namespace trireme
