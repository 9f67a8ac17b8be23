"""Hosts on one machine: network namespaces on a switch of their own, each with a host name. Needs root and iproute2."""
import os
import signal
import subprocess


class Hosts:
    def __init__(self, count):
        self.prefix, self.count = f"tf{os.getpid()}", count
        lines = [f"ip netns add {self.prefix}-sw", f"ip netns exec {self.prefix}-sw ip link add br0 type bridge",
                 f"ip netns exec {self.prefix}-sw ip link set br0 up"]
        for host in range(count):
            name = f"{self.prefix}-{host}"
            lines += [f"ip netns add {name}",
                      f"ip netns exec {self.prefix}-sw ip link add p{host} type veth peer name eth0 netns {name}",
                      f"ip netns exec {self.prefix}-sw ip link set p{host} master br0 up",
                      f"ip netns exec {name} ip link set lo up",
                      f"ip netns exec {name} ip addr add {self.address(host)}/24 dev eth0",
                      f"ip netns exec {name} ip link set eth0 up"]
        subprocess.run("\n".join(["set -e", *lines]), shell=True, check=True)

    def address(self, host):
        return f"10.79.0.{host + 1}"

    def start(self, host, words, environment, output, cwd):
        """A process on a host, in a process group of its own."""
        words = ["ip", "netns", "exec", f"{self.prefix}-{host}", "unshare", "--uts", "sh", "-c",
                 f'hostname host{host}; exec "$@"', "sh", *map(str, words)]
        return subprocess.Popen(words, env=dict(os.environ, **environment), stdout=output, stderr=subprocess.STDOUT, cwd=cwd)

    def link(self, host, state):
        subprocess.run(["ip", "netns", "exec", f"{self.prefix}-sw", "ip", "link", "set", f"p{host}", state], check=True)

    def limit(self, host, rate):
        for end, device in ((host, "eth0"), ("sw", f"p{host}")):
            subprocess.run(["ip", "netns", "exec", f"{self.prefix}-{end}", "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                            "burst", "128k", "latency", "20ms"], check=True)

    def processes(self, host):
        found = subprocess.run(["ip", "netns", "pids", f"{self.prefix}-{host}"], stdout=subprocess.PIPE, text=True).stdout
        return [int(word) for word in found.split()]

    def remove(self):
        for host in [*range(self.count), "sw"]:
            for process in self.processes(host):
                os.kill(process, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", f"{self.prefix}-{host}"], check=False)
