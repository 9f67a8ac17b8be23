// Paths and properties of each output format.
#pragma once

#include <filesystem>

#include "data/prepare/prepare.h"

namespace trireme::prepare {

const char* name_of(OutputFormat format);

std::filesystem::path megatron_prefix(const PrepareSettings& settings);  // OUTPUT_text_document
std::filesystem::path flat_file(const PrepareSettings& settings, const char* split);
std::filesystem::path llmc_file(const PrepareSettings& settings, const char* split, int64_t shard);
std::filesystem::path report_file(const PrepareSettings& settings);
std::filesystem::path work_folder_of(const PrepareSettings& settings);

// Returns the file whose presence says that the output is complete; it is renamed last.
std::filesystem::path last_file(const PrepareSettings& settings);

EndOfDocument end_of_document_of(const PrepareSettings& settings);
EmptyDocuments empty_documents_of(OutputFormat format);
TokenType token_type_of(OutputFormat format, int64_t vocabulary);

}  // namespace trireme::prepare
