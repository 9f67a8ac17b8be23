#include "data/prepare/block_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "base/units.h"
#include "data/prepare/tar_reader.h"

namespace trireme::prepare {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Yields bytes that were read ahead, then the rest of the source.
class PrefixedSource final : public ByteSource {
 public:
  PrefixedSource(std::span<const char> prefix, ByteSource& source) : prefix_(prefix), source_(source) {}
  size_t read(std::span<char> to) override {
    const size_t count = std::min(to.size(), prefix_.size());
    std::copy_n(prefix_.begin(), count, to.begin());
    prefix_ = prefix_.subspan(count);
    return count == to.size() ? count : count + source_.read(to.subspan(count));
  }

 private:
  std::span<const char> prefix_;
  ByteSource& source_;
};

int64_t count_lines(const char* at, const char* end) {
  int64_t lines = 0;
  while (at < end && (at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)))) != nullptr)
    ++lines, ++at;
  return lines;
}

[[noreturn]] void throw_changed(const std::string& name) {
  throw UserError("{}: it has changed since the unfinished run read it; remove the working folder to start again", name);
}

}  // namespace

std::string too_long_to_cut(int64_t bytes) {
  return fmt::format("more than {} of text without a place to cut it; give more --memory", format_bytes(bytes));
}

bool BlockReader::read(const InputFile& file, const Unit& unit, const Position& from, const PassedChecksums& passed) {
  at_ = from;
  skip_blocks_ = from.block;
  passed_ = passed;
  unit_bytes_ = 0;
  tail_.clear();
  in_document_ = false;
  searched_ = 0;
  line_limit_ = kNoLimit;
  try {
    read_unit(file, unit);
    return true;
  } catch (const Stopped&) {
    return false;
  }
}

void BlockReader::read_unit(const InputFile& file, const Unit& unit) {
  const bool is_lines = file.wrapping.content == Content::json_lines;
  if (file.wrapping.compression == Compression::none && is_lines)
    read_plain_lines(file, unit);
  else
    read_stream(file, unit);
  if (at_.block < skip_blocks_) throw_changed(file.path);
  // A file without lines or entries is reported, since otherwise nothing would show it. An empty text file is an empty document.
  const bool is_whole_file = unit.begin == 0 && unit.end == file.bytes;
  if (unit_bytes_ > 0 || !is_whole_file || skip_blocks_ > 0 || !(is_lines || file.wrapping.content == Content::tar)) return;
  open_block(Content::json_lines, file.path);
  block_->tally.add(Finding::empty_file, 1, [&] { return file.path; });
  put_block(0, 0);
}

void BlockReader::read_stream(const InputFile& file, const Unit& unit) {
  at_ = {.unit = at_.unit};
  std::unique_ptr<ByteSource> source;
  try {
    source = open_file_source(file.path, unit.begin, unit.end, bytes_read_);
  } catch (const InputError& error) {
    return give_up(file.path, Finding::unreadable_file, error.what());
  }
  try {
    read_wrapped(*source, file.path, file.wrapping);
    if (block_ != nullptr) put_block(0, 0);
  } catch (const InputError& error) {
    give_up(file.path, Finding::damaged_stream, error.what());
  }
}

// The blocks that an earlier run finished must have the same bytes as then.
void BlockReader::compare_passed(const std::string& name) {
  if (at_.block == skip_blocks_ && passed_.before != passed_.after) throw_changed(name);
}

void BlockReader::read_wrapped(ByteSource& source, const std::string& name, Wrapping wrapping) {
  if (wrapping.compression != Compression::none) {
    const auto unfolded = open_decompressor(wrapping.compression, source, settings_.decompressor_bytes);
    read_wrapped(*unfolded, name, {.content = wrapping.content});
    return;
  }
  switch (wrapping.content) {
    case Content::json_lines:
      return read_lines(source, name);
    case Content::text:
      return read_text(source, name);
    case Content::tar:
      return read_tar(source, name);
    case Content::unknown:
      return read_unknown(source, name);
  }
}

void BlockReader::read_unknown(ByteSource& source, const std::string& name) {
  std::array<char, TarReader::kRecord> head;
  const auto start = std::span<const char>(head).first(source.read(head));
  PrefixedSource whole(start, source);
  if (TarReader::is_header(start))
    read_tar(whole, name);
  else
    read_text(whole, name);
}

void BlockReader::read_tar(ByteSource& source, const std::string& name) {
  TarReader tar(source);
  while (tar.next())
    if (const auto wrapping = wrapping_of(tar.name())) read_wrapped(tar, name + ": " + tar.name(), *wrapping);
}

// Reads the lines that start inside the unit. The previous unit reads the line that crosses into this one.
void BlockReader::read_plain_lines(const InputFile& file, const Unit& unit) {
  try {
    const bool from_inside = at_.block == 0 && unit.begin > 0;
    if (from_inside) at_ = {.unit = at_.unit, .byte = unit.begin - 1, .line = 0};
    if (unit.end < file.bytes) line_limit_ = unit.end;
    const auto source = open_file_source(file.path, at_.byte, file.bytes, bytes_read_);
    if (from_inside) drop_line(*source, at_.byte);
    read_lines(*source, file.path);
  } catch (const InputError& error) {
    give_up(file.path, Finding::unreadable_file, error.what());
  }
}

void BlockReader::read_lines(ByteSource& source, const std::string& name) {
  bool ended = false;
  while (!ended && at_.byte < line_limit_) {
    open_block(Content::json_lines, name);
    ended = !fill(source, kBlockBytes - block_->bytes.size());
    size_t end = end_of_lines(0, ended);
    while (end == 0 && !ended) {
      const size_t searched = block_->bytes.size();
      if (static_cast<int64_t>(searched) >= settings_.line_bytes) break;
      grow_block();
      ended = !fill(source, kBlockBytes);
      end = end_of_lines(searched, ended);
    }
    if (end == 0 && !ended) {
      block_->tally.add(Finding::too_long, 1, [&] {
        return fmt::format("{}: {}: the line has more than {}; give more --memory", name,
                           at_.line > 0 ? fmt::format("line {}", at_.line) : fmt::format("byte {}", at_.byte),
                           format_bytes(settings_.line_bytes));
      });
      auto dropped = static_cast<int64_t>(block_->bytes.size());
      block_->bytes.clear();
      block_->bytes.shrink(2 * kBlockBytes);
      ended = !drop_line(source, dropped);
      put_block(dropped, 1);
      continue;
    }
    const std::span<const char> rest(block_->bytes.data() + end, block_->bytes.size() - end);
    tail_.append(rest);
    block_->bytes.resize(end);
    put_block(static_cast<int64_t>(end), count_lines(block_->bytes.data(), block_->bytes.data() + end));
  }
  // The tail of one file must not reach the next file of an archive.
  tail_.clear();
}

// Returns the end of the complete lines in the block; 0: there are none. The bytes before `searched` contain no line end.
size_t BlockReader::end_of_lines(size_t searched, bool ended) {
  const char* bytes = block_->bytes.data();
  const size_t size = block_->bytes.size();
  // The last line of the unit is the one that contains the byte before the limit.
  if (line_limit_ != kNoLimit && at_.byte + static_cast<int64_t>(size) >= line_limit_) {
    const size_t last = std::max(searched, static_cast<size_t>(std::max<int64_t>(line_limit_ - 1 - at_.byte, 0)));
    if (const void* found = std::memchr(bytes + last, '\n', size - last))
      return static_cast<size_t>(static_cast<const char*>(found) - bytes) + 1;
  }
  if (ended) return size;
  const void* found = ::memrchr(bytes + searched, '\n', size - searched);
  return found == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(found) - bytes) + 1;
}

// Skips everything up to the next line feed and leaves the bytes after it in tail_. Adds the skipped bytes to `dropped`. Returns
// false if there is no next line.
bool BlockReader::drop_line(ByteSource& source, int64_t& dropped) {
  for (;;) {
    tail_.resize(kBlockBytes);
    tail_.resize(source.read({tail_.data(), kBlockBytes}));
    const void* found = std::memchr(tail_.data(), '\n', tail_.size());
    const size_t gone = found == nullptr ? tail_.size() : static_cast<size_t>(static_cast<const char*>(found) - tail_.data()) + 1;
    const bool ended = tail_.size() < kBlockBytes;
    dropped += static_cast<int64_t>(gone);
    std::memmove(tail_.data(), tail_.data() + gone, tail_.size() - gone);
    tail_.resize(tail_.size() - gone);
    if (found != nullptr) return true;
    if (ended) return false;
  }
}

// Reads one document. Short documents share a block; a long one is cut, or makes its block large.
void BlockReader::read_text(ByteSource& source, const std::string& name) {
  for (;;) {
    if (block_ == nullptr || block_->content != Content::text) open_block(Content::text, name);
    const size_t size = block_->bytes.size();
    if (!fill(source, size < kBlockBytes ? kBlockBytes - size : kBlockBytes)) break;
    if (!make_room_in_text(source, name)) return;
  }
  end_text_piece(block_->bytes.size(), PieceEnd::document, name);
  if (block_->bytes.size() > kBlockBytes * 3 / 4) put_block(0, 0);
}

// Called when the block is full and the document continues. Returns false if the document was too long and has been skipped.
bool BlockReader::make_room_in_text(ByteSource& source, const std::string& name) {
  ByteBuffer& bytes = block_->bytes;
  const size_t begin = block_->pieces.empty() ? 0 : block_->pieces.back().end;
  const std::string_view open(bytes.data() + begin, bytes.size() - begin);
  const size_t cut = settings_.cuts == nullptr ? 0 : settings_.cuts->last_cut(open, std::exchange(searched_, open.size()));
  if (cut > 0 || begin > 0) {
    if (cut > 0) end_text_piece(begin + cut, PieceEnd::cut, name);
    tail_.append({bytes.data() + begin + cut, bytes.size() - begin - cut});
    bytes.resize(begin + cut);
    put_block(0, 0);
    searched_ = 0;
    return true;
  }
  if (static_cast<int64_t>(bytes.size()) < settings_.uncut_bytes) {
    grow_block();
    return true;
  }
  block_->tally.add(Finding::too_long, 1, [&] { return fmt::format("{}: {}", name, too_long_to_cut(settings_.uncut_bytes)); });
  bytes.clear();
  bytes.shrink(2 * kBlockBytes);
  do bytes.clear();
  while (fill(source, kBlockBytes));
  bytes.clear();
  if (block_->continues) end_text_piece(0, PieceEnd::document, name);
  put_block(0, 0);
  in_document_ = false;
  searched_ = 0;
  return false;
}

void BlockReader::end_text_piece(size_t end, PieceEnd how, const std::string& name) {
  block_->pieces.push_back({.end = end, .how = how, .name = name});
  in_document_ = how == PieceEnd::cut;
  searched_ = 0;
}

void BlockReader::open_block(Content content, const std::string& name) {
  if (block_ != nullptr) put_block(0, 0);
  block_ = at_.block < skip_blocks_ ? &passed_over_ : sink_.fresh();
  if (block_ == nullptr) throw Stopped{};
  block_->reset();
  block_->content = content;
  block_->name = name;
  block_->continues = in_document_;
  block_->first_line = at_.line;
  block_->first_byte = at_.byte;
  block_->bytes.append({tail_.data(), tail_.size()});
  tail_.clear();
}

// Appends `bytes` bytes; returns false if the source ends before. If the source is damaged, the bytes before the failing step are
// kept.
bool BlockReader::fill(ByteSource& source, size_t bytes) {
  constexpr size_t kStep = size_t{1} << 16;
  ByteBuffer& buffer = block_->bytes;
  size_t size = buffer.size();
  const size_t end = size + bytes;
  buffer.resize(end);
  try {
    while (size < end) {
      const size_t step = std::min(kStep, end - size);
      const size_t count = source.read({buffer.data() + size, step});
      size += count;
      if (count < step) break;
    }
  } catch (...) {
    buffer.resize(size);
    throw;
  }
  buffer.resize(size);
  return size == end;
}

void BlockReader::grow_block() {
  if (block_->size == Size::large || block_ == &passed_over_) return;
  if (!sink_.may_grow(*block_)) throw Stopped{};
  block_->size = Size::large;
}

void BlockReader::put_block(int64_t consumed, int64_t lines) {
  at_.block += 1;
  at_.byte += consumed;
  if (at_.line > 0) at_.line += lines;
  block_->next = at_;
  unit_bytes_ += static_cast<int64_t>(block_->bytes.size());
  Block* const finished = std::exchange(block_, nullptr);
  if (finished != &passed_over_) return sink_.put(finished);
  passed_.before = crc32c(finished->bytes.bytes(), passed_.before);
  compare_passed(finished->name);
}

void BlockReader::give_up(const std::string& name, Finding finding, const char* what) {
  if (block_ == nullptr) open_block(Content::json_lines, name);
  // The incomplete line or piece in the block is dropped with the rest of the file.
  const std::string_view bytes(block_->bytes.data(), block_->bytes.size());
  size_t whole = 0;
  if (block_->content == Content::json_lines) whole = bytes.rfind('\n') + 1;  // without a line feed: npos + 1 is 0
  if (block_->content == Content::text && !block_->pieces.empty()) whole = block_->pieces.back().end;
  block_->bytes.resize(whole);
  if (block_->content == Content::text && block_->pieces.empty() && block_->continues)
    end_text_piece(0, PieceEnd::document, name);
  block_->tally.add(finding, 1, [&] { return fmt::format("{}: {}", name, what); });
  put_block(0, 0);
}

}  // namespace trireme::prepare
