// From text to the files of a dataset: the same whatever the wrapping, the workers and the ranks; bad input named or skipped.
#include "data/prepare/prepare.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "compress.h"
#include "data/expect_user_error.h"
#include "data/indexed/indexed_writer.h"
#include "data/open/open_dataset.h"
#include "data/prepare/document_order.h"
#include "data/prepare/part_writer.h"
#include "data/sha256.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/load_tokenizer.h"
#include "support/golden_data.h"
#include "support/temporary_folder.h"

namespace trireme::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string contents(const fs::path& path) { return read_file(path, int64_t{1} << 30); }

std::vector<std::string> some_documents(size_t count) {
  std::vector<std::string> documents;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t j = 0; j < i * 31 % 97; ++j) text += "word " + std::to_string(i * j) + (j % 7 == 0 ? "\n" : " caf\xC3\xA9 ");
    documents.push_back(text);
  }
  return documents;
}

std::string json_lines(const std::vector<std::string>& documents) {
  std::string lines;
  for (const std::string& text : documents) lines += json{{"text", text}, {"meta", {{"n", 1}}}}.dump() + "\n";
  return lines;
}

class PrepareTest : public testing::Test {
 protected:
  PrepareSettings settings(const std::vector<std::string>& inputs, const std::string& output) const {
    PrepareSettings settings;
    settings.inputs = inputs;
    settings.output = (folder_ / output).string();
    settings.tokenizer = "bytes";
    settings.workers = 2;
    settings.memory = int64_t{4} << 30;  // enough for a sanitizer's own, which counts
    return settings;
  }

  PrepareResult run(const PrepareSettings& settings) const {
    const PrepareHooks hooks{.stop = [] { return false; }, .tell = [](const std::string&) {}};
    return prepare_data(settings, tokenizer_, hooks);
  }

  // The two files that the writer of datasets makes of documents.
  std::pair<std::string, std::string> expected(const std::vector<std::string>& documents, EndOfDocument end) const {
    const std::string prefix = (folder_ / "expected").string();
    IndexedDatasetWriter writer(prefix, TokenType::uint16, Replace::yes);
    for (const std::string& text : documents) {
      std::vector<int32_t> tokens = tokenizer_.encode(text);
      if (!tokens.empty() && end == EndOfDocument::append) tokens.push_back(tokenizer_.end_of_document());
      if (!tokens.empty()) writer.add_sequence(tokens);
      writer.end_document();
    }
    writer.finish();
    return {contents(prefix + ".bin"), contents(prefix + ".idx")};
  }

  std::pair<std::string, std::string> dataset(const std::string& output) const {
    const std::string prefix = (folder_ / output).string() + "_text_document";
    return {contents(prefix + ".bin"), contents(prefix + ".idx")};
  }

  // An input of always the same size, which stops a run unless it begins with nothing but spaces.
  static constexpr size_t kLastBytes = 100;
  std::string write_last(std::string text) const {
    text.resize(kLastBytes, ' ');
    return folder_.write("last.jsonl", text);
  }

  // Bytes of input that an unfinished run has behind it.
  int64_t done_of(const PrepareSettings& some) const {
    const auto state = read_part_state(PartFiles::in(some.output + ".preparing", 0));
    return state ? state->input_bytes : 0;
  }

  TemporaryFolder folder_;
  ByteTokenizer tokenizer_;
};

TEST_F(PrepareTest, EveryWrappingGivesTheFilesOfMegatron) {
  const std::vector<std::string> documents = some_documents(3000);
  const std::string lines = json_lines(documents);
  const std::string half = lines.substr(0, lines.find("\n", lines.size() / 2) + 1);
  ASSERT_GT(lines.size(), 3 * kBlockBytes);
  const std::vector<std::string> inputs = {
      folder_.write("a.jsonl", lines),
      folder_.write("b.jsonl.zst", compress_zstd(lines)),
      folder_.write("c.json.gz", compress_gzip(lines)),
      folder_.write("d.jsonl.xz", compress_xz(lines)),
      folder_.write("e.jsonl.zst", compress_zstd(half) + compress_zstd(lines.substr(half.size()))),
      folder_.write("f.jsonl", lines.substr(0, lines.size() - 1)),
      folder_.write("g.jsonl", "\xEF\xBB\xBF" + lines + "\n  \n"),
  };
  int64_t number = 0;
  for (const std::string& input : inputs)
    for (const auto end : {EndOfDocument::none, EndOfDocument::append}) {
      PrepareSettings one = settings({input}, "out" + std::to_string(number));
      one.end_of_document = end;
      const PrepareResult result = run(one);
      EXPECT_EQ(result.outcome, PrepareOutcome::complete);
      EXPECT_EQ(result.report["documents"], documents.size());
      EXPECT_EQ(dataset("out" + std::to_string(number++)), expected(documents, end)) << input;
      EXPECT_FALSE(fs::exists(one.output + ".preparing"));
    }
}

TEST_F(PrepareTest, WorkersAndRanksChangeNothing) {
  std::vector<std::string> all;
  for (size_t i = 0; i < 12; ++i) {
    const std::vector<std::string> documents = some_documents(i == 5 ? 0 : 300 + 100 * i);
    all.insert(all.end(), documents.begin(), documents.end());
    folder_.write(fmt::format("in/{:02}.jsonl{}", i, i % 2 == 0 ? "" : ".zst"),
                  compress(i % 2 == 0 ? Compression::none : Compression::zstd, json_lines(documents)));
  }
  const std::string input = (folder_ / "in").string();
  const auto right = expected(all, EndOfDocument::append);
  for (const int64_t workers : {1, 2, 9}) {
    PrepareSettings some = settings({input}, fmt::format("workers{}", workers));
    some.workers = workers;
    some.end_of_document = EndOfDocument::append;
    run(some);
    EXPECT_EQ(dataset(fmt::format("workers{}", workers)), right) << workers;
  }
  for (const auto& order : {std::array{0, 1, 2}, std::array{2, 0, 1}}) {
    const std::string output = fmt::format("ranks{}", order[0]);
    for (const int rank : order) {
      PrepareSettings one = settings({input}, output);
      one.end_of_document = EndOfDocument::append;
      one.rank = {.rank = rank, .ranks = 3, .source = "--rank"};
      const bool last = rank == order.back();
      EXPECT_EQ(run(one).outcome, last ? PrepareOutcome::complete : PrepareOutcome::waiting);
      EXPECT_EQ(fs::exists(one.output + "_text_document.idx"), last);
    }
    EXPECT_EQ(dataset(output), right);
  }
}

TEST_F(PrepareTest, TextFilesAreDocuments) {
  std::string book;
  for (int64_t i = 0; i < 60000; ++i) book += fmt::format("It is line {}{}", i * i, i % 9 == 0 ? "\n\n" : "\n");
  folder_.write("in/a.txt", "alpha\n");
  folder_.write("in/b.txt", book);
  folder_.write("in/c.txt", "");
  folder_.write("in/d.txt.gz", compress_gzip("delta"));
  PrepareSettings some = settings({(folder_ / "in").string()}, "out");
  some.end_of_document = EndOfDocument::append;
  run(some);
  EXPECT_EQ(dataset("out"), expected({"alpha\n", book, "", "delta"}, EndOfDocument::append));
}

TEST_F(PrepareTest, FlatFilesAreShuffledAsDatasetsShufflesThem) {
  // numpy.random.default_rng(seed).permutation(20)
  const std::vector<uint32_t> of_42 = {15, 9, 14, 7, 12, 10, 6, 19, 3, 0, 16, 5, 11, 18, 2, 4, 17, 1, 13, 8};
  const std::vector<uint32_t> of_2357 = {10, 12, 18, 3, 11, 13, 9, 19, 7, 5, 8, 0, 1, 15, 6, 16, 2, 4, 14, 17};
  EXPECT_EQ(numpy_permutation(20, 42), of_42);
  EXPECT_EQ(numpy_permutation(20, 2357), of_2357);
  const auto large = numpy_permutation(100000, 2357);
  EXPECT_EQ(std::vector<uint32_t>(large.begin(), large.begin() + 4), (std::vector<uint32_t>{64992, 82030, 32930, 41310}));
  EXPECT_EQ(numpy_permutation(0, 1).size() + numpy_permutation(1, 1).size(), 1);

  std::vector<std::string> documents = some_documents(20);
  PrepareSettings some = settings({folder_.write("a.jsonl", json_lines(documents))}, "flat");
  some.format = OutputFormat::flat;
  some.seed = 42;
  some.validation = 0.06;  // of 20 documents: 1.2, rounded up
  run(some);
  std::string val, train;
  for (size_t i = 0; i < of_42.size(); ++i) {
    std::string& to = i < 2 ? val : train;
    for (const int32_t token : tokenizer_.encode(documents[of_42[i]]))
      to += {static_cast<char>(token), static_cast<char>(token >> 8)};
    const int32_t end = tokenizer_.end_of_document();
    to += {static_cast<char>(end), static_cast<char>(end >> 8)};
  }
  EXPECT_EQ(contents(folder_ / "flat/train.bin"), train);
  EXPECT_EQ(contents(folder_ / "flat/val.bin"), val);
}

// Its tokens are the last ones of a vocabulary of any size.
class LargeTokenizer final : public Tokenizer {
 public:
  explicit LargeTokenizer(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int64_t vocabulary() const override { return vocabulary_; }
  int32_t end_of_document() const override { return static_cast<int32_t>(vocabulary_ - 1); }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    for (const char byte : text) tokens.push_back(end_of_document() - static_cast<uint8_t>(byte));
    return tokens;
  }
  std::string decode(std::span<const int32_t>) const override { return ""; }

 private:
  int64_t vocabulary_;
};

// Around the sizes at which some program changes the type of tokens, training reads what was prepared.
TEST_F(PrepareTest, TrainingReadsTheTokensOfEveryVocabulary) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  const std::string input = folder_.write("a.txt", text);
  for (const int64_t vocabulary : {1000, 65499, 65500, 65535, 65536, 65537, 100000})
    for (const OutputFormat format : {OutputFormat::flat, OutputFormat::llmc}) {
      const LargeTokenizer tokenizer(vocabulary);
      const bool flat = format == OutputFormat::flat;
      PrepareSettings some = settings({input}, fmt::format("{}{}", flat ? "flat" : "llmc", vocabulary));
      some.format = format;
      some.validation = 0;
      some.end_of_document = EndOfDocument::none;
      prepare_data(some, tokenizer, {.stop = [] { return false; }, .tell = [](const std::string&) {}});
      DataSettings data;
      data.data_impl = flat ? DataImpl::flat : DataImpl::llmc;
      data.data_prefix = {flat ? some.output + "/train.bin" : some.output + "_val_000000.bin"};
      data.splits_string = "1";
      data.window_order = WindowOrder::sequential;
      for (const int64_t model_vocabulary : {vocabulary, vocabulary + 128}) {  // as it is, and padded
        const auto dataset = open_dataset(data, model_vocabulary, Split::train, 25, 1, 7);
        std::vector<int32_t> tokens(25), targets(25), expected = tokenizer.encode(text);
        dataset->sample(0, tokens, targets);
        expected.pop_back();
        EXPECT_EQ(tokens, expected) << vocabulary << " for a model of " << model_vocabulary;
      }
      if (flat)
        expect_user_error([&] { open_dataset(data, vocabulary - 1, Split::train, 25, 1, 7); },
                          {"train.bin", fmt::format("vocabulary of {}", vocabulary)});
    }
}

TEST_F(PrepareTest, LlmcShardsAreTheStreamCutIntoPieces) {
  PrepareSettings some = settings({folder_.write("a.jsonl", json_lines({"abc", "", "defgh"}))}, "shards");
  some.format = OutputFormat::llmc;
  some.shard_tokens = 4;
  run(some);
  const int32_t end = tokenizer_.end_of_document();
  const std::vector<int32_t> stream = {end, 'a', 'b', 'c', end, end, 'd', 'e', 'f', 'g', 'h'};
  for (size_t shard = 0; shard < 3; ++shard) {
    const std::string bytes = contents(folder_ / fmt::format("shards_{}_{:06}.bin", shard == 0 ? "val" : "train", shard));
    std::array<int32_t, 256> header{};
    std::memcpy(header.data(), bytes.data(), sizeof(header));
    const size_t tokens = shard < 2 ? 4 : 3;
    EXPECT_EQ(header[0], 20240520);
    EXPECT_EQ(header[1], 1);
    EXPECT_EQ(header[2], tokens);
    EXPECT_EQ(std::ranges::count(header, 0), 253);
    ASSERT_EQ(bytes.size(), 1024 + 2 * tokens);
    for (size_t i = 0; i < tokens; ++i) {
      uint16_t token = 0;
      std::memcpy(&token, bytes.data() + 1024 + 2 * i, 2);
      EXPECT_EQ(token, stream[4 * shard + i]);
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "shards_train_000003.bin"));
}

struct BadInput {
  std::string name, bytes;
  std::vector<std::string> words;  // of the line when it stops
  std::string finding;             // what is counted when it is skipped
  size_t kept;                     // documents
};

TEST_F(PrepareTest, BadInputIsNamedOrSkippedAndCounted) {
  const std::string good = json_lines({"one"});
  const std::string many = json_lines(some_documents(4000));
  const std::string zst = compress_zstd(many), gz = compress_gzip(many);
  const std::vector<BadInput> table = {
      {"a.jsonl", good + "{\"text\": \n" + good, {"a.jsonl: line 2 (byte ", "not JSON"}, "malformed_json", 2},
      {"b.jsonl", good + "{\"content\": \"x\"}\n" + good, {"b.jsonl: line 2", "no key \"text\"", "--key"}, "no_key", 2},
      {"c.jsonl", good + good + "{\"text\": 5}\n", {"c.jsonl: line 3", "no text"}, "not_text", 2},
      {"d.jsonl",
       good + std::string("{\"text\": \"a\0b\"}\n", 16),
       {"d.jsonl: line 2", "control character"},
       "malformed_json",
       1},
      {"e.jsonl.zst", zst.substr(0, zst.size() - 9), {"e.jsonl.zst: byte ", "cut off"}, "damaged_stream", 0},
      {"f.json.gz", gz.substr(0, gz.size() / 2), {"f.json.gz: byte ", "cut off"}, "damaged_stream", 0},
      {"g.jsonl.zst", "this is not zstd", {"g.jsonl.zst: byte 0", "damaged"}, "damaged_stream", 0},
      {"h.tar", std::string(2000, 'x'), {"h.tar: byte 0", "no tar header"}, "damaged_stream", 0},
  };
  for (const BadInput& bad : table) {
    PrepareSettings some = settings({folder_.write(bad.name, bad.bytes)}, bad.name + ".out");
    expect_user_error([&] { run(some); }, bad.words);
    EXPECT_FALSE(fs::exists(some.output + "_text_document.idx")) << bad.name;
    some.output += ".skip";
    some.on_error = OnError::skip;
    const PrepareResult result = run(some);
    EXPECT_EQ(result.outcome, PrepareOutcome::complete);
    EXPECT_EQ(result.report["findings"][bad.finding]["count"], 1) << bad.name << result.report["findings"].dump();
    if (bad.kept > 0 || bad.bytes.size() < 3000) {
      EXPECT_EQ(result.report["documents"], bad.kept) << bad.name;
    }
  }
}

// Folders that are there when the run is planned and gone when it begins.
TEST_F(PrepareTest, FoldersThatVanishAreNamedOrSkipped) {
  const auto run_without = [&](PrepareSettings& some, const fs::path& gone) {
    const PrepareHooks hooks{.stop = [] { return false; }, .tell = [gone](const std::string&) { fs::remove_all(gone); }};
    return prepare_data(some, tokenizer_, hooks);
  };
  const std::string kept = folder_.write("kept.jsonl", json_lines(some_documents(10)));
  const auto make_input = [&] { folder_.write("in/a.jsonl", json_lines(some_documents(10))); };
  make_input();
  PrepareSettings some = settings({kept, (folder_ / "in").string()}, "stopped");
  expect_user_error([&] { run_without(some, folder_ / "in"); }, {"in/a.jsonl", "No such file"});
  make_input();
  some.output = (folder_ / "skipped").string();
  some.on_error = OnError::skip;
  const PrepareResult result = run_without(some, folder_ / "in");
  EXPECT_EQ(result.report["findings"]["unreadable_file"]["count"], 1);
  EXPECT_TRUE(contains(result.report["findings"]["unreadable_file"]["first"], "in/a.jsonl"));
  EXPECT_EQ(result.report["documents"], 10);
}

TEST_F(PrepareTest, EmptyInputMakesAnEmptyDataset) {
  const PrepareResult result =
      run(settings({folder_.write("a.jsonl", ""), folder_.write("b.jsonl.zst", ""), folder_.write("c.jsonl", "\n")}, "out"));
  EXPECT_EQ(result.report["documents"], 0);
  EXPECT_EQ(result.report["findings"]["blank_line"]["count"], 1);
  EXPECT_EQ(result.report["findings"]["empty_file"]["count"], 2);
  EXPECT_TRUE(contains(result.report["findings"]["empty_file"]["first"], "a.jsonl"));
  EXPECT_EQ(dataset("out"), expected({}, EndOfDocument::none));
  for (const char* name : {"d.jsonl.zst", "e.jsonl.gz", "f.jsonl.xz", "g.tar.gz"}) {
    const PrepareResult one = run(settings({folder_.write(name, "")}, std::string(name) + ".out"));
    EXPECT_EQ(one.report["findings"]["empty_file"]["count"], 1) << name;
  }
}

TEST_F(PrepareTest, RepairsAreCounted) {
  PrepareSettings some =
      settings({folder_.write("a.jsonl", "{\"text\": \"a\xFF\xFE\"}\n{\"text\": \"\\ud800\"}\n{\"text\": \"\"}\n")}, "out");
  const PrepareResult result = run(some);
  EXPECT_EQ(result.report["findings"]["invalid_utf8"]["count"], 2);
  EXPECT_TRUE(contains(result.report["findings"]["invalid_utf8"]["first"], "a.jsonl: line 1"));
  EXPECT_EQ(result.report["findings"]["lone_surrogate"]["count"], 1);
  EXPECT_EQ(result.report["findings"]["empty_document"]["count"], 1);
  EXPECT_EQ(dataset("out"), expected({"a\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD", ""}, EndOfDocument::none));
}

TEST_F(PrepareTest, NothingThatIsThereIsOverwritten) {
  const std::string input = folder_.write("a.jsonl", json_lines(some_documents(10)));
  PrepareSettings some = settings({input}, "out");
  run(some);
  const auto files = dataset("out");
  EXPECT_EQ(run(some).outcome, PrepareOutcome::complete);  // the same again: done already
  some.end_of_document = EndOfDocument::append;
  expect_user_error([&] { run(some); }, {"out_text_document.idx", "there already"});
  EXPECT_EQ(dataset("out"), files);
}

TEST_F(PrepareTest, AnUnfinishedRunIsNotMixedWithAnother) {
  const std::string input = folder_.write("a.jsonl", json_lines(some_documents(10)) + "{\n");
  PrepareSettings some = settings({input}, "out");
  expect_user_error([&] { run(some); }, {"a.jsonl: line 11"});
  some.end_of_document = EndOfDocument::append;
  expect_user_error([&] { run(some); }, {"out.preparing", "end_of_document", "remove the folder"});
}

TEST_F(PrepareTest, AStoppedRunGoesOn) {
  const std::vector<std::string> documents = some_documents(6000);
  const std::string input = folder_.write("a.jsonl.zst", compress_zstd(json_lines(documents)));
  const PrepareSettings some = settings({input}, "out");
  PrepareHooks hooks{.stop = [] { return true; }, .tell = [](const std::string&) {}};
  int rounds = 0;
  while (prepare_data(some, tokenizer_, hooks).outcome == PrepareOutcome::stopped) {
    EXPECT_TRUE(fs::exists(some.output + ".preparing/part-00000.journal"));
    EXPECT_FALSE(fs::exists(some.output + "_text_document.idx"));
    if (++rounds == 3) hooks.stop = [] { return false; };
  }
  EXPECT_EQ(dataset("out"), expected(documents, EndOfDocument::none));
}

// A crash may leave files that are longer than the journal says, or that lack their last pages.
TEST_F(PrepareTest, OnlyWhatTheChecksumsConfirmIsKept) {
  const PartFiles files = PartFiles::in(folder_.path(), 0);
  const auto block = [](int64_t number, const std::string& tokens) {
    Block made;
    made.next = {.block = number + 1};
    made.tokens.append(tokens);
    made.document_tokens = {static_cast<int32_t>(tokens.size() / 2)};
    return made;
  };
  {
    PartWriter writer(files);
    for (int64_t i = 0; i < 3; ++i) {
      Block next = block(i, std::string(1000, static_cast<char>('a' + i)));
      writer.write(next);
      writer.save();
    }
  }
  std::ofstream(files.journal, std::ios::app) << "{\"next\": [0, 4";
  std::ofstream(files.tokens, std::ios::app) << "more than was noted";
  EXPECT_EQ(read_part_state(files)->next.block, 3);
  {
    std::fstream tokens(files.tokens);
    tokens.seekp(2500);
    tokens << "damage";
  }
  EXPECT_EQ(read_part_state(files)->next.block, 2);
  fs::resize_file(files.documents, 4);
  EXPECT_EQ(read_part_state(files)->next.block, 1);
  EXPECT_EQ(PartWriter(files).state().token_bytes, 1000);
  EXPECT_EQ(fs::file_size(files.tokens), 1000);
  fs::remove(files.tokens);
  EXPECT_EQ(PartWriter(files).state().token_bytes, 0);
}

TEST_F(PrepareTest, TooLittleDiskOrMemoryIsSaidBeforeAnythingIsDone) {
  PrepareSettings some = settings({folder_.write("a.jsonl", json_lines(some_documents(10)))}, "out");
  some.memory = 20 << 20;
  expect_user_error([&] { run(some); }, {"--memory 20 MiB", "at least"});
  some.memory = 0;
  some.dry_run = DryRun::yes;
  const PrepareResult planned = run(some);
  EXPECT_EQ(planned.outcome, PrepareOutcome::planned);
  EXPECT_EQ(planned.report["expected_documents"], 10);
  EXPECT_GT(planned.report["disk_needed_bytes"], 0);
  EXPECT_FALSE(fs::exists(some.output + ".preparing"));
}

// An input that changes while its tokens are being made, or after.
class ChangedInputTest : public PrepareTest {
 protected:
  // In place, with the time it had: size, time and inode are those of before.
  void replace_keeping_time(const std::string& name, const std::string& text) const {
    const auto time = fs::last_write_time(folder_ / name);
    const auto stamp = find_stamp((folder_ / name).string());
    folder_.write(name, text);
    fs::last_write_time(folder_ / name, time);
    auto after = find_stamp((folder_ / name).string());
    after->status_changed = stamp->status_changed;
    ASSERT_EQ(*after, *stamp);
  }

  std::string wrapped(const std::string& name, const std::vector<std::string>& documents) const {
    return compress(wrapping_of(name)->compression, json_lines(documents));
  }
  const std::vector<std::string> documents_ = some_documents(6000);
};

TEST_F(ChangedInputTest, IsNoticedWhenAnUnfinishedRunGoesOn) {
  for (const char* name : {"a.jsonl", "b.jsonl.zst"}) {
    const std::string text = wrapped(name, documents_), input = folder_.write(name, text);
    const PrepareSettings some = settings({input, write_last("{oops")}, std::string(name) + ".out");
    expect_user_error([&] { run(some); }, {"last.jsonl", "not JSON"});
    ASSERT_GT(done_of(some), 0);
    std::vector<std::string> changed = documents_;
    changed[3][0] = changed[3][0] == 'x' ? 'y' : 'x';
    std::string other = wrapped(name, changed);
    other.resize(text.size(), '\n');  // of the same size, whatever is at the end
    replace_keeping_time(name, other);
    expect_user_error([&] { run(some); }, {name, "changed since"});
    folder_.write(name, other);
    expect_user_error([&] { run(some); }, {name, "changed since"});
    folder_.write(name, text);  // with another time, but the same contents
    write_last("");             // and what was not read yet may change
    EXPECT_EQ(run(some).outcome, PrepareOutcome::complete);
    EXPECT_EQ(dataset(std::string(name) + ".out"), expected(documents_, EndOfDocument::none));
  }
}

TEST_F(ChangedInputTest, IsNoticedAfterCompletion) {
  const std::string text = json_lines(documents_), input = folder_.write("a.jsonl", text);
  const PrepareSettings some = settings({input}, "out");
  run(some);
  std::string other = text;
  other[other.find("word") + 1] = 'x';
  replace_keeping_time("a.jsonl", other);
  expect_user_error([&] { run(some); }, {"a.jsonl", "other contents", "choose another --output"});
  folder_.write("a.jsonl", text);
  EXPECT_EQ(run(some).outcome, PrepareOutcome::complete);
  folder_.write("a.jsonl", other);
  expect_user_error([&] { run(some); }, {"a.jsonl", "other contents", "choose another --output"});
}

TEST_F(ChangedInputTest, IsNoticedWhileItIsRead) {
  const std::string input = folder_.write("a.jsonl", json_lines(some_documents(20)));
  const PrepareHooks hooks{.stop = [] { return false; },
                           .tell = [&](const std::string&) { folder_.write("a.jsonl", json_lines(some_documents(21))); }};
  expect_user_error([&] { prepare_data(settings({input}, "out"), tokenizer_, hooks); }, {"a.jsonl", "changed while"});
}

// Does something while a document is encoded.
class HookedTokenizer final : public Tokenizer {
 public:
  explicit HookedTokenizer(std::function<void(std::string_view)> hook) : hook_(std::move(hook)) {}
  int64_t vocabulary() const override { return bytes_.vocabulary(); }
  int32_t end_of_document() const override { return bytes_.end_of_document(); }
  std::vector<int32_t> encode(std::string_view text) const override {
    hook_(text);
    return bytes_.encode(text);
  }
  std::string decode(std::span<const int32_t> tokens) const override { return bytes_.decode(tokens); }

 private:
  ByteTokenizer bytes_;
  std::function<void(std::string_view)> hook_;
};

// Nothing is called complete that was not looked at again.
TEST_F(PrepareTest, WorkOrOutputThatVanishesIsAFailure) {
  const std::string input = folder_.write("a.jsonl", json_lines(some_documents(100)));
  const PrepareSettings some = settings({input}, "out");
  const PrepareHooks hooks{.stop = [] { return false; }, .tell = [](const std::string&) {}};
  const HookedTokenizer tokenizer([&](std::string_view) { fs::remove_all(some.output + ".preparing"); });
  try {
    prepare_data(some, tokenizer, hooks);
    ADD_FAILURE() << "nothing was said";
  } catch (const Failure& failure) {
    EXPECT_TRUE(contains(failure.what(), "out.preparing")) << failure.what();
  }
  EXPECT_FALSE(fs::exists(some.output + "_text_document.idx"));
  run(some);
  fs::resize_file(some.output + "_text_document.bin", 10);
  expect_user_error([&] { run(some); }, {"out_text_document.bin: 10 bytes", "run again"});
  fs::remove(some.output + "_text_document.bin");
  expect_user_error([&] { run(some); }, {"out_text_document.bin: it is gone"});
}

// Ranks that finish together: one of them makes the output, none fails, and nothing is left behind.
TEST_F(PrepareTest, RanksThatFinishTogetherLeaveTheOutputAlone) {
  std::vector<std::string> all;
  for (size_t i = 0; i < 8; ++i) {
    std::vector<std::string> documents = some_documents(5);
    documents.emplace_back("last of its file");
    all.insert(all.end(), documents.begin(), documents.end());
    folder_.write(fmt::format("in/{}.jsonl", i), json_lines(documents));
  }
  const auto right = expected(all, EndOfDocument::none);
  for (int round = 0; round < 25; ++round) {
    const std::string output = fmt::format("out{}", round);
    std::array<std::string, 4> troubles;
    // Every rank has two files. Each waits for the others before the end of a file, though not for ever: one may have failed.
    std::atomic<int> arrived = 0;
    const HookedTokenizer tokenizer([&](std::string_view text) {
      if (text != "last of its file") return;
      const int all_here = (arrived++ / 4 + 1) * 4;
      for (int i = 0; i < 1000 && arrived < all_here; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const PrepareHooks hooks{.stop = [] { return false; }, .tell = [](const std::string&) {}};
    {
      std::vector<std::jthread> ranks;
      for (int64_t rank = 0; rank < 4; ++rank)
        ranks.emplace_back([&, rank] {
          PrepareSettings one = settings({(folder_ / "in").string()}, output);
          one.workers = 1;
          one.rank = {.rank = rank, .ranks = 4, .source = "--rank"};
          try {
            prepare_data(one, tokenizer, hooks);
          } catch (const std::exception& error) {
            troubles[static_cast<size_t>(rank)] = error.what();
          }
        });
    }
    for (const std::string& trouble : troubles) ASSERT_EQ(trouble, "") << "round " << round;
    EXPECT_EQ(dataset(output), right);
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      ASSERT_FALSE(contains(entry.path().string(), ".preparing")) << entry.path();
  }
}

TEST_F(PrepareTest, EstimatesEveryKindOfInputByItself) {
  std::string lines;
  for (uint64_t i = 1, number = 1; i < 60000; ++i) {
    number = number * 6364136223846793005 + 1442695040888963407;
    lines += json_lines({fmt::format("The number {} is {}.", i % 100, number >> 32)});
  }
  folder_.write("in/a.jsonl", lines);
  for (int i = 0; i < 6; ++i) folder_.write(fmt::format("in/{}.jsonl.zst", i), compress_zstd(lines));
  folder_.write("in/c.txt", lines);
  PrepareSettings some = settings({(folder_ / "in").string()}, "out");
  const double tokens = run(some).report["tokens"];
  some.output += "again";
  some.dry_run = DryRun::yes;
  const double estimated = run(some).report["expected_tokens"];
  EXPECT_NEAR(estimated / tokens, 1, 0.1);  // the beginnings of the files are like the rest
}

// What is said to go through in a second is what went through, the time of putting the output together included.
TEST_F(PrepareTest, RatesAreOfThisRunAndAllOfIt) {
  const std::string text = json_lines(some_documents(6000));
  PrepareSettings some = settings({folder_.write("a.jsonl.zst", compress_zstd(text))}, "flat");
  some.format = OutputFormat::flat;
  json report = run(some).report;
  EXPECT_DOUBLE_EQ(report["mb_per_second"], static_cast<double>(text.size()) / 1e6 / report["wall_seconds"].get<double>());
  some.format = OutputFormat::megatron;
  some.output = (folder_ / "resumed").string();
  some.inputs.push_back(write_last("{oops"));
  expect_user_error([&] { run(some); }, {"last.jsonl"});
  const int64_t done = done_of(some);
  ASSERT_GT(done, 0);
  write_last("");
  report = run(some).report;
  EXPECT_EQ(report["input_bytes"], text.size() + kLastBytes);
  EXPECT_NEAR(report["mb_per_second"].get<double>() * report["wall_seconds"].get<double>() * 1e6,
              static_cast<double>(report["input_bytes"].get<int64_t>() - done), 1);
}

class GoldenTest : public PrepareTest {
 protected:
  void run_gpt2(const PrepareSettings& settings, const fs::path& vocabulary) const {
    const PrepareHooks hooks{.stop = [] { return false; }, .tell = [](const std::string&) {}};
    prepare_data(settings, *load_tokenizer((vocabulary / "gpt2/vocab.json").string()), hooks);
  }
  std::string hash(const fs::path& path) const {
    const std::string bytes = contents(path);
    return sha256(bytes_of(bytes));
  }
  std::string golden(const char* what, const char* hash) const {
    return json::parse(contents(golden_data() / "gpt2/golden_streams.json"))[what][hash].get<std::string>();
  }
};

TEST_F(GoldenTest, MegatronsFilesOfTheEdgeCases) {
  PrepareSettings some = settings({(golden_data() / "json_edge/input.jsonl").string()}, "edge");
  some.end_of_document = EndOfDocument::append;
  run_gpt2(some, golden_data());
  EXPECT_EQ(contents(some.output + "_text_document.bin"), contents(golden_data() / "json_edge/megatron.bin"));
  EXPECT_EQ(contents(some.output + "_text_document.idx"), contents(golden_data() / "json_edge/megatron.idx"));
}

class LargeGoldenTest : public GoldenTest {
 protected:
  void SetUp() override { SKIP_WITHOUT_LARGE_GOLDEN("gpt2/vocab.json"); }
  void run_large(const PrepareSettings& settings) const { run_gpt2(settings, large_golden_data()); }
};

TEST_F(LargeGoldenTest, MegatronsFilesOfTheSample) {
  SKIP_WITHOUT_LARGE_GOLDEN("text/public_sample.jsonl.zst");
  PrepareSettings some = settings({(large_golden_data() / "text/public_sample.jsonl.zst").string()}, "sample");
  some.end_of_document = EndOfDocument::append;
  run_large(some);
  EXPECT_EQ(hash(some.output + "_text_document.bin"),
            golden("public_sample.jsonl.zst, 50256 appended to every document (Megatron .bin, uint16)", "sha256_u16le"));
  EXPECT_EQ(hash(some.output + "_text_document.idx"),
            golden("public_sample_text_document.idx (Megatron, dtype code 8)", "sha256"));
}

TEST_F(LargeGoldenTest, NanoGptsFilesOfShakespeare) {
  PrepareSettings some = settings({(large_golden_data() / "text/tinyshakespeare.txt").string()}, "shakespeare");
  some.format = OutputFormat::flat;
  some.split_by = SplitBy::characters;
  some.validation = 0.1;
  run_large(some);
  EXPECT_EQ(hash(some.output + "/train.bin"),
            golden("tinyshakespeare nanoGPT split 90/10 by characters: train.bin", "sha256_u16le"));
  EXPECT_EQ(hash(some.output + "/val.bin"), golden("tinyshakespeare nanoGPT split: val.bin", "sha256_u16le"));
}

// One document that is cut into three blocks has the tokens of the whole.
TEST_F(LargeGoldenTest, AWholeTextInPieces) {
  PrepareSettings some = settings({(large_golden_data() / "text/tinyshakespeare.txt").string()}, "whole");
  run_large(some);
  EXPECT_EQ(hash(some.output + "_text_document.bin"), golden("tinyshakespeare.txt", "sha256_u16le"));
}

}  // namespace
}  // namespace trireme::prepare
