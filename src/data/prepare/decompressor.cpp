// The three decompressors share one loop: read bytes of the source into a buffer, decompress them into the caller's memory.
#ifdef TRIREME_HAS_LZMA
  #include <lzma.h>
#endif
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme::prepare {
namespace {

constexpr size_t kInputBytes = size_t{1} << 16;

class Decompressor : public ByteSource {
 public:
  explicit Decompressor(ByteSource& source) : source_(source), buffer_(kInputBytes) {}
  ~Decompressor() override { source_.give_back(input_.size()); }

  size_t read(std::span<char> to) final {
    size_t filled = 0;
    while (filled < to.size()) {
      if (input_.empty() && !source_ended_) refill();
      if (input_.empty() && between_streams_) break;
      const size_t before = input_.size();
      const size_t made = unfold(input_, to.subspan(filled));
      consumed_ += static_cast<int64_t>(before - input_.size());
      filled += made;
      if (made == 0 && input_.empty() && source_ended_ && !between_streams_)
        throw InputError("byte {}: the {} stream is cut off", consumed_, name());
    }
    return filled;
  }

 protected:
  virtual const char* name() const = 0;

  // Consumes the front of `input` and writes to `to`; returns the bytes written. Sets between_streams_.
  virtual size_t unfold(std::span<const char>& input, std::span<char> to) = 0;

  [[noreturn]] void fail_damaged(const char* why) const {
    throw InputError("byte {}: the {} stream is damaged: {}", consumed_, name(), why);
  }
  bool source_ended() const { return source_ended_; }

  bool between_streams_ = true;  // the source may end here

 private:
  void refill() {
    const size_t count = source_.read(buffer_);
    source_ended_ = count < buffer_.size();
    input_ = std::span(buffer_).first(count);
  }

  ByteSource& source_;
  std::vector<char> buffer_;
  std::span<const char> input_;
  bool source_ended_ = false;
  int64_t consumed_ = 0;
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor(ByteSource& source, int64_t memory) : Decompressor(source), context_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {
    CHECK(context_);
    constexpr int kLeastLog = 23, kMostLog = 31;  // level 19 has windows of 8 MiB
    window_log_ = std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(memory))) - 1, kLeastLog, kMostLog);
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, window_log_);
  }

 private:
  const char* name() const override { return "zstd"; }

  size_t unfold(std::span<const char>& input, std::span<char> to) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
    if (ZSTD_isError(status) != 0) {
      if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge)
        throw InputError("the zstd stream was made with a window above {} MiB; give more --memory",
                         (int64_t{1} << window_log_) >> 20);
      fail_damaged(ZSTD_getErrorName(status));
    }
    input = input.subspan(in.pos);
    between_streams_ = status == 0;
    return out.pos;
  }

  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context_;
  int window_log_ = 0;
};

class GzipDecompressor final : public Decompressor {
 public:
  explicit GzipDecompressor(ByteSource& source) : Decompressor(source) {
    constexpr int kGzip = 16;
    CHECK(inflateInit2(&stream_, MAX_WBITS + kGzip) == Z_OK);
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }

 private:
  const char* name() const override { return "gzip"; }

  size_t unfold(std::span<const char>& input, std::span<char> to) override {
    if (between_streams_) CHECK(inflateReset(&stream_) == Z_OK);
    constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
    to = to.first(std::min(to.size(), kMost));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      fail_damaged(stream_.msg == nullptr ? "no gzip data" : stream_.msg);
    input = input.last(stream_.avail_in);
    between_streams_ = status == Z_STREAM_END;
    return to.size() - stream_.avail_out;
  }

  z_stream stream_{};
};

#ifdef TRIREME_HAS_LZMA
class XzDecompressor final : public Decompressor {
 public:
  XzDecompressor(ByteSource& source, int64_t memory) : Decompressor(source) {
    constexpr int64_t kLeast = int64_t{80} << 20;  // xz -9 needs 65 MiB
    CHECK(lzma_stream_decoder(&stream_, static_cast<uint64_t>(std::max(memory, kLeast)), LZMA_CONCATENATED) == LZMA_OK);
  }
  ~XzDecompressor() override { lzma_end(&stream_); }

 private:
  const char* name() const override { return "xz"; }

  size_t unfold(std::span<const char>& input, std::span<char> to) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(input.data());
    stream_.avail_in = input.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(to.data());
    stream_.avail_out = to.size();
    // The decoder itself goes from stream to stream, and learns only from LZMA_FINISH that no other follows.
    const lzma_ret status = lzma_code(&stream_, source_ended() ? LZMA_FINISH : LZMA_RUN);
    if (status == LZMA_MEMLIMIT_ERROR)
      throw InputError("the xz stream needs {} MiB to be unfolded; give more --memory", lzma_memusage(&stream_) >> 20);
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
      fail_damaged(status == LZMA_FORMAT_ERROR ? "no xz data" : "its contents do not agree with its checksum or format");
    input = input.last(stream_.avail_in);
    between_streams_ = status == LZMA_STREAM_END;
    return to.size() - stream_.avail_out;
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};
#endif

}  // namespace

std::unique_ptr<ByteSource> open_decompressor(Compression compression, ByteSource& source, int64_t memory) {
  switch (compression) {
    case Compression::zstd:
      return std::make_unique<ZstdDecompressor>(source, memory);
    case Compression::gzip:
      return std::make_unique<GzipDecompressor>(source);
    case Compression::xz:
#ifdef TRIREME_HAS_LZMA
      return std::make_unique<XzDecompressor>(source, memory);
#else
      throw UserError("this build reads no .xz files: liblzma was not there when it was made");
#endif
    case Compression::none:
      break;
  }
  CHECK_NEVER("plain bytes are not unfolded");
}

}  // namespace trireme::prepare
