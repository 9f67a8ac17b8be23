#include "base/process.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Returns the number after `key` at the start of a line, such as "VmHWM:     12345 kB"; 0 if there is none.
int64_t number_after(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, key.size(), key) == 0) return std::stoll(line.substr(key.size()));
  return 0;
}

int64_t status_kilobytes(const std::string& key) { return number_after("/proc/self/status", key); }

// Returns the number in a file; kNoLimit if it is not a number, as in "max".
int64_t number_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kNoLimit;
}

// Returns what is left of a control group's limit. Unused file pages count as used there but can be reclaimed.
int64_t left_in_group(const fs::path& limit, const fs::path& taken, const fs::path& statistics) {
  const int64_t most = number_in(limit), now = number_in(taken);
  if (most == kNoLimit || now == kNoLimit) return kNoLimit;
  return std::max<int64_t>(most - now + number_after(statistics, "inactive_file "), 0);
}

// Returns the tightest limit among the control groups of this process, for both cgroup versions.
int64_t left_in_groups() {
  const fs::path root = "/sys/fs/cgroup";
  int64_t left =
      left_in_group(root / "memory/memory.limit_in_bytes", root / "memory/memory.usage_in_bytes", root / "memory/memory.stat");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (fs::path group = root / line.substr(4);; group = group.parent_path()) {
      left = std::min(left, left_in_group(group / "memory.max", group / "memory.current", group / "memory.stat"));
      if (group == root || !group.has_relative_path()) break;
    }
  }
  return left;
}

}  // namespace

// The 22nd field of /proc/self/stat is the start, in clock ticks since the machine started. The name before the third field may
// hold anything.
double process_age_seconds() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double started = 0;
  timespec now{};
  if (!(fields >> started) || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double age = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
                     started / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(age, 0.0);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string user_name() {
  const passwd* user = ::getpwuid(::getuid());
  return user == nullptr ? fmt::format("{}", ::getuid()) : user->pw_name;
}

std::string build_id() {
  std::string id;
  // The first object is the program itself. A note has a header, a name and a description, each padded to 4 bytes.
  const auto find = [](dl_phdr_info* object, size_t, void* to) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      if (part.p_type != PT_NOTE) continue;
      const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);  // NOLINT(performance-no-int-to-ptr)
      for (const char* const end = at + part.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const char* const said = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
        if (note.n_type == NT_GNU_BUILD_ID)
          for (uint32_t byte = 0; byte < note.n_descsz; ++byte)
            *static_cast<std::string*>(to) += fmt::format("{:02x}", static_cast<unsigned char>(said[byte]));
        at = said + (note.n_descsz + 3) / 4 * 4;
      }
    }
    return 1;
  };
  ::dl_iterate_phdr(find, &id);
  return id;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

MemoryUse memory_use() {
  std::array<char, 4096> buffer{};
  const int descriptor = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  ::close(descriptor);
  const std::string_view status(buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  const auto bytes_after = [&](std::string_view key) {
    const size_t at = status.find(key);
    const size_t digits = at == std::string_view::npos ? at : status.find_first_of("0123456789", at);
    int64_t kilobytes = 0;
    if (digits != std::string_view::npos) std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
    return kilobytes * 1024;
  };
  return {.now = bytes_after("VmRSS:"), .peak = bytes_after("VmHWM:")};
}

uint32_t random_bits() {
  uint32_t bits = 0;
  CHECK_EQ(::getrandom(&bits, sizeof(bits), 0), static_cast<ssize_t>(sizeof(bits)));
  return bits;
}

int64_t resident_bytes() { return status_kilobytes("VmRSS:") * 1024; }
int64_t peak_resident_bytes() { return status_kilobytes("VmHWM:") * 1024; }

int64_t available_memory_bytes() {
  const int64_t machine = (number_after("/proc/meminfo", "MemAvailable:") + number_after("/proc/meminfo", "SwapFree:")) * 1024;
  return machine == 0 ? 0 : std::min(machine, left_in_groups());
}

}  // namespace trireme
