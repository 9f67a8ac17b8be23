// Compressed streams for tests, made with the libraries themselves.
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "data/prepare/input_files.h"

namespace trireme::prepare {

inline std::string compress_zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string compress_gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("gzip");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("gzip");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string compress_xz(std::string_view text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  if (lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                              reinterpret_cast<uint8_t*>(out.data()), &size, out.size()) != LZMA_OK)
    throw std::runtime_error("xz");
  out.resize(size);
  return out;
}

inline std::string compress(Compression compression, std::string_view text) {
  switch (compression) {
    case Compression::zstd:
      return compress_zstd(text);
    case Compression::gzip:
      return compress_gzip(text);
    case Compression::xz:
      return compress_xz(text);
    case Compression::none:
      break;
  }
  return std::string(text);
}

}  // namespace trireme::prepare
