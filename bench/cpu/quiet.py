"""Whether anything else uses the machine while a benchmark runs: the load before it, and the CPU time of other programs during it."""
import os
import resource
import time
from pathlib import Path

QUIET_LOAD = 0.5  # load average of a minute that counts as near 0
QUIET_SHARE = 0.05  # of the cores' time that other programs may take during a run


def load_average():
    return os.getloadavg()[0]


def wait_until_quiet(minutes):
    """Waits until the load average is near 0, at most so many minutes; returns whether it is."""
    end = time.monotonic() + 60 * minutes
    while load_average() > QUIET_LOAD and time.monotonic() < end:
        time.sleep(5)
    return load_average() <= QUIET_LOAD


def busy_seconds(cores):
    """CPU seconds that all programs have used on the cores since the machine started, and time that the host took from them."""
    ticks = 0
    for line in Path('/proc/stat').read_text().splitlines():
        name, *counts = line.split()
        if name.startswith('cpu') and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _, _, irq, softirq, steal = (int(count) for count in counts[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf('SC_CLK_TCK')


def own_seconds():
    """CPU seconds of this process and of the programs it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Neighbours:
    """Measures, from its making until share() is called, which share of the cores' time other programs used."""

    def __init__(self, cores):
        self.cores = cores
        self.begin, self.busy, self.own = time.monotonic(), busy_seconds(cores), own_seconds()

    def share(self):
        others = (busy_seconds(self.cores) - self.busy) - (own_seconds() - self.own)
        return max(0.0, others / (len(self.cores) * max(time.monotonic() - self.begin, 1e-9)))
