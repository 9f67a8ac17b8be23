// Pods on one machine for a test: network namespaces on a switch of their own, each with a host name and the names of the others.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "cli/run_program.h"
#include "cli/small_run.h"
#include "support/temporary_folder.h"

namespace trireme {

// Nothing is added to the network of the machine: the switch has a namespace too, and no route leads out of it.
class PodNetwork {
 public:
  explicit PodNetwork(int pods) : prefix_(fmt::format("tk{}", ::getpid())), pods_(pods) {
    folder_.write("hosts", "127.0.0.1 localhost\n");
    std::string script = fmt::format(
        "set -e\nip netns add {0}-sw\nip netns exec {0}-sw ip link add br0 type bridge\nip netns exec {0}-sw ip link set br0 "
        "up\n",
        prefix_);
    for (int i = 0; i < pods; ++i)
      script += fmt::format(
          "ip netns add {0}-{1}\nip netns exec {0}-sw ip link add p{1} type veth peer name eth0 netns {0}-{1}\n"
          "ip netns exec {0}-sw ip link set p{1} master br0 up\nip netns exec {0}-{1} ip link set lo up\n"
          "ip netns exec {0}-{1} ip addr add 10.78.0.{2}/24 dev eth0\nip netns exec {0}-{1} ip link set eth0 up\n",
          prefix_, i, i + 1);
    works_ = run_shell(script + "true").status == 0;
  }
  ~PodNetwork() {
    for (int i = -1; i < pods_; ++i) {
      const std::string name = fmt::format("{}-{}", prefix_, i < 0 ? "sw" : std::to_string(i));
      run_shell(fmt::format("for p in $(ip netns pids {0}); do kill -9 $p; done; ip netns del {0}", name));
    }
  }
  PodNetwork(const PodNetwork&) = delete;
  PodNetwork& operator=(const PodNetwork&) = delete;

  bool works() const { return works_; }

  // From now on the pod sends and receives at most so much, as in "100mbit"; false: the kernel cannot.
  bool limit(int pod, const std::string& rate) const {
    const auto set = [&](const std::string& end, const std::string& device) {
      return run_shell(fmt::format("ip netns exec {}-{} tc qdisc replace dev {} root tbf rate {} burst 128k latency 20ms",
                                   prefix_, end, device, rate))
                 .status == 0;
    };
    return set(std::to_string(pod), "eth0") && set("sw", fmt::format("p{}", pod));
  }

  // Ends every process of a pod at once, as when its node is lost.
  void lose(int pod) const { run_shell(fmt::format("kill -9 $(ip netns pids {}-{})", prefix_, pod)); }

  // From now on pods find this one by its name, as with a headless service.
  void announce(int pod, const std::string& name) const {
    std::ofstream(folder_ / "hosts", std::ios::app) << fmt::format("10.78.0.{} {}\n", pod + 1, name);
  }

  // A line of the shell in a pod, in the background.
  pid_t start(int pod, const std::string& host, const std::string& line) const {
    const std::string script = folder_.write(
        fmt::format("pod-{}.sh", pod),
        fmt::format("hostname {}\nmount --bind {} /etc/hosts\nexec {}\n", host, (folder_ / "hosts").string(), line));
    return start_shell(
        fmt::format("exec ip netns exec {}-{} unshare --uts --mount --propagation private sh {}", prefix_, pod, script));
  }

 private:
  std::string prefix_;
  int pods_;
  TemporaryFolder folder_;
  bool works_ = false;
};

}  // namespace trireme
