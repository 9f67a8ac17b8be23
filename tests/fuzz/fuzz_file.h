// Gives the bytes of a fuzzer to a reader of files.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

// A folder in memory, one for each process.
inline const std::string& fuzz_folder() {
  static const std::string folder = [] {
    std::string name = "/dev/shm/trireme-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder in /dev/shm");
    return name;
  }();
  return folder;
}

inline std::string fuzz_file(const std::string& name, std::string_view bytes) {
  const std::string path = fuzz_folder() + "/" + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace trireme
