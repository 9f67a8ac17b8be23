// How GPUs, network cards and PCI switches of a machine are connected, as NCCL reads it from the file that NCCL_TOPO_FILE names.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

struct NcclTopology {
  std::string xml;
  int gpus = 0, cards = 0, switches = 0;
  bool is_virtual = false;  // a virtual machine hides its PCI switches: they are guessed, see below
  std::string summary() const;
};

// From /sys and /proc below `root`, which is "/" or the root of a tree like it. Devices hang below the PCI switches that the
// kernel shows. Where GPUs have no PCI port above them, as in virtual machines of Azure, those of a NUMA node and its InfiniBand
// cards are put below switches of their own: all of a node with at most two GPUs below one, else each GPU with its share of the
// cards.
NcclTopology read_nccl_topology(const std::filesystem::path& root);

// "/", or for tests TRIREME_SYSTEM_ROOT.
std::filesystem::path system_root();

// If NCCL_TOPO_FILE names a file that this machine does not have, writes one for this process and lets the variable name it. The
// file is removed at exit. To be made before NCCL is first used.
class NcclTopologyFile {
 public:
  explicit NcclTopologyFile(const std::filesystem::path& root = system_root());
  ~NcclTopologyFile();
  NcclTopologyFile(const NcclTopologyFile&) = delete;
  NcclTopologyFile& operator=(const NcclTopologyFile&) = delete;

  const std::string& description() const { return description_; }  // empty: nothing was written

 private:
  std::filesystem::path path_;  // empty: nothing was written
  std::string asked_, description_;
};

}  // namespace trireme
