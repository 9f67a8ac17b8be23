// Bytes that are read from front to back: a file, what a compressed stream unfolds to, a file inside a tar archive.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "data/prepare/input_files.h"

namespace trireme::prepare {

// What is wrong with an input, in words that follow its name: "byte 812: the zstd stream is damaged".
struct InputError : UserError {
  using UserError::UserError;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills all of `to`, or less at the end of the bytes; returns how many.
  virtual size_t read(std::span<char> to) = 0;

  // The last bytes that were read are not needed: they do not count as progress.
  virtual void give_back(size_t /*bytes*/) {}
};

// A range of a file. `bytes_read` is kept up to date for whoever shows progress.
std::unique_ptr<ByteSource> open_file_source(const std::filesystem::path& path, int64_t begin, int64_t end,
                                             std::atomic<int64_t>& bytes_read);

// A file from its beginning, whatever kind it is: a pipe too. "-" is stdin.
std::unique_ptr<ByteSource> open_stream_source(const std::string& path);

// What `source`, which must outlive it, unfolds to. Streams one after the other in a file are one. A stream that needs more than
// `memory` bytes to be unfolded is an InputError.
std::unique_ptr<ByteSource> open_decompressor(Compression compression, ByteSource& source, int64_t memory);

}  // namespace trireme::prepare
