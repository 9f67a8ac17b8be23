// The checksums that `trireme data prepare` noted when it wrote a dataset, in PREFIX_report.json beside it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme {

struct WrittenChecksums {
  std::string report;                     // the file that has them
  std::map<std::string, uint32_t> files;  // name, without folders -> crc32c
};

// Of the dataset with this prefix. Nothing: no report beside it speaks of its two files.
std::optional<WrittenChecksums> find_written_checksums(const std::string& prefix);

// UserError if `file`, of which this is the checksum, is not the one that was written.
void require_written(const WrittenChecksums& written, const std::string& file, uint32_t checksum);

}  // namespace trireme
