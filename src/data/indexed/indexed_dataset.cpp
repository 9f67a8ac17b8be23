#include "data/indexed/indexed_dataset.h"

#include <cstring>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

std::string without_suffix(const std::string& prefix) {
  for (const std::string_view suffix : {".bin", ".idx"})
    if (prefix.ends_with(suffix)) return prefix.substr(0, prefix.size() - suffix.size());
  return prefix;
}

MappedFile open_part(const std::string& path, const std::string& prefix) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw UserError("{} does not exist; a dataset is two files, {}.bin and {}.idx", path, prefix, prefix);
  try {
    return MappedFile::open(path);
  } catch (const Failure& failure) {
    throw UserError("{}", failure.what());
  }
}

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix)
    : prefix_(without_suffix(prefix)), idx_(open_part(idx_path(), prefix_)), bin_(open_part(bin_path(), prefix_)) {
  read_header();
  check_ends();
}

void IndexedDataset::read_header() {
  const std::span<const std::byte> bytes = idx_.bytes();
  const std::string path = idx_path();
  const std::string_view beginning(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kIndexMagic.size()));
  if (beginning.starts_with("TNTIDX"))
    throw UserError("{}: byte 0: the old index of fairseq (TNTIDX), which is not read; prepare the data again", path);
  if (beginning != std::string_view(kIndexMagic.data(), beginning.size()))
    throw UserError("{}: byte 0: not the index of a Megatron dataset, which begins with MMIDIDX", path);
  if (bytes.size() < kIndexHeaderBytes)
    throw UserError("{}: byte {}: the file ends inside its header of {} bytes", path, bytes.size(), kIndexHeaderBytes);

  const auto version = load_at<uint64_t>(bytes.data() + kIndexVersionAt);
  if (version != kIndexVersion)
    throw UserError("{}: byte {}: version {} is not known; only {} is", path, kIndexVersionAt, version, kIndexVersion);
  const auto code = load_at<uint8_t>(bytes.data() + kIndexTypeAt);
  const auto type = token_type_of_code(code);
  if (!type)
    throw UserError("{}: byte {}: type code {} {}; tokens have 1, 2, 3, 4, 5 or 8 (uint16)", path, kIndexTypeAt, code,
                    code == 6 || code == 7 ? "means floating-point numbers, not tokens" : "is not known");
  type_ = *type;

  const auto sequences = load_at<uint64_t>(bytes.data() + kIndexSequencesAt);
  const auto entries = load_at<uint64_t>(bytes.data() + kIndexDocumentsAt);
  const uint64_t room = bytes.size() - kIndexHeaderBytes;
  if (sequences > room / 12 || entries > (room - 12 * sequences) / 8)
    throw UserError("{}: byte {}: the file is cut off: {} sequences and {} document entries do not fit in its {} bytes", path,
                    bytes.size(), sequences, entries, bytes.size());
  sequences_ = static_cast<int64_t>(sequences);
  document_entries_ = static_cast<int64_t>(entries);
  if (entries == 0) throw UserError("{}: byte {}: no document entries; there is at least one, 0", path, kIndexDocumentsAt);

  const uint64_t expected = kIndexHeaderBytes + 12 * sequences + 8 * entries;
  const uint64_t rest = bytes.size() - expected;
  if (rest != 0 && rest != sequences)
    throw UserError("{}: byte {}: {} bytes follow the end of the index; only {} bytes of modes could", path, expected, rest,
                    sequences);
  lengths_ = bytes.data() + kIndexHeaderBytes;
  pointers_ = lengths_ + 4 * sequences;
  document_starts_ = pointers_ + 8 * sequences;
  if (rest != 0) modes_ = document_starts_ + 8 * entries;
}

void IndexedDataset::check_ends() const {
  const std::string path = idx_path();
  if (document_start(0) != 0)
    throw UserError("{}: byte {}: the first document begins at sequence {} instead of 0", path, document_byte(0),
                    document_start(0));
  if (document_start(documents()) != sequences_)
    throw UserError("{}: byte {}: the last document ends at sequence {}, but there are {}", path, document_byte(documents()),
                    document_start(documents()), sequences_);
  if (sequences_ == 0) {
    if (bin_bytes() != 0) throw UserError("{}: {} bytes, but {} has no sequences", bin_path(), bin_bytes(), path);
    return;
  }
  if (pointer(0) != 0)
    throw UserError("{}: byte {}: the first sequence begins at byte {} of the .bin instead of 0", path, pointer_byte(0),
                    pointer(0));
  const int64_t last = sequences_ - 1;
  if (length(last) < 0) throw UserError("{}: byte {}: sequence {} has {} tokens", path, length_byte(last), last, length(last));
  int64_t end = 0;
  if (__builtin_add_overflow(pointer(last), length(last) * size_of(type_), &end) || end != bin_bytes())
    throw UserError(
        "{}: {} bytes, but the last of the {} sequences of {} (byte {}) ends at byte {}: the two files are not of one "
        "dataset, or one is cut off",
        bin_path(), bin_bytes(), sequences_, path, pointer_byte(last), end);
}

std::span<const std::byte> IndexedDataset::token_bytes(Range sequences) const {
  CHECK(0 <= sequences.begin && sequences.begin <= sequences.end && sequences.end <= sequences_);
  const int64_t begin = sequences.begin == sequences_ ? bin_bytes() : pointer(sequences.begin);
  const int64_t end = sequences.end == sequences_ ? bin_bytes() : pointer(sequences.end);
  if (begin < 0 || begin > end || end > bin_bytes())
    throw UserError("{}: byte {}: sequences {} to {} lie at bytes {} to {} of a .bin of {} bytes; run trireme data verify {}",
                    idx_path(), pointer_byte(sequences.begin), sequences.begin, sequences.end, begin, end, bin_bytes(), prefix_);
  return bin_.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

int64_t IndexedDataset::tokens(Range sequences) const { return std::ssize(token_bytes(sequences)) / size_of(type_); }

void IndexedDataset::ask_for_place(int64_t sequence) const {
  ask_for_page(lengths_ + 4 * sequence);
  ask_for_page(pointers_ + 8 * sequence);
}

void IndexedDataset::ask_for_tokens(int64_t sequence, int64_t offset) const {
  const int64_t at = pointer(sequence);
  if (at >= 0 && at < bin_bytes() - offset * size_of(type_)) ask_for_page(bin_.bytes().data() + at + offset * size_of(type_));
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int32_t> tokens) const {
  const std::span<const std::byte> bytes = token_bytes({sequence, sequence + 1});
  const int64_t size = size_of(type_);
  const int64_t end = (offset + std::ssize(tokens)) * size;
  if (offset < 0 || end > std::ssize(bytes))
    throw UserError("{}: byte {}: sequence {} has {} tokens there, but {} bytes up to the next; run trireme data verify {}",
                    idx_path(), length_byte(sequence), sequence, length(sequence), bytes.size(), prefix_);
  load_tokens(bytes.data() + offset * size, type_, tokens);
}

}  // namespace trireme
