#include "data/prepare/plan.h"

#include <algorithm>
#include <numeric>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "data/prepare/output_files.h"

namespace trireme::prepare {
namespace {

using nlohmann::json;

constexpr int64_t kRangeBytes = int64_t{4} << 30;  // per range of a file of plain lines
constexpr int64_t kWorkersPerLane = 3;             // workers kept busy by one stream that is being decompressed
constexpr int64_t kPartsPerLane = 4;               // so that all lanes end at about the same time
constexpr int64_t kPlanVersion = 2;

// Two tokenizers with the same checksum give the same tokens. It covers all their tokens and the encoding of a text that
// exercises most differences between patterns.
uint32_t checksum_of(const Tokenizer& tokenizer) {
  constexpr std::string_view kProbe =
      "It's 2024: I'LL   take 12345 tokens\r\n\n\tof caf\xC3\xA9\xE2\x80\x99s <|endoftext|> e\xCC\x81";
  uint32_t sum = 0;
  for (int32_t token = 0; token < tokenizer.vocabulary(); ++token)
    sum = crc32c(bytes_of(tokenizer.decode({&token, 1}) + '\n'), sum);
  if (const uint32_t rules = tokenizer.rules_checksum(); rules != 0) sum = crc32c(std::as_bytes(std::span(&rules, 1)), sum);
  // A temporary encoder, because the one that Tokenizer::encode caches would hold its memory for the whole run.
  TokenBuffer probe;
  tokenizer.make_encoder()->encode(kProbe, probe);
  return crc32c(std::as_bytes(probe.tokens()), sum);
}

json identity_of(const PrepareSettings& settings, const Plan& plan, const Tokenizer& tokenizer) {
  json inputs = json::array();
  for (const InputFile& file : plan.files) inputs.push_back({std::filesystem::path(file.path).filename().string(), file.bytes});
  json identity = {{"version", kPlanVersion},
                   {"inputs", inputs},
                   {"format", name_of(settings.format)},
                   {"tokenizer", checksum_of(tokenizer)},
                   {"end_of_document", static_cast<int>(end_of_document_of(settings))},
                   {"key", settings.key},
                   {"on_error", settings.on_error == OnError::stop ? "stop" : "skip"},
                   {"ranks", settings.rank.ranks}};
  if (settings.format == OutputFormat::flat) {
    identity["validation"] = settings.validation;
    identity["seed"] = settings.seed;
    identity["split_by"] = settings.split_by == SplitBy::documents ? "documents" : "characters";
  }
  if (settings.format == OutputFormat::llmc) identity["shard_tokens"] = settings.shard_tokens;
  return identity;
}

// Groups consecutive units into `count` parts of similar size.
std::vector<Part> group_units(const Plan& plan, int64_t count) {
  std::vector<Part> parts;
  const double share = static_cast<double>(std::max<int64_t>(plan.bytes(), 1)) / static_cast<double>(count);
  double bytes = 0;
  Part part;
  for (int64_t unit = 0; unit < std::ssize(plan.units); ++unit) {
    const Unit& next = plan.units[static_cast<size_t>(unit)];
    bytes += static_cast<double>(next.end - next.begin);
    part.end_unit = unit + 1;
    if (bytes >= share * static_cast<double>(parts.size() + 1)) {
      parts.push_back(part);
      part = {.first_unit = part.end_unit, .end_unit = part.end_unit};
    }
  }
  if (part.end_unit > part.first_unit) parts.push_back(part);
  return parts;
}

// As nanoGPT does with a single text: the two sides of a character offset are one document each.
void split_at_character(const PrepareSettings& settings, Plan& plan) {
  if (plan.files.size() != 1 || plan.files[0].wrapping.compression != Compression::none ||
      plan.files[0].wrapping.content != Content::text)
    throw UserError("--split-by characters needs one plain .txt file; there are {} inputs", plan.files.size());
  const MappedFile file = MappedFile::open(plan.files[0].path);
  const auto begins_character = [](std::byte byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; };
  const int64_t characters = std::ranges::count_if(file.bytes(), begins_character);
  const auto train = static_cast<int64_t>(static_cast<double>(characters) * (1 - settings.validation));
  int64_t seen = 0;
  const auto cut = std::ranges::find_if(file.bytes(), [&](std::byte byte) { return begins_character(byte) && seen++ == train; });
  const int64_t at = cut - file.bytes().begin();
  plan.units = {{.file = 0, .begin = 0, .end = at}, {.file = 0, .begin = at, .end = plan.files[0].bytes}};
}

}  // namespace

int64_t Plan::bytes_of(const Part& part) const {
  int64_t sum = 0;
  for (int64_t unit = part.first_unit; unit < part.end_unit; ++unit)
    sum += units[static_cast<size_t>(unit)].end - units[static_cast<size_t>(unit)].begin;
  return sum;
}

int64_t Plan::bytes() const {
  return std::accumulate(units.begin(), units.end(), int64_t{0},
                         [](int64_t sum, const Unit& unit) { return sum + unit.end - unit.begin; });
}

std::vector<int64_t> Plan::parts_of(const Rank& rank) const {
  std::vector<int64_t> mine;
  for (int64_t part = rank.rank; part < std::ssize(parts); part += rank.ranks) mine.push_back(part);
  return mine;
}

Plan make_plan(const PrepareSettings& settings, const Tokenizer& tokenizer, int64_t workers) {
  Plan plan;
  plan.files = find_input_files(settings.inputs, plan.passed_over);
  if (!settings.files.empty()) plan.files = select_files(plan.files, settings.files);
  plan.units = cut_into_units(plan.files, kRangeBytes);
  if (settings.format == OutputFormat::flat && settings.split_by == SplitBy::characters) split_at_character(settings, plan);
  plan.work_folder = work_folder_of(settings);
  plan.identity = identity_of(settings, plan, tokenizer);
  // One lane needs one part, and then its tokens need no copy at the end. With several ranks the number of parts must not depend
  // on a rank's cores.
  plan.lanes = std::clamp<int64_t>(workers / kWorkersPerLane, 1, std::ssize(plan.units));
  int64_t parts = plan.lanes == 1 ? 1 : plan.lanes * kPartsPerLane;
  if (settings.rank.ranks > 1) parts = settings.rank.ranks * 4 * kPartsPerLane;
  plan.parts = group_units(plan, std::min(parts, std::ssize(plan.units)));
  return plan;
}

}  // namespace trireme::prepare
