#include "data/prepare/part_writer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"

namespace trireme::prepare {
namespace {

using nlohmann::json;

constexpr int64_t kMaxJournalBytes = int64_t{1} << 30;
constexpr int64_t kDocumentBytes = sizeof(int32_t);
constexpr int64_t kSyncBytes =
    int64_t{1} << 25;  // the disk writes while tokens are made, so finish() waits for at most this much

std::string line_of(const PartState& state) {
  const json line = {{"next", {state.next.unit, state.next.block, state.next.byte, state.next.line}},
                     {"token_bytes", state.token_bytes},
                     {"token_checksum", state.token_checksum},
                     {"documents", state.documents},
                     {"document_checksum", state.document_checksum},
                     {"open_tokens", state.open_tokens},
                     {"input_bytes", state.input_bytes},
                     {"input_checksum", state.input_checksum},
                     {"unit_checksum", state.unit_checksum},
                     {"text_bytes", state.text_bytes},
                     {"finished", state.finished},
                     {"tally", to_json(state.tally)}};
  return json_text(line, kOneLine) + "\n";
}

std::optional<PartState> state_of(std::string_view line) {
  const json fields = try_parse_json(line);
  if (!fields.is_object()) return std::nullopt;
  try {
    PartState state;
    const auto& next = fields.at("next");
    state.next = {.unit = next.at(0), .block = next.at(1), .byte = next.at(2), .line = next.at(3)};
    fields.at("token_bytes").get_to(state.token_bytes);
    fields.at("token_checksum").get_to(state.token_checksum);
    fields.at("documents").get_to(state.documents);
    fields.at("document_checksum").get_to(state.document_checksum);
    fields.at("open_tokens").get_to(state.open_tokens);
    fields.at("input_bytes").get_to(state.input_bytes);
    fields.at("input_checksum").get_to(state.input_checksum);
    fields.at("unit_checksum").get_to(state.unit_checksum);
    fields.at("text_bytes").get_to(state.text_bytes);
    fields.at("finished").get_to(state.finished);
    state.tally = tally_from_json(fields.at("tally"));
    return state;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Returns the states in the order written, up to the first incomplete line.
std::vector<PartState> read_journal(const std::filesystem::path& path) {
  std::vector<PartState> states;
  if (!std::filesystem::exists(path)) return states;
  const std::string text = read_file(path, kMaxJournalBytes);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const auto state = state_of(std::string_view(text).substr(at, end - at));
    if (!state) break;
    states.push_back(*state);
    at = end + 1;
  }
  return states;
}

// Returns how many leading states match the file: their checksum equals that of so many bytes of it.
template <class Bytes, class Checksum>
size_t count_good(const std::filesystem::path& path, const std::vector<PartState>& states, Bytes&& bytes, Checksum&& checksum) {
  if (!std::filesystem::exists(path)) return 0;
  const File file = File::open(path);
  const int64_t size = file.size();
  std::vector<std::byte> buffer(size_t{1} << 20);
  int64_t at = 0;
  uint32_t sum = 0;
  for (size_t good = 0; good < states.size(); ++good) {
    const int64_t end = bytes(states[good]);
    if (end < at || end > size) return good;
    while (at < end) {
      const auto piece = std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(end - at, std::ssize(buffer))));
      file.read_at(at, piece);
      sum = crc32c(piece, sum);
      at += std::ssize(piece);
    }
    if (sum != checksum(states[good])) return good;
  }
  return states.size();
}

File open_at(const std::filesystem::path& path, int64_t bytes) {
  File file = File::open_append(path);
  std::error_code error;
  if (file.size() != bytes) std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes), error);
  if (error) throw Failure("cannot shorten {}: {}", path.string(), error.message());
  return file;
}

}  // namespace

PartFiles PartFiles::in(const std::filesystem::path& folder, int64_t part) {
  const std::string name = fmt::format("part-{:05}", part);
  return {folder / (name + ".bin"), folder / (name + ".documents"), folder / (name + ".journal")};
}

std::optional<PartState> peek_part_state(const PartFiles& files) {
  const std::vector<PartState> states = read_journal(files.journal);
  if (states.empty()) return std::nullopt;
  return states.back();
}

std::optional<PartState> read_part_state(const PartFiles& files) {
  std::vector<PartState> states = read_journal(files.journal);
  if (!states.empty() && states.back().finished) return states.back();
  states.resize(count_good(
      files.tokens, states, [](const PartState& state) { return state.token_bytes; },
      [](const PartState& state) { return state.token_checksum; }));
  states.resize(count_good(
      files.documents, states, [](const PartState& state) { return state.documents * kDocumentBytes; },
      [](const PartState& state) { return state.document_checksum; }));
  if (states.empty()) return std::nullopt;
  return states.back();
}

PartWriter::PartWriter(const PartFiles& files) : files_(files) {
  if (const auto state = read_part_state(files)) state_ = *state;
  if (state_.finished) return;
  tokens_ = open_at(files.tokens, state_.token_bytes);
  on_their_way_ = state_.token_bytes;
  documents_ = open_at(files.documents, state_.documents * kDocumentBytes);
  // Rewritten, so that the journal ends with a complete line that matches the files.
  const std::string line = line_of(state_);
  atomic_write(files.journal, bytes_of(line));
  journal_ = File::open_append(files.journal);
}

void PartWriter::write(Block& block) {
  std::span<int32_t> lengths = block.document_tokens;
  int64_t open_tokens = state_.open_tokens + block.open_tokens;
  if (!lengths.empty()) {
    const int64_t first = lengths[0] + state_.open_tokens;
    if (first > std::numeric_limits<int32_t>::max())
      throw UserError("{}: a document of {} tokens; a dataset's documents have at most 2147483647", block.name, first);
    lengths[0] = static_cast<int32_t>(first);
    open_tokens = block.open_tokens;
  }
  tokens_->write(block.tokens.bytes());
  documents_->write(std::as_bytes(lengths));
  if (block.next.unit != state_.next.unit) state_.unit_checksum = state_.input_checksum;
  state_.next = block.next;
  state_.token_bytes += static_cast<int64_t>(block.tokens.size());
  state_.token_checksum = crc32c(block.tokens.bytes(), state_.token_checksum);
  state_.documents += std::ssize(lengths);
  state_.document_checksum = crc32c(std::as_bytes(lengths), state_.document_checksum);
  state_.open_tokens = open_tokens;
  state_.input_bytes += static_cast<int64_t>(block.bytes.size());
  state_.input_checksum = crc32c(block.bytes.bytes(), state_.input_checksum);
  state_.text_bytes += block.text_bytes;
  state_.tally.add(block.tally);
  if (state_.token_bytes - on_their_way_ >= kSyncBytes) {
    tokens_->start_sync(on_their_way_, state_.token_bytes - on_their_way_);
    on_their_way_ = state_.token_bytes;
  }
}

void PartWriter::save() { journal_->write(line_of(state_)); }

void PartWriter::finish() {
  CHECK_EQ(state_.open_tokens, 0);
  tokens_->sync();
  documents_->sync();
  state_.finished = true;
  save();
  journal_->sync();
}

}  // namespace trireme::prepare
