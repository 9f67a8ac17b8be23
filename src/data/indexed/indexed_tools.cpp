#include "data/indexed/indexed_tools.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed/indexed_dataset.h"

namespace trireme {
namespace {

constexpr int64_t kSequencesAtOnce = 1 << 14;
constexpr int64_t kTokensAtOnce = 1 << 22;

// Copies documents in batches, keeping the order of sequences and document ends.
class Copier {
 public:
  Copier(IndexedDatasetWriter& writer, const std::function<void(int64_t)>& progress) : writer_(writer), progress_(progress) {}

  void copy(const IndexedDataset& data, Range documents) {
    const Range sequences{data.document_start(documents.begin), data.document_start(documents.end)};
    if (sequences.begin < 0 || sequences.begin > sequences.end || sequences.end > data.sequences())
      throw UserError("{}: byte {}: documents {} to {} are sequences {} to {} of {}; run trireme data verify {}", data.idx_path(),
                      data.document_byte(documents.begin), documents.begin, documents.end, sequences.begin, sequences.end,
                      data.sequences(), data.prefix());
    int64_t sequence = sequences.begin, document = documents.begin;  // the next document whose end is to be written
    while (sequence < sequences.end || document < documents.end) {
      const Range piece{sequence, gather(data, {sequence, sequences.end}, document, documents.end)};
      sequence = piece.end;
      write(data, piece);
    }
  }

 private:
  // Collects sequence lengths and document ends until either batch is full. Returns the index after the last sequence collected.
  int64_t gather(const IndexedDataset& data, Range sequences, int64_t& document, int64_t last_document) {
    lengths_.clear();
    ends_.clear();
    modes_.clear();
    int64_t tokens = 0;
    for (int64_t at = sequences.begin;; ++at) {
      while (document < last_document && data.document_start(document + 1) <= at && std::ssize(ends_) < kSequencesAtOnce) {
        if (data.document_start(document + 1) < at) refuse_document(data, document);
        ends_.push_back(at - sequences.begin);
        ++document;
      }
      if (at == sequences.end && document < last_document && ends_.empty() && lengths_.empty()) refuse_document(data, document);
      const bool enough = std::max(std::ssize(ends_), std::ssize(lengths_)) >= kSequencesAtOnce || tokens >= kTokensAtOnce;
      if (at == sequences.end || enough) return at;
      lengths_.push_back(static_cast<int32_t>(data.length(at)));
      tokens += data.length(at);
      if (data.multimodal()) modes_.push_back(data.mode(at));
    }
  }

  [[noreturn]] static void refuse_document(const IndexedDataset& data, int64_t document) {
    throw UserError("{}: byte {}: document {} goes from sequence {} to {}; run trireme data verify {}", data.idx_path(),
                    data.document_byte(document), document, data.document_start(document), data.document_start(document + 1),
                    data.prefix());
  }

  void write(const IndexedDataset& data, Range piece) {
    const std::span<const std::byte> bytes = data.token_bytes(piece);
    int64_t tokens = 0;
    for (const int32_t length : lengths_) tokens += length;
    if (std::ssize(bytes) != tokens * size_of(data.type()) ||
        std::ranges::any_of(lengths_, [](int32_t length) { return length < 0; }))
      throw UserError("{}: byte {}: the lengths of sequences {} to {} do not add up; run trireme data verify {}", data.idx_path(),
                      data.length_byte(piece.begin), piece.begin, piece.end, data.prefix());
    writer_.append({.tokens = bytes, .sequence_lengths = lengths_, .document_ends = ends_, .modes = modes_});
    progress_(writer_.tokens() * size_of(writer_.type()));
  }

  IndexedDatasetWriter& writer_;
  const std::function<void(int64_t)>& progress_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> ends_;
  std::vector<int8_t> modes_;
};

void require_room(const std::string& output, int64_t bytes) {
  const std::filesystem::path folder = std::filesystem::path(output).parent_path();
  require_free_space(folder.empty() ? "." : folder, bytes, fmt::format("cannot write {}", output));
}

SequenceModes modes_of(const IndexedDataset& data) { return data.multimodal() ? SequenceModes::kept : SequenceModes::none; }

}  // namespace

CopyTotals merge_datasets(const std::vector<std::string>& prefixes, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress) {
  std::vector<std::unique_ptr<IndexedDataset>> inputs;
  int64_t bytes = 0;
  for (const std::string& prefix : prefixes) {
    inputs.push_back(std::make_unique<IndexedDataset>(prefix));
    const IndexedDataset& first = *inputs.front();
    const IndexedDataset& last = *inputs.back();
    if (std::filesystem::weakly_canonical(last.bin_path()) == std::filesystem::weakly_canonical(output + ".bin"))
      throw UserError("{} cannot be both merged and written to; choose another output", output);
    if (last.type() != first.type())
      throw UserError("{} has {} tokens and {} has {}; only datasets of one type can be merged", first.prefix(),
                      name_of(first.type()), last.prefix(), name_of(last.type()));
    if (last.multimodal() != first.multimodal())
      throw UserError("{} has modes and {} has not; they cannot be merged", (first.multimodal() ? first : last).prefix(),
                      (first.multimodal() ? last : first).prefix());
    bytes += last.bin_bytes() + 2 * last.idx_bytes();
  }
  CHECK(!inputs.empty());
  IndexedDatasetWriter writer(output, inputs.front()->type(), replace, modes_of(*inputs.front()));
  require_room(output, bytes);
  Copier copier(writer, progress);
  for (const auto& input : inputs) copier.copy(*input, {0, input->documents()});
  const CopyTotals totals{.sequences = writer.sequences(), .documents = writer.documents(), .tokens = writer.tokens()};
  writer.finish();
  return totals;
}

CopyTotals copy_documents(const std::string& prefix, Range documents, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress) {
  const IndexedDataset input(prefix);
  CHECK(0 <= documents.begin && documents.begin <= documents.end && documents.end <= input.documents());
  IndexedDatasetWriter writer(output, input.type(), replace, modes_of(input));
  Copier(writer, progress).copy(input, documents);
  const CopyTotals totals{.sequences = writer.sequences(), .documents = writer.documents(), .tokens = writer.tokens()};
  writer.finish();
  return totals;
}

}  // namespace trireme
