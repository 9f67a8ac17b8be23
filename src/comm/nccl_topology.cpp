#include "comm/nccl_topology.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "NCCL_TOPO_FILE";
constexpr const char* kUsualSpeed = "16.0 GT/s PCIe";  // where /sys does not say; what files of Azure have
constexpr int kUsualWidth = 16;
constexpr size_t kGpusOfOneSwitch = 2;  // a virtual switch per NUMA node with so many

using Attributes = std::vector<std::pair<const char*, std::string>>;

// The first line of a file. What would have a meaning in XML is left out.
std::string sys_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::erase_if(line, [](char c) { return std::string_view("<>&\"").find(c) != std::string_view::npos || c < ' '; });
  return std::string(trimmed(line.substr(0, 256)));
}

bool is_hexadecimal(char c) { return std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos; }

bool is_bus_id(const std::string& name) {  // 0000:3b:00.0
  if (name.size() != 12 || name[4] != ':' || name[7] != ':' || name[10] != '.') return false;
  return std::ranges::all_of(name, [](char c) { return is_hexadecimal(c) || c == ':' || c == '.'; });
}

enum class PciKind : uint8_t { gpu, infiniband, ethernet };

std::optional<PciKind> pci_kind(const fs::path& device) {
  constexpr std::string_view kNvidia = "0x10de";
  const std::string device_class = sys_line(device / "class");
  const bool is_gpu = device_class.starts_with("0x0300") || device_class.starts_with("0x0302");
  if (is_gpu) return sys_line(device / "vendor") == kNvidia ? std::optional(PciKind::gpu) : std::nullopt;
  if (device_class.starts_with("0x0207")) return PciKind::infiniband;
  std::error_code failed;
  return fs::is_directory(device / "infiniband", failed) ? std::optional(PciKind::ethernet) : std::nullopt;
}

// A GPU or a card, with the PCI devices above it from the root to itself, as /sys/devices has them.
struct PciDevice {
  PciKind kind = PciKind::gpu;
  std::vector<fs::path> chain;
  int numa = 0;
};

// Machines with one NUMA node give none.
int numa_of(const fs::path& device) {
  const std::string text = sys_line(device / "numa_node");
  return text.empty() ? 0 : std::max(std::atoi(text.c_str()), 0);
}

std::vector<PciDevice> devices_below(const fs::path& root) {
  std::vector<PciDevice> devices;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/pci/devices", failed)) {
    fs::path path = fs::canonical(entry.path(), failed);
    const std::optional<PciKind> kind = failed ? std::nullopt : pci_kind(path);
    if (!kind) continue;
    PciDevice device{.kind = *kind, .chain = {}, .numa = numa_of(path)};
    for (; is_bus_id(path.filename().string()); path = path.parent_path()) device.chain.insert(device.chain.begin(), path);
    if (!device.chain.empty()) devices.push_back(std::move(device));
  }
  std::ranges::sort(devices, {}, [](const PciDevice& device) { return device.chain.back().filename(); });
  return devices;
}

// "16.0 GT/s PCIe" is 16; 0 if it is not known.
double transfers_of(const std::string& speed) { return std::strtod(speed.c_str(), nullptr); }

// A device and the port above it train at what both can do.
std::string link_speed(const fs::path& device) {
  const std::string own = sys_line(device / "max_link_speed"), port = sys_line(device.parent_path() / "max_link_speed");
  if (transfers_of(own) <= 0) return transfers_of(port) > 0 ? port : kUsualSpeed;
  return transfers_of(port) > 0 && transfers_of(port) < transfers_of(own) ? port : own;
}

int link_width(const fs::path& device) {
  const int own = std::atoi(sys_line(device / "max_link_width").c_str()),
            port = std::atoi(sys_line(device.parent_path() / "max_link_width").c_str());
  // 255: the driver does not know.
  const auto is_known = [](int lanes) { return lanes > 0 && lanes <= 32; };
  if (!is_known(own)) return is_known(port) ? port : kUsualWidth;
  return is_known(port) ? std::min(own, port) : own;
}

struct PciNode {
  Attributes attributes;
  std::map<std::string, PciNode> below;  // by bus id
};

PciNode pci_node(const fs::path& device) {
  PciNode node{.attributes = {{"busid", device.filename().string()}}, .below = {}};
  for (const char* name : {"class", "vendor", "device", "subsystem_vendor", "subsystem_device"})
    if (const std::string value = sys_line(device / name); !value.empty()) node.attributes.emplace_back(name, value);
  node.attributes.emplace_back("link_speed", link_speed(device));
  node.attributes.emplace_back("link_width", std::to_string(link_width(device)));
  return node;
}

PciNode& child_of(PciNode& parent, const fs::path& device) {
  return parent.below.try_emplace(device.filename().string(), pci_node(device)).first->second;
}

PciNode virtual_switch(int number) {
  return {.attributes = {{"busid", fmt::format("ffff:ff:{:02x}.0", number)},
                         {"class", "0x060400"},
                         {"link_speed", kUsualSpeed},
                         {"link_width", std::to_string(kUsualWidth)}},
          .below = {}};
}

std::string processor_fact(const fs::path& root, std::string_view name) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(':'); colon != std::string::npos && trimmed(line.substr(0, colon), " \t") == name)
      return std::string(trimmed(std::string_view(line).substr(colon + 1), " \t\r"));
  return "";
}

Attributes processor_attributes(const fs::path& root, int numa) {
  const std::string affinity = sys_line(root / fmt::format("sys/devices/system/node/node{}/cpumap", numa));
  Attributes attributes = {{"numaid", std::to_string(numa)}, {"affinity", affinity}};
#if defined(__x86_64__)
  attributes.emplace_back("arch", "x86_64");
#elif defined(__aarch64__)
  attributes.emplace_back("arch", "arm64");
#endif
  for (const auto& [name, fact] :
       {std::pair{"vendor", "vendor_id"}, std::pair{"familyid", "cpu family"}, std::pair{"modelid", "model"}})
    attributes.emplace_back(name, processor_fact(root, fact));
  std::erase_if(attributes, [](const auto& one) { return one.second.empty(); });
  return attributes;
}

void append_xml(const std::string& tag, const PciNode& node, int depth, std::string& xml) {
  const std::string indent(static_cast<size_t>(2 * depth), ' ');
  xml += indent + "<" + tag;
  for (const auto& [name, value] : node.attributes) xml += fmt::format(" {}=\"{}\"", name, value);
  if (node.below.empty()) {
    xml += "/>\n";
    return;
  }
  xml += ">\n";
  for (const auto& [id, below] : node.below) append_xml("pci", below, depth + 1, xml);
  xml += indent + "</" + tag + ">\n";
}

class TopologyReader {
 public:
  explicit TopologyReader(const fs::path& root) : root_(root), devices_(devices_below(root)) {}

  NcclTopology read() {
    topology_.gpus = count(PciKind::gpu);
    topology_.cards = static_cast<int>(devices_.size()) - topology_.gpus;
    const auto has_no_port = [](const PciDevice& device) { return device.kind != PciKind::gpu || device.chain.size() == 1; };
    topology_.is_virtual = topology_.gpus > 0 && std::ranges::all_of(devices_, has_no_port);
    std::set<int> nodes;
    for (const PciDevice& device : devices_) nodes.insert(device.numa);
    std::string& xml = topology_.xml;
    xml = "<system version=\"1\">\n";
    for (const int numa : nodes) {
      PciNode processor{.attributes = processor_attributes(root_, numa), .below = {}};
      if (topology_.is_virtual)
        add_virtual(numa, processor);
      else
        add_real(numa, processor);
      append_xml("cpu", processor, 1, xml);
    }
    xml += "</system>\n";
    return std::move(topology_);
  }

 private:
  int count(PciKind kind) const { return static_cast<int>(std::ranges::count(devices_, kind, &PciDevice::kind)); }

  std::vector<fs::path> of_node(int numa, PciKind kind) const {
    std::vector<fs::path> paths;
    for (const PciDevice& device : devices_)
      if (device.numa == numa && device.kind == kind) paths.push_back(device.chain.back());
    return paths;
  }

  // Every second PCI device above another one is its switch: between them are the switch's ports, or a port of the processor.
  void add_real(int numa, PciNode& processor) {
    for (const PciDevice& device : devices_) {
      if (device.numa != numa) continue;
      PciNode* parent = &processor;
      const size_t last = device.chain.size() - 1;
      for (size_t i = last % 2; i < last; i += 2) {
        topology_.switches += parent->below.contains(device.chain[i].filename().string()) ? 0 : 1;
        parent = &child_of(*parent, device.chain[i]);
      }
      child_of(*parent, device.chain[last]);
    }
  }

  void add_virtual(int numa, PciNode& processor) {
    const std::vector<fs::path> gpus = of_node(numa, PciKind::gpu), cards = of_node(numa, PciKind::infiniband);
    for (const fs::path& card : of_node(numa, PciKind::ethernet)) child_of(processor, card);
    const size_t groups = gpus.size() <= kGpusOfOneSwitch ? 1 : gpus.size();
    for (size_t group = 0; group < groups && gpus.size() + cards.size() > 0; ++group) {
      PciNode own = virtual_switch(++topology_.switches);
      for (const auto* all : {&gpus, &cards})
        for (size_t i = group * all->size() / groups; i < (group + 1) * all->size() / groups; ++i) child_of(own, (*all)[i]);
      processor.below.emplace(own.attributes.front().second, own);
    }
  }

  fs::path root_;
  std::vector<PciDevice> devices_;
  NcclTopology topology_;
};

}  // namespace

std::string NcclTopology::summary() const {
  return fmt::format("{}, {}, {}{} PCI switch{}", plural(gpus, "GPU"), plural(cards, "network card"), switches,
                     is_virtual ? " virtual" : "", switches == 1 ? "" : "es");
}

NcclTopology read_nccl_topology(const fs::path& root) { return TopologyReader(root).read(); }

fs::path system_root() {
  const char* root = std::getenv("TRIREME_SYSTEM_ROOT");
  return root == nullptr || *root == '\0' ? "/" : root;
}

NcclTopologyFile::NcclTopologyFile(const fs::path& root) {
  const char* asked = std::getenv(kVariable);
  std::error_code failed;
  if (asked == nullptr || *asked == '\0' || fs::exists(asked, failed)) return;
  const NcclTopology topology = read_nccl_topology(root);
  if (topology.gpus == 0) return;  // NCCL says what it misses
  asked_ = asked;
  const fs::path path = fs::temp_directory_path() / fmt::format("trireme-topology-{}.xml", ::getpid());
  try {
    atomic_write(path, bytes_of(topology.xml));
  } catch (const Failure& failure) {
    description_ = fmt::format("{}={} is missing and cannot be made: {}", kVariable, asked_, failure.what());
    return;
  }
  path_ = path;
  ::setenv(kVariable, path_.c_str(), 1);
  description_ = fmt::format("{}={} is missing, so NCCL reads what /sys has: {}", kVariable, asked_, topology.summary());
}

NcclTopologyFile::~NcclTopologyFile() {
  if (path_.empty()) return;
  std::error_code failed;
  fs::remove(path_, failed);
  ::setenv(kVariable, asked_.c_str(), 1);
}

}  // namespace trireme
