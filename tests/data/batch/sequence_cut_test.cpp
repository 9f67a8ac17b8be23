// Sequences cut over context-parallel ranks: a rank's batch is the cut of the whole batch, and nothing else is read for it.
#include "data/batch/sequence_cut.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "data/batch/loader.h"
#include "data/dataset_fixture.h"
#include "data/open/open_dataset.h"
#include "data/samples/gpt_dataset.h"

namespace trireme {
namespace {

using Int32s = std::vector<int32_t>;

constexpr int64_t kSequence = 24;  // two parts for each of 2, 3 and 4 ranks
constexpr int64_t kSamples = 20;   // looked at

TEST(SequenceCut, EveryPartHasOneOwnerAndWorkIsEqual) {
  for (const int64_t ranks : {2, 3, 8}) {
    std::map<int64_t, int64_t> owners;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const SequenceCut cut{.rank = rank, .ranks = ranks};
      EXPECT_LT(cut.part_number(0), cut.part_number(1));
      EXPECT_EQ(cut.part_number(0) + cut.part_number(1), 2 * ranks - 1);  // so many parts come before its two
      for (int64_t held = 0; held < cut.parts_held(); ++held) owners[cut.part_number(held)] = rank;
    }
    EXPECT_EQ(std::ssize(owners), 2 * ranks);
    EXPECT_EQ(owners.rbegin()->first, 2 * ranks - 1);
  }
  EXPECT_EQ(SequenceCut{}.parts_held(), 1);
  EXPECT_EQ(SequenceCut{}.part_number(0), 0);
  EXPECT_EQ(SequenceCut{}.part_length(kSequence), kSequence);
}

struct DatasetKind {
  const char* name;
  std::function<void(const TemporaryFolder&, DataSettings&)> choose;
  Split split = Split::train;
};

std::string counting_tokens(int32_t count) {
  std::string bytes;
  for (int32_t token = 0; token < count; ++token) {
    const auto stored = static_cast<uint16_t>(token);
    bytes.append(reinterpret_cast<const char*>(&stored), sizeof(stored));
  }
  return bytes;
}

std::string shard_of_llmc(int32_t count) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + counting_tokens(count);
}

// The datasets of documents have some that are shorter than a part, and empty none; samples run over many of them.
const std::vector<DatasetKind>& dataset_kinds() {
  static const std::vector<DatasetKind> kinds{
      {"indexed", [](const auto& folder, auto& data) { data.data_prefix = {write_dataset(folder, "a", 40)}; }},
      {"indexed_padded",
       [](const auto& folder, auto& data) {
         data.data_prefix = {write_dataset(folder, "a", 40)};
         data.splits_string = "50,50,0";
         data.validation_drop_last = false;
       },
       Split::validation},
      {"indexed_without_extra_token",
       [](const auto& folder, auto& data) {
         data.data_prefix = {write_dataset(folder, "a", 40)};
         data.splits_string = "50,50,0";
         data.validation_drop_last = false;
         data.no_seqlen_plus_one_input_tokens = true;
       },
       Split::validation},
      {"blend",
       [](const auto& folder, auto& data) {
         data.data_prefix = {"0.3", write_dataset(folder, "a", 40), "0.7", write_dataset(folder, "b", 30, 10000)};
       }},
      {"mock", [](const auto&, auto& data) { data.data_impl = DataImpl::mock; }},
      {"mock_legacy", [](const auto&, auto& data) { data.data_impl = DataImpl::mock_legacy; }},
      {"text",
       [](const auto& folder, auto& data) {
         data.data_impl = DataImpl::text;
         data.data_prefix = {folder.write("1.txt", std::string(200, 'a') + "bcdefghijklmnopqrstuvwxyz"),
                             folder.write("2.txt", "Now is the time for all good ranks to read their own parts of a sequence.")};
       }},
      {"flat_random",
       [](const auto& folder, auto& data) {
         data.data_impl = DataImpl::flat;
         data.data_prefix = {folder.write("train.bin", counting_tokens(500))};
         data.window_order = WindowOrder::random;
       }},
      {"flat_sequential",
       [](const auto& folder, auto& data) {
         data.data_impl = DataImpl::flat;
         data.data_prefix = {folder.write("train.bin", counting_tokens(500))};
         data.window_order = WindowOrder::sequential;
       }},
      {"llmc",
       [](const auto& folder, auto& data) {
         data.data_impl = DataImpl::llmc;
         data.data_prefix = {folder.write("train.bin", shard_of_llmc(500))};
       }},
  };
  return kinds;
}

std::unique_ptr<Dataset> open(const DatasetKind& kind, const TemporaryFolder& folder) {
  DataSettings settings;
  settings.data_impl = DataImpl::mmap;
  settings.splits_string = "100,0,0";
  kind.choose(folder, settings);
  return open_dataset(settings, 50000, kind.split, kSequence, kind.split == Split::train ? kSamples : 0, 7);
}

class EveryDataset : public testing::TestWithParam<DatasetKind> {};

// Row for row, as the rank that holds them orders them.
void expect_cut_of(const Batch& whole, const Batch& part) {
  const int64_t B = whole.micro_batch, T = whole.sequence, length = part.cut.part_length(T);
  ASSERT_EQ(std::ssize(part.tokens), B * T / part.cut.ranks);
  EXPECT_EQ(part.first_sample, whole.first_sample);
  size_t row = 0;
  for (int64_t held = 0; held < 2; ++held)
    for (int64_t b = 0; b < B; ++b)
      for (int64_t t = 0; t < length; ++t, ++row) {
        const auto from = static_cast<size_t>(b * T + part.cut.part_number(held) * length + t);
        ASSERT_EQ(part.tokens[row], whole.tokens[from]) << row;
        ASSERT_EQ(part.targets[row], whole.targets[from]) << row;
        ASSERT_EQ(part.positions[row], whole.positions[from]) << row;
        ASSERT_EQ(part.row_keys[row], whole.row_keys[from]) << row;
      }
}

TEST_P(EveryDataset, ARanksBatchIsTheCutOfTheWholeBatch) {
  const TemporaryFolder folder;
  const auto dataset = open(GetParam(), folder);
  constexpr int64_t B = 2;
  ASSERT_GE(dataset->size(), 2 * B);
  Batch whole(B, kSequence);
  for (const int64_t ranks : {2, 3, 4})
    for (int64_t first = 0; first + B <= std::min(kSamples, dataset->size()); first += B) {
      fill_batch(*dataset, first, whole);
      int64_t unmasked = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Batch part(B, kSequence, {.rank = rank, .ranks = ranks});
        fill_batch(*dataset, first, part);
        expect_cut_of(whole, part);
        unmasked += part.unmasked_targets;
      }
      EXPECT_EQ(unmasked, whole.unmasked_targets);
    }
}

TEST_P(EveryDataset, ThroughTheLoaderToo) {
  const TemporaryFolder folder;
  const auto dataset = open(GetParam(), folder);
  const SequenceCut cut{.rank = 1, .ranks = 2};
  Loader whole(*dataset, {}, 0), parts(*dataset, {.cut = cut}, 0);
  ASSERT_EQ(parts.remaining(), whole.remaining());
  for (int64_t i = 0; i < std::min(kSamples, dataset->size()); ++i) expect_cut_of(whole.next(), parts.next());
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryDataset, testing::ValuesIn(dataset_kinds()),
                         [](const auto& test) { return std::string(test.param.name); });

// Counts, in place of holding them, how often each token of its one document is read.
class CountingCorpus final : public Corpus {
 public:
  explicit CountingCorpus(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}

  DocumentLengths document_lengths() const override { return lengths_; }
  void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const override {
    int64_t number = std::accumulate(lengths_.begin(), lengths_.begin() + document, offset);
    for (int32_t& token : tokens) {
      ++reads[number];
      token = static_cast<int32_t>(number++);
    }
  }

  void ask_for_tokens(int64_t document, int64_t offset) const override {
    asked.insert(std::accumulate(lengths_.begin(), lengths_.begin() + document, offset));
  }

  mutable std::map<int64_t, int> reads;  // by the token's number in the documents laid end to end
  mutable std::set<int64_t> asked;

 private:
  std::vector<int64_t> lengths_;
};

TEST(SequenceCut, OnlyTheTokensOfTheRankAndTheOneAfterEachPartAreRead) {
  const auto corpus = std::make_shared<CountingCorpus>(std::vector<int64_t>{5, 1, 14, 30});
  const GptIndexRequest request{.documents = {0, 4}, .sequence = kSequence, .seed = 1, .shuffle_documents = ShuffleDocuments::no};
  const GptDataset dataset(corpus, build_gpt_index(corpus->document_lengths(), request, IndexForm::compact), request, 100, "");
  ASSERT_EQ(dataset.size(), 2);
  const int64_t first_token = dataset.index().shuffle_index[1] * kSequence;  // of sample 1
  for (const int64_t ranks : {1, 2, 4})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      corpus->reads.clear();
      Batch batch(1, kSequence, {.rank = rank, .ranks = ranks});
      fill_batch(dataset, 1, batch);
      std::map<int64_t, int> expected;
      const int64_t length = batch.cut.part_length(kSequence);
      for (int64_t held = 0; held < batch.cut.parts_held(); ++held)
        for (int64_t t = 0; t <= length; ++t) ++expected[first_token + batch.cut.part_number(held) * length + t];
      EXPECT_EQ(corpus->reads, expected) << "rank " << rank << " of " << ranks;
    }
}

// Many short documents are asked for ahead: those of the rank, where its tokens begin.
TEST(SequenceCut, NothingElseIsAskedForAhead) {
  const auto corpus = std::make_shared<CountingCorpus>(std::vector<int64_t>(3 * kSequence, 1));
  const GptIndexRequest request{
      .documents = {0, 3 * kSequence}, .sequence = kSequence, .seed = 1, .shuffle_documents = ShuffleDocuments::no};
  const GptDataset dataset(corpus, build_gpt_index(corpus->document_lengths(), request, IndexForm::compact), request, 1000, "");
  for (int64_t rank = 0; rank < 2; ++rank) {
    corpus->reads.clear();
    corpus->asked.clear();
    Batch batch(1, kSequence, {.rank = rank, .ranks = 2});
    fill_batch(dataset, 1, batch);
    std::set<int64_t> read;
    for (const auto& [token, times] : corpus->reads) read.insert(token);
    EXPECT_EQ(corpus->asked, read) << "rank " << rank;
  }
}

// The pages of a file that this process has mapped; whoever touches a forbidden one crashes.
class MappedPages {
 public:
  explicit MappedPages(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with(path)) {
        std::istringstream(line) >> std::hex >> begin_;
        return;
      }
    ADD_FAILURE() << path << " is not mapped";
  }
  void forbid(int64_t first, int64_t count) const { protect(first, count, PROT_NONE); }
  void allow(int64_t first, int64_t count) const { protect(first, count, PROT_READ); }

 private:
  void protect(int64_t first, int64_t count, int access) const {
    const int64_t page = ::sysconf(_SC_PAGESIZE);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is known as text only
    auto* const at = reinterpret_cast<std::byte*>(begin_) + first * page;
    ASSERT_EQ(::mprotect(at, static_cast<size_t>(count * page), access), 0);
  }

  uintptr_t begin_ = 0;
};

// A file of one sample that begins with its first page; a part is two pages.
void expect_untouched_pages(const Dataset& dataset, const std::string& path) {
  const MappedPages pages(path);
  Batch outer(1, dataset.sequence(), {.rank = 0, .ranks = 2}), inner(1, dataset.sequence(), {.rank = 1, .ranks = 2});
  pages.forbid(3, 3);  // of parts 1 and 2 all but the page with the token after part 0
  fill_batch(dataset, 0, outer);
  pages.allow(3, 3);
  pages.forbid(0, 2);  // part 0
  pages.forbid(7, 2);  // of part 3 all but the page with the token after part 2
  fill_batch(dataset, 0, inner);
  pages.allow(0, 2);
  pages.allow(7, 2);
  EXPECT_EQ(outer.tokens[0], 0);
  EXPECT_EQ(inner.tokens[0], inner.positions[0]);
}

TEST(SequenceCut, PagesOfOtherRanksAreNotTouched) {
  const TemporaryFolder folder;
  const int64_t page_tokens = ::sysconf(_SC_PAGESIZE) / 2, sequence = 8 * page_tokens;
  Int32s tokens(static_cast<size_t>(sequence + 1));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  IndexedDatasetWriter writer((folder / "a").string(), TokenType::uint16);
  writer.add_sequence(tokens);
  writer.end_document();
  writer.finish();
  DataSettings settings;
  settings.splits_string = "100,0,0";
  settings.data_impl = DataImpl::mmap;
  settings.data_prefix = {(folder / "a").string()};
  expect_untouched_pages(*open_dataset(settings, 50000, Split::train, sequence, 1, 1), (folder / "a.bin").string());
  settings.data_impl = DataImpl::flat;
  settings.data_prefix = {folder.write("flat.bin", counting_tokens(static_cast<int32_t>(sequence + 1)))};
  settings.window_order = WindowOrder::sequential;
  expect_untouched_pages(*open_dataset(settings, 50000, Split::train, sequence, 1, 1), (folder / "flat.bin").string());
}

}  // namespace
}  // namespace trireme
