#include "data/prepare/assemble.h"

#include <algorithm>
#include <numeric>
#include <system_error>

#include "base/crc32c.h"
#include "base/error.h"
#include "data/flat/flat_description.h"
#include "data/indexed/indexed_format.h"
#include "data/prepare/document_order.h"
#include "data/prepare/output_stream.h"

namespace trireme::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kPieceBytes = int64_t{1} << 20;

// Passes a part's file piece by piece to `take` and checks its checksum.
template <class Take>
void read_checked(const fs::path& path, int64_t bytes, uint32_t checksum, Take&& take) {
  const File file = File::open(path);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, kPieceBytes)));
  uint32_t sum = 0;
  for (int64_t at = 0; at < bytes;) {
    const auto piece = std::span(buffer).first(static_cast<size_t>(std::min(bytes - at, kPieceBytes)));
    file.read_at(at, piece);
    sum = crc32c(piece, sum);
    take(std::span<const std::byte>(piece));
    at += std::ssize(piece);
  }
  if (sum != checksum)
    throw Failure("{} is damaged: its checksum is not the journal's; remove it and its journal, and run again", path.string());
}

template <class Take>
void read_document_tokens(const std::vector<FinishedPart>& parts, Take&& take) {
  for (const FinishedPart& part : parts)
    read_checked(part.files.documents, part.state.documents * static_cast<int64_t>(sizeof(int32_t)), part.state.document_checksum,
                 [&](std::span<const std::byte> bytes) {
                   take(std::span(reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)));
                 });
}

template <class Take>
void read_tokens(const std::vector<FinishedPart>& parts, Take&& take) {
  for (const FinishedPart& part : parts) read_checked(part.files.tokens, part.state.token_bytes, part.state.token_checksum, take);
}

void remove_old(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Failure("cannot replace {}: {}", path.string(), error.message());
}

// Writes the .idx (data/indexed/indexed_format.h): one sequence per document, none for empty documents.
void write_index(const std::vector<FinishedPart>& parts, TokenType type, OutputStream& index) {
  int64_t sequences = 0, documents = 0;
  read_document_tokens(parts, [&](std::span<const int32_t> lengths) {
    documents += std::ssize(lengths);
    sequences += std::ssize(lengths) - std::ranges::count(lengths, 0);
  });
  const auto header = make_index_header(type, sequences, documents + 1);
  index.put_bytes(header);
  std::vector<int32_t> kept;
  read_document_tokens(parts, [&](std::span<const int32_t> lengths) {
    kept.clear();
    std::ranges::copy_if(lengths, std::back_inserter(kept), [](int32_t length) { return length != 0; });
    index.put(std::span<const int32_t>(kept));
  });
  std::vector<int64_t> numbers;
  int64_t pointer = 0;
  read_document_tokens(parts, [&](std::span<const int32_t> lengths) {
    numbers.clear();
    for (const int32_t length : lengths)
      if (length != 0) numbers.push_back(std::exchange(pointer, pointer + length * size_of(type)));
    index.put(std::span<const int64_t>(numbers));
  });
  int64_t boundary = 0;
  index.put_value(boundary);
  read_document_tokens(parts, [&](std::span<const int32_t> lengths) {
    numbers.clear();
    for (const int32_t length : lengths) numbers.push_back(boundary += length != 0 ? 1 : 0);
    index.put(std::span<const int64_t>(numbers));
  });
}

// Hard-links the tokens of a single part as the .bin, which saves a copy; the first name goes away with the work folder. Returns
// false if the file system cannot.
bool link_tokens(const FinishedPart& part, const fs::path& bin) {
  std::error_code error;
  fs::create_hard_link(part.files.tokens, bin, error);
  return !error;
}

json assemble_megatron(const AssembleSettings& settings, const std::vector<FinishedPart>& parts) {
  const fs::path prefix = megatron_prefix(settings.prepare), folder = work_folder_of(settings.prepare);
  const fs::path bin_path = prefix.string() + ".bin", idx_path = prefix.string() + ".idx";
  OutputStream index(idx_path, folder);
  write_index(parts, settings.type, index);
  index.finish();
  remove_old(idx_path);
  remove_old(bin_path);
  json files = json::array();
  if (parts.size() == 1 && link_tokens(parts[0], bin_path)) {
    files.push_back(describe_file(bin_path, parts[0].state.token_bytes, parts[0].state.token_checksum));
  } else {
    OutputStream bin(bin_path, folder);
    read_tokens(parts, [&](std::span<const std::byte> bytes) { bin.put_bytes(bytes); });
    bin.finish();
    bin.publish();
    files.push_back(bin.description());
  }
  index.publish();
  files.push_back(index.description());
  return files;
}

// Writes llm.c's shards: the stream of all tokens, split every shard_tokens; the first shard is for validation.
json assemble_llmc(const AssembleSettings& settings, const std::vector<FinishedPart>& parts) {
  constexpr size_t kHeaderNumbers = 256;
  const fs::path folder = work_folder_of(settings.prepare);
  const bool wide = settings.type == TokenType::uint32;
  const int64_t token_bytes = size_of(settings.type);
  int64_t left = 0;  // tokens not yet assigned to a shard
  for (const FinishedPart& part : parts) left += part.state.token_bytes / token_bytes;
  std::vector<OutputStream> shards;
  int64_t room = 0;  // bytes still to be written to the last shard
  read_tokens(parts, [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (room == 0) {
        const int64_t tokens = std::min(left, settings.prepare.shard_tokens);
        const auto number = std::ssize(shards);
        if (!shards.empty()) shards.back().finish();
        shards.emplace_back(llmc_file(settings.prepare, number == 0 ? "val" : "train", number), folder);
        std::array<int32_t, kHeaderNumbers> header{};
        header[0] = wide ? 20240801 : 20240520;
        header[1] = wide ? 7 : 1;
        header[2] = narrow<int32_t>(tokens);
        shards.back().put(std::span<const int32_t>(header));
        left -= tokens;
        room = tokens * token_bytes;
      }
      const auto piece = bytes.first(static_cast<size_t>(std::min<int64_t>(std::ssize(bytes), room)));
      shards.back().put_bytes(piece);
      room -= std::ssize(piece);
      bytes = bytes.subspan(piece.size());
    }
  });
  if (shards.empty()) throw UserError("{}: the inputs have no tokens, and llm.c has no file for that", settings.prepare.output);
  shards.back().finish();
  json files = json::array();
  for (OutputStream& shard : shards) files.push_back(shard.description());
  std::ranges::for_each(shards.rbegin(), shards.rend(), [](OutputStream& shard) { shard.publish(); });
  return files;
}

json assemble_flat(const AssembleSettings& settings, const std::vector<FinishedPart>& parts) {
  const fs::path folder = work_folder_of(settings.prepare);
  std::vector<int32_t> lengths;
  int64_t documents = 0;
  for (const FinishedPart& part : parts) documents += part.state.documents;
  if (const int64_t needed = documents * DocumentOrder::kBytesPerDocument; needed > settings.memory)
    throw UserError("--memory: to shuffle {} documents takes {} MiB; give that much more", documents, needed >> 20);
  lengths.reserve(static_cast<size_t>(documents));
  read_document_tokens(parts, [&](std::span<const int32_t> more) { lengths.insert(lengths.end(), more.begin(), more.end()); });
  const DocumentOrder order(lengths, settings.prepare);
  std::vector<TokenRangeFile> tokens;
  for (const FinishedPart& part : parts) tokens.push_back({File::open(part.files.tokens), part.state.token_bytes});
  OutputStream val(flat_file(settings.prepare, "val"), folder), train(flat_file(settings.prepare, "train"), folder);
  order.copy_validation(tokens, size_of(settings.type), [&](std::span<const std::byte> bytes) { val.put_bytes(bytes); });
  order.copy_training(tokens, size_of(settings.type), [&](std::span<const std::byte> bytes) { train.put_bytes(bytes); });
  val.finish();
  train.finish();
  FlatDescription description{.type = settings.type, .vocabulary = settings.vocabulary, .files = {}};
  description.files["val.bin"] = val.bytes() / size_of(settings.type);
  description.files["train.bin"] = train.bytes() / size_of(settings.type);
  write_flat_description(settings.prepare.output, description);
  val.publish();
  train.publish();
  return json::array({train.description(), val.description()});
}

}  // namespace

json assemble(const AssembleSettings& settings, const std::vector<FinishedPart>& parts) {
  json files;
  switch (settings.prepare.format) {
    case OutputFormat::megatron:
      files = assemble_megatron(settings, parts);
      break;
    case OutputFormat::flat:
      files = assemble_flat(settings, parts);
      break;
    case OutputFormat::llmc:
      files = assemble_llmc(settings, parts);
      break;
  }
  const fs::path last = last_file(settings.prepare);
  sync_folder(last.has_parent_path() ? last.parent_path() : ".");
  return files;
}

int64_t assemble_bytes(OutputFormat format, int64_t token_bytes, int64_t documents, int64_t parts) {
  if (format != OutputFormat::megatron) return token_bytes;
  constexpr int64_t kIndexBytes = 20;
  return documents * kIndexBytes + (parts > 1 ? token_bytes : 0);
}

}  // namespace trireme::prepare
