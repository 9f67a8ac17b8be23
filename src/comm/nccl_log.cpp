#include "comm/nccl_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace trireme {
namespace {

// Returns the text after `mark`, up to one of `ends` or the end of the line; empty if the mark is not in the line.
std::string_view behind(std::string_view line, std::string_view mark, std::string_view ends = "") {
  const size_t at = line.find(mark);
  if (at == line.npos) return {};
  const std::string_view rest = line.substr(at + mark.size());
  return ends.empty() ? rest : rest.substr(0, rest.find_first_of(ends));
}

// The transport without its details: "NET/AWS Libfabric" of "NET/AWS Libfabric/0/GDRDMA", "P2P" of "P2P/CUMEM/read".
std::string transport_of(std::string_view way) {
  const size_t first = way.find('/');
  const bool is_network = way.substr(0, first) == "NET" && first != way.npos;
  return std::string(way.substr(0, is_network ? way.find('/', first + 1) : first));
}

constexpr std::string_view kBlanks = " \r";

void parse_line(std::string_view line, NcclFacts& facts) {
  // The first is the wording of NCCL 2.18 to 2.26, the second that of later versions.
  for (const std::string_view network : {behind(line, "Using network "), behind(line, "Assigned NET plugin ")})
    if (!network.empty()) facts.network = trimmed(network.substr(0, network.find(" to comm")), kBlanks);
  for (const std::string_view plugin : {behind(line, "NET/Plugin: Loaded net plugin ", "("), behind(line, "Plugin Path : ")})
    if (!plugin.empty()) facts.plugin = trimmed(plugin, kBlanks);
  if (line.find("Channel ") != line.npos)
    if (const std::string_view way = behind(line, " via "); !way.empty())
      facts.transports.insert(transport_of(trimmed(way, kBlanks)));
}

struct LogFile {
  LogFile() {
    const char* level = std::getenv("NCCL_DEBUG");
    const std::string asked = level != nullptr ? level : "";
    if (std::getenv("NCCL_DEBUG_FILE") != nullptr || asked == "INFO" || asked == "TRACE") return;
    path = std::filesystem::temp_directory_path() / fmt::format("trireme-nccl-{}.log", ::getpid());
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
  }
  ~LogFile() {
    std::error_code error;
    if (!path.empty()) std::filesystem::remove(path, error);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  std::string path;
};

const std::string& log_path() {
  static const LogFile file;
  return file.path;
}

}  // namespace

NcclFacts parse_nccl_log(std::string_view text) {
  NcclFacts facts;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    parse_line(text.substr(0, end), facts);
    text = end == text.npos ? std::string_view{} : text.substr(end + 1);
  }
  return facts;
}

std::string network_complaint(const NcclFacts& facts, const Environment& environment) {
  if (facts.network != "Socket") return {};
  for (const char* name : {"NCCL_NET_PLUGIN", "NCCL_NET"}) {
    const char* value = environment(name);
    const std::string asked = value != nullptr ? value : "";
    if (asked.empty() || asked == "none" || asked == "Socket") continue;
    return fmt::format(
        "{}={} asks for a network plugin, and NCCL fell back to sockets; put the plugin's folder in LD_LIBRARY_PATH, check its "
        "devices, or unset {} to run over sockets",
        name, asked, name);
  }
  return {};
}

NcclLog::NcclLog() : path_(log_path()) { new_facts(); }

std::string NcclLog::read(size_t begin) const {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  return {std::istreambuf_iterator<char>(file), {}};
}

NcclFacts NcclLog::facts() const { return is_known() ? parse_nccl_log(read(0)) : NcclFacts{}; }

NcclFacts NcclLog::new_facts() {
  if (!is_known()) return {};
  const std::string text = read(seen_);
  seen_ += text.size();
  return parse_nccl_log(text);
}

}  // namespace trireme
