#include "data/indexed/indexed_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "data/indexed/indexed_format.h"

namespace trireme {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Removes the partial files that killed writers of this prefix left.
void remove_left_partials(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  const std::string name = prefix.filename().string();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string other = entry.path().filename().string();
    const bool ours = other.ends_with(".partial") && (other.starts_with(name + ".bin.") || other.starts_with(name + ".idx."));
    if (ours && File::open_update(entry.path()).lock()) std::filesystem::remove(entry.path(), ignored);
  }
}

std::filesystem::path with_suffix(const std::filesystem::path& prefix, const char* suffix) { return prefix.string() + suffix; }

}  // namespace

IndexedDatasetWriter::Stream::Stream(const std::filesystem::path& path)
    : path_(path), temporary_(partial_name(path)), file_(File::create(temporary_)) {
  file_.lock();  // held while this process lives, so no other process removes the file as stale
  buffer_.reserve(kBufferBytes);
}

IndexedDatasetWriter::Stream::~Stream() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void IndexedDatasetWriter::Stream::put_bytes(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    file_.write(bytes);
    written_ += std::ssize(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void IndexedDatasetWriter::Stream::flush() {
  file_.write(buffer_);
  written_ += std::ssize(buffer_);
  buffer_.clear();
}

void IndexedDatasetWriter::Stream::publish() {
  flush();
  file_.sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw Failure("cannot write {}: {}", path_.string(), std::strerror(errno));
  temporary_.clear();
}

template <class T, class Take>
void IndexedDatasetWriter::Stream::read_back(Take&& take) {
  flush();
  const File file = File::open(temporary_);
  std::vector<T> piece(kBufferBytes / sizeof(T));
  for (int64_t offset = 0; offset < written_;) {
    const int64_t bytes = std::min(written_ - offset, static_cast<int64_t>(piece.size() * sizeof(T)));
    const std::span<T> values = std::span(piece).first(static_cast<size_t>(bytes) / sizeof(T));
    file.read_at(offset, std::as_writable_bytes(values));
    take(std::span<const T>(values));
    offset += bytes;
  }
}

IndexedDatasetWriter::IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type, Replace replace,
                                           SequenceModes modes)
    : prefix_(prefix), type_(type), modes_(modes) {
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  if (!std::filesystem::is_directory(folder))
    throw UserError("{}: the folder {} does not exist", prefix.string(), folder.string());
  for (const char* suffix : {".bin", ".idx"})
    if (replace == Replace::no && std::filesystem::exists(with_suffix(prefix, suffix)))
      throw UserError("{} is there already; remove it or choose another name", with_suffix(prefix, suffix).string());
  remove_left_partials(prefix);
  bin_.emplace(with_suffix(prefix, ".bin"));
  lengths_.emplace(with_suffix(prefix, ".idx.lengths"));
  document_ends_.emplace(with_suffix(prefix, ".idx.documents"));
  if (modes == SequenceModes::kept) mode_bytes_.emplace(with_suffix(prefix, ".idx.modes"));
}

IndexedDatasetWriter::~IndexedDatasetWriter() = default;

void IndexedDatasetWriter::add_sequence(std::span<const int32_t> tokens, int8_t mode) {
  converted_.resize(tokens.size() * static_cast<size_t>(size_of(type_)));
  store_tokens(tokens, type_, converted_.data());
  const std::array length{narrow<int32_t>(std::ssize(tokens))};
  const std::array modes{mode};
  IndexedBlock block{.tokens = converted_, .sequence_lengths = length, .document_ends = {}, .modes = {}};
  if (modes_ == SequenceModes::kept) block.modes = modes;
  append(block);
}

void IndexedDatasetWriter::end_document() {
  const std::array<int64_t, 1> here{0};
  append({.tokens = {}, .sequence_lengths = {}, .document_ends = here, .modes = {}});
}

void IndexedDatasetWriter::append(const IndexedBlock& block) {
  int64_t tokens = 0;
  for (const int32_t length : block.sequence_lengths) {
    CHECK(length >= 0);
    tokens += length;
  }
  CHECK_EQ(tokens * size_of(type_), std::ssize(block.tokens));
  CHECK_EQ(block.modes.size(), modes_ == SequenceModes::kept ? block.sequence_lengths.size() : 0);
  bin_->put_bytes(block.tokens);
  lengths_->put(block.sequence_lengths);
  for (const int64_t end : block.document_ends) {
    CHECK(0 <= end && end <= std::ssize(block.sequence_lengths));
    const std::array boundary{sequences_ + end};
    document_ends_->put(std::span<const int64_t>(boundary));
  }
  if (mode_bytes_) mode_bytes_->put(block.modes);
  sequences_ += std::ssize(block.sequence_lengths);
  documents_ += std::ssize(block.document_ends);
  tokens_ = checked_add(tokens_, tokens, "tokens of the dataset");
}

void IndexedDatasetWriter::finish() {
  CHECK(bin_);
  Stream index(with_suffix(prefix_, ".idx"));
  const auto header = make_index_header(type_, sequences_, documents_ + 1);
  index.put(std::span<const std::byte>(header));
  lengths_->read_back<int32_t>([&](std::span<const int32_t> lengths) { index.put(lengths); });
  std::vector<int64_t> pointers;
  int64_t pointer = 0;
  lengths_->read_back<int32_t>([&](std::span<const int32_t> lengths) {
    pointers.clear();
    for (const int32_t length : lengths) {
      pointers.push_back(pointer);
      pointer += length * size_of(type_);
    }
    index.put(std::span<const int64_t>(pointers));
  });
  const std::array<int64_t, 1> first{0};
  index.put(std::span<const int64_t>(first));
  document_ends_->read_back<int64_t>([&](std::span<const int64_t> ends) { index.put(ends); });
  if (mode_bytes_) mode_bytes_->read_back<int8_t>([&](std::span<const int8_t> modes) { index.put(modes); });

  // Readers open the .idx first, so it is published last. An old .idx must not exist together with the new .bin.
  std::error_code ignored;
  std::filesystem::remove(with_suffix(prefix_, ".idx"), ignored);
  bin_->publish();
  index.publish();
  sync_folder(prefix_.has_parent_path() ? prefix_.parent_path() : ".");
  bin_.reset();
  lengths_.reset();
  document_ends_.reset();
  mode_bytes_.reset();
}

}  // namespace trireme
