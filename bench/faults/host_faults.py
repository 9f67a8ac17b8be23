"""Faults of the network between hosts, which are network namespaces here."""
import contextlib
import re
import subprocess
import time

import hosts
import runs
from cases import LeftOut, MANY, Outcome, case, last_step, seconds_until


def ranks_on_hosts(folder, network, steps, options=()):
    """4 ranks of `trireme train` on as many hosts, which meet over TCP."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.yaml").write_text(runs.recipe(steps, every=MANY, width=128, sequence=64))
    ranks = []
    for rank in range(4):
        with open(folder / f"rank-{rank}.txt", "w") as output:
            ranks.append(network.start(rank, [runs.TRIREME, "train", "tiny.yaml", f"exp_manager.explicit_log_dir={folder}/run",
                                              "model.data.num_workers=1", *options],
                                       {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": network.address(0), "MASTER_PORT": "29511"},
                                       output, folder))
    run = runs.Run(folder, name="x")
    run.results = folder / "run"
    run.wait(lambda: last_step(run) >= 20, "step 20", 60)
    return run, ranks, lambda: (folder / "rank-0.txt").read_text()


@contextlib.contextmanager
def network_of(count):
    try:
        network = hosts.Hosts(count)
    except (OSError, subprocess.CalledProcessError):
        raise LeftOut("this machine has no network namespaces") from None
    try:
        yield network
    finally:
        network.remove()


@case(7, "the link of a host is cut for 10 s, then mended")
def cut_link(folder):
    with network_of(4) as network:
        run, ranks, said = ranks_on_hosts(folder, network, MANY)
        begin = time.monotonic()
        network.link(2, "down")
        detected = seconds_until(run, lambda: "lags" in said(), "the rank is named", begin)
        time.sleep(max(0, 10 - (time.monotonic() - begin)))
        network.link(2, "up")
        at, mended = last_step(run), time.monotonic()
        resumed = seconds_until(run, lambda: last_step(run) > at + 5, "further steps", mended, 60)
        alive, text = all(rank.poll() is None for rank in ranks), said()
    assert alive
    named = re.search(r"rank \d+ \([^)]*\) lags[^\n]*", text).group(0)
    return Outcome(detected, resumed, 0, f"rides it out: `{named}`; the next step: after the link was mended", text)


@case(7, "the link of a host is cut for good")
def lost_link(folder):
    with network_of(4) as network:
        run, ranks, said = ranks_on_hosts(folder, network, MANY)
        begin = time.monotonic()
        network.link(0, "down")
        named = seconds_until(run, lambda: " lags" in (folder / "rank-1.txt").read_text(), "the rank is named", begin)
        ranks[1].wait(90)
        ended = time.monotonic() - begin
        text = (folder / "rank-1.txt").read_text()
    line = re.search(r"trireme: [^\n;]*", text).group(0)
    return Outcome(named, None, None, f"the host of rank 0; the others left after {ended:.1f} s: `{line}`", text)


@case(8, "the link of a host has 10% of the rate of the others")
def slow_link(folder):
    with network_of(4) as network:
        for host in range(4):
            network.limit(host, "1gbit")
        run, ranks, said = ranks_on_hosts(folder, network, MANY)
        rates = []
        for rate in ("1gbit", "100mbit"):
            network.limit(2, rate)
            at, begin = last_step(run), time.monotonic()
            time.sleep(10)
            rates.append((last_step(run) - at) / (time.monotonic() - begin))
        alive, text = all(rank.poll() is None for rank in ranks), said()
    assert alive
    return Outcome(None, None, 0, f"no restart; {rates[0]:.0f} steps/s became {rates[1]:.0f}; the host is NOT named during the run "
                   "(trireme validate names it)", text)
