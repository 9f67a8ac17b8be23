// From the finished parts to the dataset's own files. May be killed at any moment and begun again; nothing has its final name
// before it is whole, and the file that says so to readers gets its name last.
#pragma once

#include <nlohmann/json.hpp>

#include "data/prepare/output_files.h"
#include "data/prepare/part_writer.h"

namespace trireme::prepare {

struct FinishedPart {
  PartFiles files;
  PartState state;
};

struct AssembleSettings {
  const PrepareSettings& prepare;
  TokenType type;
  int64_t vocabulary;
  int64_t memory;  // bytes it may use
};

// The files it made: a list of {"file", "bytes", "crc32c", ...}.
nlohmann::json assemble(const AssembleSettings& settings, const std::vector<FinishedPart>& parts);

// The disk that the output takes beside the parts.
int64_t assemble_bytes(OutputFormat format, int64_t token_bytes, int64_t documents, int64_t parts);

}  // namespace trireme::prepare
