#include "data/indexed/indexed_verify.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

constexpr int64_t kSequencesOfPiece = 1 << 16;
constexpr int64_t kTokensOfPiece = 1 << 20;

Range piece_of(int64_t piece, int64_t size, int64_t count) { return {piece * size, std::min((piece + 1) * size, count)}; }

void check_sequences(const IndexedDataset& data, Range sequences) {
  for (int64_t i = sequences.begin; i < sequences.end; ++i) {
    if (data.length(i) < 0)
      throw UserError("{}: byte {}: sequence {} has {} tokens", data.idx_path(), data.length_byte(i), i, data.length(i));
    const int64_t next = i + 1 == data.sequences() ? data.bin_bytes() : data.pointer(i + 1);
    if (next - data.pointer(i) != data.length(i) * size_of(data.type()))
      throw UserError(
          "{}: byte {}: sequence {} of {} tokens begins at byte {} of the .bin and the next at {}: lengths and pointers do "
          "not add up",
          data.idx_path(), data.pointer_byte(i), i, data.length(i), data.pointer(i), next);
  }
}

int64_t check_documents(const IndexedDataset& data, Range entries) {
  int64_t empty = 0;
  for (int64_t i = entries.begin; i < entries.end; ++i) {
    const int64_t begin = data.document_start(i), end = data.document_start(i + 1);
    if (begin < 0 || begin > end || end > data.sequences())
      throw UserError("{}: byte {}: document {} goes from sequence {} to {} of {}", data.idx_path(), data.document_byte(i), i,
                      begin, end, data.sequences());
    empty += begin == end ? 1 : 0;
  }
  return empty;
}

// Checks a range of the .bin and returns its largest token.
int64_t check_tokens(const IndexedDataset& data, Range tokens, std::optional<int64_t> vocabulary) {
  const int64_t size = size_of(data.type());
  std::vector<int32_t> values(static_cast<size_t>(tokens.count()));
  load_tokens(data.token_bytes({0, data.sequences()}).data() + tokens.begin * size, data.type(), values);
  const auto [least, most] = std::ranges::minmax_element(values);
  const auto refuse = [&](auto at) {
    const int64_t number = tokens.begin + (at - values.begin());
    throw UserError("{}: byte {}: token number {} is {}{}", data.bin_path(), number * size, number, *at,
                    vocabulary ? fmt::format(", but the vocabulary has {}", *vocabulary) : "");
  };
  if (*least < 0) refuse(least);
  if (*most >= vocabulary.value_or(std::numeric_limits<int32_t>::max())) refuse(most);
  return *most;
}

// A CRC over the whole file is sequential, so this is one pass on one thread. It is far faster than any disk.
uint32_t checksum(const std::string& path, const std::function<void(int64_t)>& read) {
  const MappedFile file = MappedFile::open(path);
  uint32_t sum = 0;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), size_t{1} << 22));
    sum = crc32c(piece, sum);
    read(std::ssize(piece));
    rest = rest.subspan(piece.size());
  }
  return sum;
}

}  // namespace

LengthSummary summarize_lengths(const IndexedDataset& data) {
  ThreadPool pool;
  std::vector<LengthSummary> parts(static_cast<size_t>(pool.size()));
  for (LengthSummary& part : parts) part.shortest = std::numeric_limits<int64_t>::max();
  pool.run_on_threads(ceil_div(data.sequences(), kSequencesOfPiece), [&](int64_t piece, int thread) {
    LengthSummary& part = parts[static_cast<size_t>(thread)];
    const Range sequences = piece_of(piece, kSequencesOfPiece, data.sequences());
    for (int64_t i = sequences.begin; i < sequences.end; ++i) {
      const int64_t length = std::max<int64_t>(data.length(i), 0);
      part.tokens += length;
      part.shortest = std::min(part.shortest, length);
      part.longest = std::max(part.longest, length);
      part.buckets[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(length)))] += 1;
    }
  });
  LengthSummary whole{.sequences = data.sequences()};
  whole.shortest = data.sequences() == 0 ? 0 : std::numeric_limits<int64_t>::max();
  for (const LengthSummary& part : parts) {
    whole.tokens += part.tokens;
    whole.shortest = std::min(whole.shortest, part.shortest);
    whole.longest = std::max(whole.longest, part.longest);
    for (size_t i = 0; i < kLengthBuckets; ++i) whole.buckets[i] += part.buckets[i];
  }
  return whole;
}

VerifiedDataset verify_dataset(const IndexedDataset& data, std::optional<int64_t> vocabulary,
                               const std::function<void(int64_t)>& progress) {
  ThreadPool pool;
  std::atomic<int64_t> bytes_read = 0, empty_documents = 0;
  const auto read = [&](int64_t bytes) { progress(bytes_read += bytes); };
  // Ranges are checked in any order, but the error names the first fault in the file.
  std::mutex mutex;
  int64_t first_fault = std::numeric_limits<int64_t>::max();
  std::string fault;
  const auto in_pieces = [&](int64_t count, int64_t size, const auto& check) {
    pool.run(ceil_div(count, size), [&](int64_t piece) {
      try {
        check(piece_of(piece, size, count));
      } catch (const UserError& error) {
        const std::lock_guard lock(mutex);
        if (piece < first_fault) first_fault = piece, fault = error.what();
      }
    });
    if (!fault.empty()) throw UserError("{}", fault);
  };
  in_pieces(data.sequences(), kSequencesOfPiece, [&](Range sequences) {
    check_sequences(data, sequences);
    read(12 * sequences.count());
  });
  in_pieces(data.documents(), kSequencesOfPiece, [&](Range entries) {
    empty_documents += check_documents(data, entries);
    read(8 * entries.count());
  });
  std::vector<int64_t> largest(static_cast<size_t>(ceil_div(data.tokens(), kTokensOfPiece)), -1);
  in_pieces(data.tokens(), kTokensOfPiece, [&](Range tokens) {
    largest[static_cast<size_t>(tokens.begin / kTokensOfPiece)] = check_tokens(data, tokens, vocabulary);
    read(tokens.count() * size_of(data.type()));
  });
  VerifiedDataset verified{
      .sequences = data.sequences(), .documents = data.documents(), .tokens = data.tokens(), .empty_documents = empty_documents};
  for (const int64_t token : largest) verified.largest_token = std::max(verified.largest_token, token);
  pool.run(2, [&](int64_t which) {
    if (which == 0) verified.crc32c_bin = checksum(data.bin_path(), [](int64_t) {});
    if (which == 1) verified.crc32c_idx = checksum(data.idx_path(), [](int64_t) {});
  });
  return verified;
}

}  // namespace trireme
