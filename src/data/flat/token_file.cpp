#include "data/flat/token_file.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kLlmcHeaderBytes = 1024;

struct LlmcKind {
  int32_t magic, version;
  TokenType type;
};
constexpr std::array<LlmcKind, 2> kLlmcKinds{{{20240520, 1, TokenType::uint16}, {20240801, 7, TokenType::uint32}}};
constexpr int32_t kLlmcEvaluationMagic = 20240522;

MappedFile open_mapped(const std::string& path) {
  try {
    return MappedFile::open(path);
  } catch (const Failure& failure) {
    throw UserError("{}", failure.what());
  }
}

}  // namespace

TokenFile TokenFile::open_flat(const std::string& path, TokenType type) {
  TokenFile file;
  file.file_ = open_mapped(path);
  file.type_ = type;
  file.data_ = file.file_.bytes();
  if (file.data_.size() % static_cast<size_t>(size_of(type)) != 0)
    throw UserError("{}: {} bytes are not a whole number of {} tokens of {} bytes", path, file.data_.size(), name_of(type),
                    size_of(type));
  if (file.data_.size() >= kLlmcHeaderBytes)
    for (const LlmcKind& kind : kLlmcKinds)
      if (load_at<int32_t>(file.data_.data()) == kind.magic)
        throw UserError("{}: byte 0: a shard of llm.c; use model.data.data_impl=llmc", path);
  return file;
}

TokenFile TokenFile::open_llmc(const std::string& path) {
  TokenFile file;
  file.file_ = open_mapped(path);
  const std::span<const std::byte> bytes = file.file_.bytes();
  if (bytes.size() < kLlmcHeaderBytes)
    throw UserError("{}: byte {}: the file ends inside its header of {} bytes", path, bytes.size(), kLlmcHeaderBytes);
  const auto magic = load_at<int32_t>(bytes.data()), version = load_at<int32_t>(bytes.data() + 4);
  const auto kind = std::ranges::find(kLlmcKinds, magic, &LlmcKind::magic);
  if (kind == kLlmcKinds.end())
    throw UserError("{}: byte 0: {}; a shard of llm.c begins with 20240520 or 20240801", path,
                    magic == kLlmcEvaluationMagic ? "questions for evaluation (20240522), not training tokens"
                                                  : fmt::format("{} is not a known kind", magic));
  if (version != kind->version) throw UserError("{}: byte 4: version {} is not known; only {} is", path, version, kind->version);
  file.type_ = kind->type;
  file.data_ = bytes.subspan(kLlmcHeaderBytes);
  const auto tokens = load_at<int32_t>(bytes.data() + 8);
  if (tokens < 0 || file.data_.size() != static_cast<size_t>(tokens) * static_cast<size_t>(size_of(kind->type)))
    throw UserError("{}: byte 8: {} tokens of {} are said to follow, but {} bytes do", path, tokens, name_of(kind->type),
                    file.data_.size());
  return file;
}

void TokenFile::read(int64_t begin, std::span<int32_t> to) const {
  CHECK(0 <= begin && begin + std::ssize(to) <= tokens());
  load_tokens(data_.data() + begin * size_of(type_), type_, to);
}

}  // namespace trireme
