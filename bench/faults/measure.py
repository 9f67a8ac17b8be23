#!/usr/bin/env python3
"""Injects faults into runs of tiny models and measures what happens: the table of faults.

usage: bench/faults/measure.py [--only kill,stop] [--report] [--list]

Each case starts a run of its own, injects the fault for real, and measures from then on: seconds until it is named, seconds until
the next attempt has done its first step, and the steps that were lost. Cases that need root, mpirun, network namespaces, a compiler
or Slurm are left out, and say so, where these are missing. `--only tests` runs the cases that are tests of the project.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import hosts
import runs

CASES = []  # in the order of the table
MANY = 1_000_000


class LeftOut(Exception):
    """This machine lacks something."""


def case(number, fault):
    def add(function):
        CASES.append((number, fault, function))
        return function
    return add


class Outcome:
    def __init__(self, detected=None, resumed=None, lost=None, note="", log=""):
        self.detected, self.resumed, self.lost, self.note, self.log = detected, resumed, lost, note, log


def last_step(run):
    """The last step that rank 0 has logged, counted from 0."""
    try:
        with open(run.results / "metrics.csv", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = [line for line in file.read().decode().split("\n")[:-1] if line[:1].isdigit()]
        return int(lines[-1].split(",")[0]) if lines else -1
    except (OSError, ValueError):
        return -1


def started(folder, step=40, steps=MANY, options=(), **sizes):
    """A run that has logged this step."""
    run = runs.Run(folder, text=runs.recipe(steps, **sizes), options=options)
    run.start()
    run.wait(lambda: last_step(run) >= step, f"step {step}")
    return run


def seconds_until(run, condition, what, begin, limit=120):
    run.wait(condition, what, limit)
    return time.monotonic() - begin


def after_fault(run, begin, at_step, pattern, note=""):
    """Until the fault is named, and until the next attempt has logged a step."""
    detected = seconds_until(run, lambda: re.search(pattern, run.log()), pattern, begin)
    named = re.search(pattern, run.log()).group(0)
    run.wait(lambda: len(run.goodput()) > 1 and run.goodput()[-1]["first_step"] >= 0, "the next attempt")
    first = run.goodput()[-1]["first_step"]
    size = (run.results / "metrics.csv").stat().st_size
    resumed = seconds_until(run, lambda: (run.results / "metrics.csv").stat().st_size != size or last_step(run) > at_step + 1,
                            "the next step", begin)
    log = run.log()
    run.stop()
    return Outcome(detected, resumed, max(at_step + 1 - first, 0), f"`{named}`{note}", log)


def kill_rank(folder, rank):
    run = started(folder)
    process, at = run.process_of(rank), last_step(run)
    begin = time.monotonic()
    os.kill(process, signal.SIGKILL)
    return after_fault(run, begin, at, r"rank \d+ \([^)]*\) died in step \d+")


@case(1, "SIGKILL of rank 2")
def kill(folder):
    return kill_rank(folder, 2)


@case(1, "SIGKILL of rank 0")
def kill_first(folder):
    return kill_rank(folder, 0)


@case(2, "SIGSTOP of rank 2")
def stop(folder):
    run = started(folder)
    process, at = run.process_of(2), last_step(run)
    begin = time.monotonic()
    os.kill(process, signal.SIGSTOP)
    return after_fault(run, begin, at, r"rank \d+ \([^)]*\) lags: [^;\n]*")


@case(2, "the training thread of rank 1 stands still, its process lives")
def hang(folder):
    run = started(folder)
    process, at = run.process_of(1), last_step(run)
    libc = ctypes.CDLL(None, use_errno=True)
    begin = time.monotonic()
    if libc.ptrace(16, process, None, None) != 0:  # PTRACE_ATTACH stops this thread only
        raise LeftOut("no process may stop a thread of another one")
    named = r"rank \d+ \([^)]*\) lags: [^;\n]*"
    detected = seconds_until(run, lambda: re.search(named, run.log()), named, begin)
    run.wait(lambda: " hangs: " in run.log(), "the end of the attempt")
    os.kill(process, signal.SIGKILL)  # a process with a traced thread cannot leave by itself
    while not os.WIFSIGNALED(os.waitpid(process, 0x40000000)[1]):
        pass
    outcome = after_fault(run, begin, at, named)
    outcome.detected = detected
    return outcome


@case(3, "every rank exits at once, every time")
def exits(folder):
    if shutil.which("mpirun") is None:
        raise LeftOut("mpirun is not installed")
    run = runs.Run(folder, text=runs.recipe(20), options=["--env", "OMPI_MCA_btl=none"])
    begin = time.monotonic()
    done = run.run_to_end(check=False)
    assert done.returncode == 93, done.stdout
    assert len(run.attempts()) == 3
    return Outcome(time.monotonic() - begin, None, 0, "3 attempts, then status 93; detected: until it gave up", run.log())


def duty_cycle(process, share, seconds):
    """Lets a process run for this share of every 100 ms, as a quota of CPU time does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.1 * share)
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.1 * (1 - share))
        os.kill(process, signal.SIGCONT)
        yield


@case(9, "1 of 2 ranks runs for 90% of every 100 ms")
def slow_rank(folder):
    run = runs.Run(folder, ranks=2, text=runs.recipe(MANY, every=100, batch=8, sequence=128, layers=4, width=192))
    run.start()
    run.wait(lambda: last_step(run) >= 50, "step 50", 240)
    clean, at, process = run.log().count("is slow"), last_step(run), run.process_of(1)
    begin = time.monotonic()
    for _ in duty_cycle(process, 0.9, 100):
        if "rank 1" in run.log() and "is slow" in run.log().split("rank 1")[-1][:80]:
            break
    found = re.findall(r"rank 1 \([^)]*\) is slow[^\n]*", run.log())
    detected, steps = time.monotonic() - begin, last_step(run) - at
    log = run.log()
    run.stop()
    note = f"named after {steps} steps: `{found[0]}`" if found else f"not named in {steps} steps"
    return Outcome(detected if found else None, None, 0, f"{note}; false alarms before: {clean}", log)


@case(10, "SIGTERM to rank 3 only")
def terminate(folder):
    run = started(folder)
    at = last_step(run)
    begin = time.monotonic()
    os.kill(run.process_of(3), signal.SIGTERM)
    run.wait_until_over()
    seconds = time.monotonic() - begin
    assert run.attempts()[-1]["exit_status"] == 75, run.attempts()
    log, saved = run.log(), run.newest_step()
    assert f"step {saved}" in log or saved >= at
    return Outcome(seconds, None, 0, f"saved after step {saved}, status 75; detected: until all ranks have left", log)


@case(11, "SIGKILL 0 to 19 ms after a save began")
def kill_in_save(folder):
    run = started(folder, options=["--max-restarts", 100], every=5)
    lost, seen = 0, set()
    for offset in range(20):
        run.wait(lambda: len(run.rank_processes()) == 4 and not seen & set(run.rank_processes()), "ranks")
        since = time.time()
        run.wait(lambda: run.is_saving(since), "a save")
        seen = set(run.rank_processes())
        time.sleep(offset / 1000)
        os.kill(random.Random(offset).choice(sorted(seen)), signal.SIGKILL)
    run.wait(lambda: not seen & set(run.rank_processes()) and run.newest_step() > 0 and len(run.rank_processes()) == 4, "ranks")
    time.sleep(1)
    log = run.log()
    lost = sum(one["steps_done"] - later["first_step"] for one, later in zip(run.goodput(), run.goodput()[1:])
               if later["first_step"] >= 0 and one["first_step"] >= 0)
    damaged = len(re.findall(r"damaged|cannot be used", log))
    run.stop()
    return Outcome(None, None, lost, f"20 kills; checkpoints found damaged: {damaged}; steps lost: of all kills together", log)


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]).returncode != 0:
        raise LeftOut("only root can make a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)])


@case(12, "the disk of run and checkpoints fills up, then has room again")
def full_disk(folder):
    run = runs.Run(folder, text=runs.recipe(MANY, every=20))
    with small_disk(run.launch_folder, "64m"):
        run.start()
        run.wait(lambda: run.newest_step() >= 40, "a checkpoint")
        filler = run.launch_folder / "filler"
        begin = time.monotonic()
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        detected = seconds_until(run, lambda: "cannot save" in run.log() or not run.log().endswith("\n"), "a warning", begin)
        before = run.newest_step()
        time.sleep(2)
        alive = len(run.rank_processes()) == 4
        filler.unlink()
        again = seconds_until(run, lambda: run.newest_step() > before, "the next checkpoint", time.monotonic())
        attempts, log = len(run.attempts()), run.log()
        run.stop()
    assert alive and attempts == 1, log[-2000:]
    return Outcome(detected, None, 0, f"the ranks trained on for 2 s without room; a checkpoint {again:.2f} s after there was", log)


@case(12, "the folder of checkpoints becomes read-only, then writable")
def read_only(folder):
    run = runs.Run(folder, text=runs.recipe(MANY, every=20))
    with small_disk(run.results / "checkpoints", "64m") as disk:
        run.start()
        run.wait(lambda: run.newest_step() >= 40, "a checkpoint")
        begin = time.monotonic()
        while subprocess.run(["mount", "-o", "remount,ro", str(disk)], stderr=subprocess.DEVNULL).returncode != 0:
            time.sleep(0.001)  # a file is open for writing
        detected = seconds_until(run, lambda: re.search("warning:.*Read-only", run.log()), "a warning", begin)
        before, at = run.newest_step(), last_step(run)
        time.sleep(2)
        trained = last_step(run) - at
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        again = seconds_until(run, lambda: run.newest_step() > before, "the next checkpoint", time.monotonic())
        attempts, log = len(run.attempts()), run.log()
        run.stop()
        run.wait(lambda: not run.rank_processes(), "the end")
    assert attempts == 1 and trained > 0
    return Outcome(detected, None, 0, f"{trained} steps in the next 2 s; a checkpoint {again:.2f} s after it was writable", log)


def flip_bit(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@case(13, "a bit of a shard of the newest checkpoint is flipped")
def damaged_checkpoint(folder):
    run = started(folder, step=60)
    run.stop()
    run.wait(lambda: not run.rank_processes() and run.is_over(), "the end")
    newest = run.newest_step()
    shard = run.results / f"checkpoints/step-{newest:08}/rank-00000.safetensors"
    flip_bit(shard, shard.stat().st_size - 100)
    begin = time.monotonic()
    run.start("--resume")
    run.wait(lambda: "is damaged" in run.log(), "the damage is named")
    detected = time.monotonic() - begin
    run.wait(lambda: "resumed from step" in run.log(), "the older checkpoint is used")
    named = re.search(r"shard rank-00000[^\n]*", run.log()).group(0)
    resumed = int(re.findall(r"resumed from step (\d+)", run.log())[-1])
    log = run.log()
    run.stop()
    return Outcome(detected, None, newest - resumed, f"`{named}`; detected: from the start of the next launch", log)


def memory_places(process, needle):
    """Addresses in a process at which these bytes are."""
    found = []
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            place, access = line.split()[:2]
            begin, end = (int(word, 16) for word in place.split("-"))
            if not access.startswith("rw") or end - begin > 1 << 30 or "[v" in line:
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, ValueError):
                continue
            at = content.find(needle)
            while at >= 0:
                found.append(begin + at)
                at = content.find(needle, at + 1)
    return found


def write_memory(process, addresses, content):
    with open(f"/proc/{process}/mem", "r+b", 0) as memory:
        for address in addresses:
            memory.seek(address)
            memory.write(content)


def frozen_run(folder, **options):
    """A run whose weights stay as they are (its learning rate is 0), and 32 bytes of its weights."""
    run = started(folder, **options)
    run.wait(lambda: run.newest_step() >= 20, "a checkpoint")
    shard = (run.results / f"checkpoints/step-{run.newest_step():08}/rank-00000.safetensors").read_bytes()
    header = int.from_bytes(shard[:8], "little")
    tensors = runs.json.loads(shard[8:8 + header])
    name = next(name for name in tensors if name.endswith("qkv.weight") and not name.startswith(("first_", "second_")))
    begin = 8 + header + tensors[name]["data_offsets"][0]
    return run, shard[begin + 64:begin + 96]


@case(14, "a bit of the weights of rank 2 is flipped in its memory")
def silent_corruption(folder):
    run, needle = frozen_run(folder, every=1000, options=["model.optim.lr=0", "model.optim.sched.min_lr=0", "trainer.replica_check_interval=50"],
                             step=1010)
    process, at = run.process_of(2), last_step(run)
    places = memory_places(process, needle)
    if not places:
        raise LeftOut("the memory of another process cannot be read")
    begin = time.monotonic()
    write_memory(process, places, bytes([needle[0] ^ 1]) + needle[1:])
    return after_fault(run, begin, at, r"the weights of rank \d+ \([^)]*\) differ from those of its 3 replicas after step \d+",
                       "; checked every 50 steps")


@case(15, "weights of rank 1 become NaN for a moment")
def not_a_number(folder):
    run, needle = frozen_run(folder, every=1000, options=["model.optim.lr=0", "model.optim.sched.min_lr=0", "trainer.replica_check_interval=null"],
                             step=1010)
    process = run.process_of(1)
    places = memory_places(process, needle)
    if not places:
        raise LeftOut("the memory of another process cannot be read")
    begin = time.monotonic()
    write_memory(process, places, b"\0\0\xc0\x7f" + needle[4:])
    log_file = run.results / "nemo_log_globalrank-0_localrank-0.txt"
    pattern = re.compile(r"skipped[^\n]*|[^\n]*NaN[^\n]*")
    detected = seconds_until(run, lambda: pattern.search(log_file.read_text()), "NaN", begin)
    write_memory(process, places, needle)
    named = pattern.search(log_file.read_text()).group(0).strip()
    at = last_step(run)
    run.wait(lambda: last_step(run) > at + 200, "further steps")
    attempts, log = len(run.attempts()), run.log()
    tail = log_file.read_text().split("\n")[-100:]
    run.stop()
    assert attempts == 1 and not any("NaN" in line for line in tail)
    return Outcome(detected, None, 0, f"the steps are skipped, later ones are not: `{named[:160]}`", log)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += 300;
  return status;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* to) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (to) *to = exact.tv_sec;
  return exact.tv_sec;
}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def weights_of(results, steps):
    run = runs.Run(results.parent.parent, name="x")
    run.results = results
    return run.weights(steps)


@case(21, "the clock of rank 1 is 5 minutes ahead")
def wrong_clock(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clock.c").write_text(CLOCK)
    if subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c"), "-ldl"]).returncode != 0:
        raise LeftOut("there is no C compiler")
    (folder / "tiny.yaml").write_text(runs.recipe(300))
    for name, ahead in (("ahead", {1}), ("plain", set())):
        port, ranks = free_port(), []
        for rank in range(4):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            if rank in ahead:
                environment["LD_PRELOAD"] = str(folder / "clock.so")
            with open(folder / f"{name}-{rank}.txt", "w") as output:
                ranks.append(subprocess.Popen([str(runs.TRIREME), "train", "tiny.yaml", f"exp_manager.explicit_log_dir={folder}/{name}"],
                                              cwd=folder, env=environment, stdout=output, stderr=output))
        assert all(rank.wait(120) == 0 for rank in ranks), (folder / f"{name}-0.txt").read_text()
    equal = weights_of(folder / "ahead", 300) == weights_of(folder / "plain", 300)
    said = (folder / "ahead/nemo_log_globalrank-1_localrank-1.txt").read_text().split("\n")[0][:32]
    assert equal
    return Outcome(None, None, 0, f"300 steps, last weights equal those of a run with right clocks; rank 1's log: `{said}`",
                   (folder / "ahead-0.txt").read_text())


@case(22, "the disk of all logs and events is full from step 40 on")
def logs_gone(folder):
    run = runs.Run(folder, text=runs.recipe(3000, every=1000), options=["exp_manager.create_checkpoint_callback=false"])
    with small_disk(run.launch_folder, "8m"):
        run.start()
        run.wait(lambda: last_step(run) >= 40, "step 40")
        with contextlib.suppress(OSError), open(run.launch_folder / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        begin = time.monotonic()
        run.wait_until_over()
        seconds, attempts, log = time.monotonic() - begin, run.attempts(), run.log()
    assert len(attempts) == 1, attempts
    return Outcome(None, None, 0, f"the run ended by itself {seconds:.1f} s later, one attempt", log)


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


def project_test(program, name):
    path = runs.TRIREME.parent / "tests" / program
    if not path.exists():
        raise LeftOut(f"{program} is not built")
    begin = time.monotonic()
    done = subprocess.run([str(path), f"--gtest_filter={name}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if "SKIPPED" in done.stdout:
        raise LeftOut(re.search(r"Skipped\n([^\n]*)", done.stdout + "\nSkipped\nnot here").group(1))
    assert done.returncode == 0, done.stdout
    return Outcome(None, None, None, f"test {name}: passed in {time.monotonic() - begin:.0f} s", done.stdout)


@case(4, "a node is lost, with and without a spare in the allocation (Slurm)")
def tests_lost_node(folder):
    return project_test("slurm_run_slow_test", "SlurmRunSlow.OutlivesLostNodesAndRanks")


@case(19, "Slurm's time limit, requeue, exit statuses")
def tests_time_limit(folder):
    return project_test("slurm_run_slow_test", "SlurmRunSlow.EndsAsItShould")


def measure(number, fault, function, folder, log):
    print(f"{number} {fault} ...", file=sys.stderr, flush=True)
    try:
        outcome = function(folder)
    except LeftOut as reason:
        return f"| {number} | {fault} | | | | left out: {reason} |", True
    except (AssertionError, SystemExit, Exception) as error:  # one case that fails does not cost the others
        log.append(f"==== {fault}\n{error}\n")
        return f"| {number} | {fault} | | | | FAILED: {str(error).splitlines()[0] if str(error) else type(error).__name__} |", False
    finally:
        for process in runs.Run(folder).processes("supervise") + runs.Run(folder).rank_processes():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
    log.append(f"==== {fault}\n{outcome.log}\n")
    text = [f"{value:.2f}" if value is not None else "" for value in (outcome.detected, outcome.resumed)]
    note = outcome.note.replace("|", "/").replace(os.uname().nodename, "HOST").replace(str(folder), "FOLDER")
    return f"| {number} | {fault} | {text[0]} | {text[1]} | {'' if outcome.lost is None else outcome.lost} | {note} |", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of cases, separated by commas, or their beginnings")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", action="store_true", help="write bench/faults/reports/faults-DATE-TIME.md and .log")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    chosen = sorted((one for one in CASES if not wanted or any(one[2].__name__.startswith(name) for name in wanted)),
                    key=lambda one: one[0])
    if arguments.list:
        for number, fault, function in chosen:
            print(f"{function.__name__:20} {number:3} {fault}")
        return 0
    load, rows, log, good = os.getloadavg()[0], [], [], True
    top = pathlib.Path(tempfile.mkdtemp(prefix="trireme-faults-"))
    for number, fault, function in chosen:
        row, works = measure(number, fault, function, top / function.__name__, log)
        rows.append(row)
        good = good and works
    shutil.rmtree(top, ignore_errors=True)
    command = "bench/faults/measure.py" + (f" --only {arguments.only}" if arguments.only else "")
    runs.write_report("faults", [
        "# Faults in a run", "", *runs.facts(command, load),
        "Seconds from the injection of the fault: until it was named in the log, and until the next attempt had done its first step.",
        "Numbers are those of the faults in [docs/faults.md](../../../docs/faults.md).", "",
        "| # | fault | named after, s | next step after, s | steps lost | |", "|---:|---|---:|---:|---:|---|", *rows, "",
        "May be cited: " + ("yes" if load < 0.5 else "the verdicts and steps; the seconds no, the machine was busy before the first case") + ".",
        ""], "\n".join(log), arguments.report)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
