#include "data/prepare/output_files.h"

#include "base/error.h"

namespace trireme::prepare {
namespace {

struct FormatRow {
  OutputFormat format;
  const char* name;
  EndOfDocument end_of_document;  // default: that of the format's own tools
  EmptyDocuments empty_documents;
};
constexpr FormatRow kFormats[] = {
    {OutputFormat::megatron, "megatron", EndOfDocument::none, EmptyDocuments::bare},
    {OutputFormat::flat, "flat", EndOfDocument::append, EmptyDocuments::with_end},
    {OutputFormat::llmc, "llmc", EndOfDocument::prepend, EmptyDocuments::with_end},
};

const FormatRow& row_of(OutputFormat format) {
  for (const FormatRow& row : kFormats)
    if (row.format == format) return row;
  CHECK_NEVER("every format has a row");
}

}  // namespace

const char* name_of(OutputFormat format) { return row_of(format).name; }
EmptyDocuments empty_documents_of(OutputFormat format) { return row_of(format).empty_documents; }

EndOfDocument end_of_document_of(const PrepareSettings& settings) {
  if (settings.end_of_document) return *settings.end_of_document;
  if (settings.format == OutputFormat::flat && settings.split_by == SplitBy::characters) return EndOfDocument::none;
  return row_of(settings.format).end_of_document;
}

TokenType token_type_of(OutputFormat format, int64_t vocabulary) {
  return format == OutputFormat::megatron ? token_type_for(vocabulary) : flat_token_type_for(vocabulary);
}

std::filesystem::path megatron_prefix(const PrepareSettings& settings) {
  return fmt::format("{}_{}_document", settings.output, settings.key);
}

std::filesystem::path flat_file(const PrepareSettings& settings, const char* split) {
  return std::filesystem::path(settings.output) / fmt::format("{}.bin", split);
}

std::filesystem::path llmc_file(const PrepareSettings& settings, const char* split, int64_t shard) {
  return fmt::format("{}_{}_{:06}.bin", settings.output, split, shard);
}

std::filesystem::path report_file(const PrepareSettings& settings) {
  if (settings.format == OutputFormat::flat) return std::filesystem::path(settings.output) / "report.json";
  return settings.output + "_report.json";
}

std::filesystem::path work_folder_of(const PrepareSettings& settings) {
  if (settings.format == OutputFormat::flat) return std::filesystem::path(settings.output) / "preparing";
  return settings.output + ".preparing";
}

std::filesystem::path last_file(const PrepareSettings& settings) {
  switch (settings.format) {
    case OutputFormat::megatron:
      return megatron_prefix(settings).string() + ".idx";
    case OutputFormat::flat:
      return flat_file(settings, "train");
    case OutputFormat::llmc:
      return llmc_file(settings, "val", 0);
  }
  CHECK_NEVER("every format has a last file");
}

}  // namespace trireme::prepare
