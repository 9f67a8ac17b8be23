// The checksums that files must have: one for one file, or a list as sha256sum writes it.
#pragma once

#include <map>
#include <string>

namespace trireme {

class Checksums {
 public:
  Checksums() = default;  // none: every file will do
  // 64 hexadecimal digits, or the path of a file with lines "DIGITS  name". UserError for anything else.
  static Checksums read(const std::string& digits_or_path);

  // For the file of that name: of the whole relative name, or else of its last part. Empty if nothing is asked of it; UserError
  // if there is a list and the file is not on it.
  std::string of(const std::string& name) const;
  bool for_one_file() const { return !single_.empty(); }

 private:
  std::string single_, path_;
  std::map<std::string, std::string> by_name_;
};

std::string sha256_of_file(const std::string& path);

}  // namespace trireme
