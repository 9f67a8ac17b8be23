// Reads from NCCL's log what it decided: its network, and the transport between two ranks. NCCL reports them nowhere else.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace trireme {

struct NcclFacts {
  std::string network;               // "Socket", "IB", "AWS Libfabric"; empty: unknown
  std::string plugin;                // the network plugin's file or name; empty: no plugin
  std::set<std::string> transports;  // "P2P", "SHM", "NET/IB"
};

NcclFacts parse_nccl_log(std::string_view text);

using Environment = std::function<const char*(const char*)>;

// The error line for an environment that asks for a network (NCCL_NET, NCCL_NET_PLUGIN) that NCCL did not take; empty if it was
// taken or that is unknown.
std::string network_complaint(const NcclFacts& facts, const Environment& environment);

// The file that NCCL writes its log to, unless the user directs the log elsewhere. NCCL reads the setting once, so a process has
// one such file. It is created before NCCL is first used and removed at exit.
class NcclLog {
 public:
  NcclLog();

  bool is_known() const { return !path_.empty(); }
  NcclFacts facts() const;  // from the whole log
  NcclFacts new_facts();    // from what was logged since the last call

 private:
  std::string read(size_t begin) const;

  const std::string& path_;  // empty: the log goes where the user directed it
  size_t seen_ = 0;
};

}  // namespace trireme
