#!/usr/bin/env python3
"""What `trireme validate` says of clean and of faulty hosts, and its bandwidths against plain MPI loops.

usage: bench/validate/measure.py clean --runs 100 --hosts 4        does it name anything on good hosts?
       bench/validate/measure.py faults --hosts 4,8,16 --rounds 3  does it name a slow link, and a rank at half speed?
       bench/validate/measure.py busbw --rounds 9                  times of its collectives against MPI's, in turns
       bench/validate/measure.py report clean|faults|busbw         writes what --keep collected to bench/validate/reports/

Hosts are network namespaces on this machine, with links of equal rate. It needs root and iproute2, and busbw an MPI compiler. With
--keep FILE, results are added to a file, so that a long measurement can be made in pieces.
"""
import argparse
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "bench/faults"))
from hosts import Hosts  # noqa: E402

TRIREME = REPO / "build/trireme"
LIMIT = 0.05  # within which a bandwidth agrees
LARGE = 1 << 20  # bytes from which bandwidth is compared: below, a call's latency is measured
TITLES = {"clean": "Checks of clean hosts", "faults": "Faults that checks must name", "busbw": "Bandwidths of checks against plain MPI loops"}


def busy_seconds():
    """Of all cores together, and those of this process and its ended children. What the kernel does for the network counts as others'."""
    fields = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    own = os.times()
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK"), own.user + own.system + own.children_user + own.children_system


class Machine:
    """How much of the cores others used while we measured."""

    def __init__(self):
        self.load = os.getloadavg()[0]
        self.begin, self.all, self.own = time.monotonic(), *busy_seconds()

    def result(self):
        everything, own = busy_seconds()
        seconds = time.monotonic() - self.begin
        others = max(everything - self.all - (own - self.own), 0) / (seconds * os.cpu_count())
        return {"load_before": round(self.load, 2), "load_after": round(os.getloadavg()[0], 2), "others": round(others, 3),
                "seconds": round(seconds)}


def validate_on(hosts, count, words, during=None):
    """One rank on each host. Returns the exit statuses and the JSON of rank 0."""
    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as folder:
        ranks = []
        names = "".join(f"{hosts.address(host)} host{host}\n" for host in range(count))
        pathlib.Path(folder, "hosts").write_text("127.0.0.1 localhost\n" + names)
        named = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind hosts /etc/hosts; exec "$@"', "sh"]
        with open(f"{folder}/log", "w") as log:
            for rank in range(count):
                variables = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29511"}
                own = ["--output", folder] if rank == 0 else []
                ranks.append(hosts.start(rank, [*named, TRIREME, "validate", *words, *own], variables, log, folder))
            stop = threading.Event()
            brake = threading.Thread(target=during, args=(stop,)) if during else None
            if brake:
                brake.start()
            try:
                statuses = [rank.wait(timeout=300) for rank in ranks]
            finally:
                stop.set()
                if brake:
                    brake.join()
        path = pathlib.Path(folder, "validation.json")
        if not path.exists():
            sys.exit(f"no result, statuses {statuses}:\n{pathlib.Path(folder, 'log').read_text()[-4000:]}")
        return statuses, json.loads(path.read_text())


def failures_of(result):
    return [f"{one['node'] or 'cluster'}: {one['what']}: {one['seen']}, expected {one['expected']}" for one in result["findings"]
            if one["severity"] == "failure"]


def measure_clean(arguments):
    hosts = Hosts(arguments.hosts)
    try:
        for host in range(arguments.hosts):
            hosts.limit(host, arguments.rate)
        for _ in range(arguments.runs):
            begin = time.monotonic()
            statuses, result = validate_on(hosts, arguments.hosts, ["--quick", "--max-bytes", "64K"])
            rates = [one["bytes_per_s"] for one in result["pairs"]]
            gemm = [one["gemm_flops"] for one in result["ranks"]]
            yield {"hosts": arguments.hosts, "rate": arguments.rate, "status": max(statuses), "failures": failures_of(result),
                   "seconds": round(time.monotonic() - begin, 1), "pair_spread": round(min(rates) / max(rates), 3),
                   "gemm_spread": round(min(gemm) / max(gemm), 3)}
    finally:
        hosts.remove()


def half_speed(hosts, host):
    """A brake that stops the processes of a host half of the time."""

    def brake(stop):
        while not stop.is_set():
            processes = [one for one in hosts.processes(host) if pathlib.Path(f"/proc/{one}/exe").resolve().name == "trireme"]
            for _ in range(20):
                for number, pause in ((signal.SIGSTOP, 0.01), (signal.SIGCONT, 0.01)):
                    for process in processes:
                        try:
                            os.kill(process, number)
                        except ProcessLookupError:
                            pass
                    time.sleep(pause)

    return brake


def measure_faults(arguments):
    for count in [int(word) for word in arguments.hosts_list.split(",")]:
        rate = 400 if count <= 4 else 1600 // count
        hosts = Hosts(count)
        try:
            for fault in arguments.only.split(","):
                for turn in range(arguments.rounds):
                    bad = 1 + (turn * 5 + count) % (count - 1)
                    for host in range(count):
                        slow = fault == "link" and host == bad
                        hosts.limit(host, f"{rate // 10 if slow else rate}mbit")
                    during = half_speed(hosts, bad) if fault == "half" else None
                    _, result = validate_on(hosts, count, ["--quick", "--max-bytes", "4K"], during)
                    check = "network" if fault == "link" else "compute"
                    named = sorted({one["node"] for one in result["findings"] if one["severity"] == "failure" and one["check"] == check})
                    yield {"fault": fault, "hosts": count, "rate": f"{rate}mbit", "host": f"host{bad}", "named": named,
                           "others": [line for line in failures_of(result) if not line.startswith(f"host{bad}:")]}
        finally:
            hosts.remove()


def mpirun(ranks, *words):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 2):
        sys.exit(f"{' '.join(command)}: status {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.stdout


def measure_busbw(arguments):
    with tempfile.TemporaryDirectory(prefix="trireme-bench-") as folder:
        loop = pathlib.Path(folder, "mpi_loop")
        subprocess.run(["mpicc", "-O2", "-o", loop, REPO / "bench/validate/mpi_loop.c"], check=True)
        for _ in range(arguments.rounds):
            ours, loops = {}, {}
            mpirun(arguments.ranks, TRIREME, "validate", "--nccl", "--max-bytes", arguments.max_bytes, "--output", folder)
            for row in json.loads(pathlib.Path(folder, "validation.json").read_text())["collectives"]:
                side = row["out_of_place"] or row["in_place"]
                ours[f"{row['collective']} {row['size']}"] = side["time_us"] * 1e-6
            for line in mpirun(arguments.ranks, loop, arguments.max_bytes, 0.05).splitlines():
                name, size, seconds = line.split()
                loops[f"{name} {size}"] = float(seconds)
            yield {"ranks": arguments.ranks, "ours": ours, "loop": loops}


def clean_rows(results):
    rows = ["| hosts | links | runs | runs that named something | seconds per run, median | slowest / fastest pair, lowest | slowest / fastest GEMM, lowest |",
            "|---:|---|---:|---:|---:|---:|---:|"]
    for hosts, rate in sorted({(one["hosts"], one["rate"]) for one in results}):
        runs = [one for one in results if (one["hosts"], one["rate"]) == (hosts, rate)]
        alarms = [one for one in runs if one["status"] != 0]
        rows.append(f"| {hosts} | {rate} | {len(runs)} | {len(alarms)} | {statistics.median(one['seconds'] for one in runs):.1f} | "
                    f"{min(one['pair_spread'] for one in runs)} | {min(one['gemm_spread'] for one in runs)} |")
    named = [line for one in results for line in one["failures"]]
    return rows + ([""] + [f"- {line}" for line in named] if named else [])


def fault_rows(results):
    names = {"link": "link at 10% of the others' rate", "half": "rank at half speed"}
    rows = ["| fault | hosts | links | rounds | named, and only it | something else named |", "|---|---:|---|---:|---:|---:|"]
    for fault, hosts, rate in sorted({(one["fault"], one["hosts"], one["rate"]) for one in results}):
        runs = [one for one in results if (one["fault"], one["hosts"]) == (fault, hosts)]
        right = sum(one["named"] == [one["host"]] for one in runs)
        other = sum(bool(one["others"]) for one in runs)
        rows.append(f"| {names[fault]} | {hosts} | {rate} | {len(runs)} | {right} | {other} |")
    return rows


def busbw_rows(results):
    rows = ["| ranks | collective | bytes | ours, us: median (lowest to highest) | MPI loop, us | busbw, ours / loop |", "|---:|---|---:|---:|---:|---:|"]
    agree = total = 0
    for ranks in sorted({one["ranks"] for one in results}):
        runs = [one for one in results if one["ranks"] == ranks]
        for row in runs[0]["ours"]:
            name, size = row.split()
            if int(size) < LARGE or row not in runs[0]["loop"]:
                continue
            sides = [[one[way][row] * 1e6 for one in runs] for way in ("ours", "loop")]
            texts = [f"{statistics.median(side):.0f} ({min(side):.0f} to {max(side):.0f})" for side in sides]
            ratio = statistics.median(sides[1]) / statistics.median(sides[0])
            agree, total = agree + (abs(ratio - 1) <= LIMIT), total + 1
            rows.append(f"| {ranks} | {name} | {size} | {texts[0]} | {texts[1]} | {ratio:.2f} |")
    return [*rows, "", f"{agree} of {total} rows agree within {LIMIT:.0%}; medians of {len(results)} rounds."]


def write_report(arguments, results, machines):
    name = datetime.datetime.now().strftime("%Y-%m-%d-%H%M") + "-" + arguments.kind
    commit = subprocess.run(["git", "describe", "--always", "--dirty= with changes"], cwd=REPO, capture_output=True, text=True).stdout.strip()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    seconds = sum(one["seconds"] for one in machines)
    others = sum(one["others"] * one["seconds"] for one in machines) / seconds
    load = max(one["load_before"] for one in machines)
    broken = [text for is_broken, text in ((others > 0.05, "others used more than 5% of the cores"), (load > 0.3, "the load average was above 0.3 before"),
                                           ("with changes" in commit, "the checkout had changes")) if is_broken]
    rows = {"clean": clean_rows, "faults": fault_rows, "busbw": busbw_rows}[arguments.kind](results)
    report = "\n".join([f"# {TITLES[arguments.kind]}, {name[:15]}", "", f"`{'; '.join(dict.fromkeys(one['command'] for one in machines))}`, commit {commit}", "",
                        *rows, "", f"{model}, {os.cpu_count()} cores, in {len(machines)} pieces:", "",
                        *[f"- {one['seconds']} s at a load average of {one['load_before']} before and {one['load_after']} after; others used "
                          f"{one['others']:.1%} of the cores" for one in machines], "", "May be cited: " + ("no: " + ", ".join(broken) if broken else "yes"), ""])
    print(report)
    folder = REPO / "bench/validate/reports"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text(report)
    (folder / f"{name}.log").write_text("".join(json.dumps(one) + "\n" for one in [*machines, *results]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["clean", "faults", "busbw", "report"])
    parser.add_argument("kind", nargs="?", choices=list(TITLES), help="of report")
    parser.add_argument("--runs", type=int, default=100, help="of clean")
    parser.add_argument("--rounds", type=int, default=9, help="of faults and busbw")
    parser.add_argument("--hosts", default="4", help="of clean, and as 4,8,16 of faults")
    parser.add_argument("--only", default="link,half", help="of faults")
    parser.add_argument("--rate", default="400mbit", help="of the links of clean")
    parser.add_argument("--ranks", type=int, default=2, help="of busbw")
    parser.add_argument("--max-bytes", default="33554432", help="of busbw")
    parser.add_argument("--seconds", type=int, default=1 << 30, help="begin no further run or round after so many")
    parser.add_argument("--keep", default="validate-results.jsonl", help="results are added to it, and read by report")
    arguments = parser.parse_args()
    keep = pathlib.Path(f"{arguments.keep}.{arguments.kind or arguments.what}")
    if arguments.what == "report":
        if arguments.kind is None:
            sys.exit("report of what? clean, faults or busbw")
        lines = [json.loads(line) for line in keep.read_text().splitlines()]
        return write_report(arguments, [one for one in lines if "others" not in one or "fault" in one], [one for one in lines if "load_before" in one])
    arguments.hosts_list = arguments.hosts
    if arguments.what == "clean":
        arguments.hosts = int(arguments.hosts)
    machine = Machine()
    measure = {"clean": measure_clean, "faults": measure_faults, "busbw": measure_busbw}[arguments.what]
    with keep.open("a") as file:
        for one in measure(arguments):
            print(json.dumps({key: value for key, value in one.items() if key not in ("ours", "loop")}), flush=True)
            file.write(json.dumps(one) + "\n")
            if time.monotonic() - machine.begin > arguments.seconds:
                break
        words = [word for before, word in zip(sys.argv, sys.argv[1:]) if not word.startswith("--keep") and before != "--keep"]
        file.write(json.dumps({**machine.result(), "command": "bench/validate/measure.py " + " ".join(words)}) + "\n")


if __name__ == "__main__":
    main()
