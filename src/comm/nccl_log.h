// What NCCL decided, which only its log says: the network it took and the way between two ranks.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace trireme {

struct NcclFacts {
  std::string network;               // "Socket", "IB", "AWS Libfabric"; empty: not known
  std::string plugin;                // the network plugin's file or name; empty: there is none
  std::set<std::string> transports;  // "P2P", "SHM", "NET/IB"
};

NcclFacts parse_nccl_log(std::string_view text);

using Environment = std::function<const char*(const char*)>;

// The line that ends a run whose environment asks for a network (NCCL_NET, NCCL_NET_PLUGIN) that NCCL did not take; empty: all is
// well, or not known.
std::string network_complaint(const NcclFacts& facts, const Environment& environment);

// The file that NCCL writes its log to, unless the user wants to see it. NCCL looks once where to write, so there is one in a
// process, made before NCCL is used for the first time and removed at the end.
class NcclLog {
 public:
  NcclLog();

  bool is_known() const { return !path_.empty(); }
  NcclFacts facts() const;  // all so far
  NcclFacts new_facts();    // since the last time

 private:
  std::string read(size_t begin) const;

  const std::string& path_;  // empty: it goes where the user said
  size_t seen_ = 0;
};

}  // namespace trireme
