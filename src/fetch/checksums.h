// The expected checksums of files: a single one, or a list as sha256sum writes it.
#pragma once

#include <map>
#include <string>

namespace trireme {

class Checksums {
 public:
  Checksums() = default;  // no expectations
  // Reads 64 hexadecimal digits, or a file with lines "DIGITS  name". UserError for anything else.
  static Checksums read(const std::string& digits_or_path);

  // Returns the checksum for a file name: by the whole relative name, or else by its last part. Empty if none is expected.
  // UserError if there is a list and the file is not in it.
  std::string of(const std::string& name) const;
  bool for_one_file() const { return !single_.empty(); }

 private:
  std::string single_, path_;
  std::map<std::string, std::string> by_name_;
};

std::string sha256_of_file(const std::string& path);

}  // namespace trireme
