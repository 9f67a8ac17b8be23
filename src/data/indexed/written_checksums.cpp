#include "data/indexed/written_checksums.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReport = "_report.json";
constexpr int64_t kMaxBytes = int64_t{1} << 30;

std::map<std::string, uint32_t> checksums_in(const fs::path& report) {
  std::map<std::string, uint32_t> files;
  const nlohmann::json read = try_parse_json(read_file(report, kMaxBytes));
  if (!read.is_object() || !read.contains("output") || !read["output"].is_array()) return files;
  for (const nlohmann::json& file : read["output"]) {
    const std::string name = file.is_object() ? file.value("file", "") : "",
                      text = file.is_object() ? file.value("crc32c", "") : "";
    uint32_t sum = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
    if (error == std::errc() && end == text.data() + text.size()) files[fs::path(name).filename().string()] = sum;
  }
  return files;
}

}  // namespace

std::optional<WrittenChecksums> find_written_checksums(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).has_parent_path() ? fs::path(prefix).parent_path() : fs::path(".");
  const std::string name = fs::path(prefix).filename().string();
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    // The report of OUTPUT_text_document is named OUTPUT_report.json.
    const std::string report = entry.path().filename().string();
    if (!report.ends_with(kReport) || !name.starts_with(report.substr(0, report.size() - kReport.size()))) continue;
    WrittenChecksums written{.report = entry.path().string(), .files = {}};
    written.files = checksums_in(entry.path());
    if (written.files.contains(name + ".bin") && written.files.contains(name + ".idx")) return written;
  }
  return std::nullopt;
}

void require_written(const WrittenChecksums& written, const std::string& file, uint32_t checksum) {
  const uint32_t wanted = written.files.at(fs::path(file).filename().string());
  if (checksum != wanted)
    throw UserError("{}: its crc32c is {:08x}, but {} says {:08x}: it is not the file that was written; prepare it again", file,
                    checksum, written.report, wanted);
}

}  // namespace trireme
