// Assembles the finished parts into the files of the dataset. It may be killed at any moment and restarted. No file has its final
// name before it is complete, and the file that readers open first is renamed last.
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
  int64_t memory;  // limit in bytes
};

// Returns the files written: a list of {"file", "bytes", "crc32c", ...}.
nlohmann::json assemble(const AssembleSettings& settings, const std::vector<FinishedPart>& parts);

// Returns the disk space that the output needs in addition to the parts.
int64_t assemble_bytes(OutputFormat format, int64_t token_bytes, int64_t documents, int64_t parts);

}  // namespace trireme::prepare
