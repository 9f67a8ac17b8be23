// Sequential byte streams: a file, a decompressed stream, a file inside a tar archive.
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

// Describes what is wrong with an input, without its name: "byte 812: the zstd stream is damaged".
struct InputError : UserError {
  using UserError::UserError;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills all of `to`, or less at the end of the stream; returns the number of bytes.
  virtual size_t read(std::span<char> to) = 0;

  // The last `bytes` bytes were not needed; they do not count as progress.
  virtual void give_back(size_t /*bytes*/) {}
};

// Opens a range of a file. `bytes_read` is kept up to date for progress displays.
std::unique_ptr<ByteSource> open_file_source(const std::filesystem::path& path, int64_t begin, int64_t end,
                                             std::atomic<int64_t>& bytes_read);

// Opens a file of any kind, such as a pipe, from its start. "-" is stdin.
std::unique_ptr<ByteSource> open_stream_source(const std::string& path);

// Decompresses `source`, which must outlive the result. Concatenated streams are read as one. InputError if a stream needs more
// than `memory` bytes to decompress.
std::unique_ptr<ByteSource> open_decompressor(Compression compression, ByteSource& source, int64_t memory);

}  // namespace trireme::prepare
