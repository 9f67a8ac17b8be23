// The checksums that `trireme data prepare` recorded for a dataset in PREFIX_report.json beside it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme {

struct WrittenChecksums {
  std::string report;                     // the file that contains them
  std::map<std::string, uint32_t> files;  // file name without folders -> crc32c
};

// Returns the checksums of the dataset with this prefix, or nothing if no report beside it lists its two files.
std::optional<WrittenChecksums> find_written_checksums(const std::string& prefix);

// UserError if `checksum`, computed from `file`, differs from the recorded one.
void require_written(const WrittenChecksums& written, const std::string& file, uint32_t checksum);

}  // namespace trireme
