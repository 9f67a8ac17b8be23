"""Faults of a rank: it dies, stands still, is slow, computes wrong."""
import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import kills
import runs
import stragglers
from cases import LeftOut, MANY, Outcome, after_fault, case, last_step, seconds_until, started


def kill_rank(folder, rank):
    run = started(folder)
    process = run.process_of(rank)
    begin = time.monotonic()
    os.kill(process, signal.SIGKILL)
    return after_fault(run, begin, r"rank \d+ \([^)]*\) died in step \d+")


@case(1, "SIGKILL of rank 2")
def kill(folder):
    return kill_rank(folder, 2)


@case(1, "SIGKILL of rank 0")
def kill_first(folder):
    return kill_rank(folder, 0)


@case(2, "SIGSTOP of rank 2")
def stop(folder):
    run = started(folder)
    process = run.process_of(2)
    begin = time.monotonic()
    os.kill(process, signal.SIGSTOP)
    return after_fault(run, begin, r"rank \d+ \([^)]*\) lags: [^;\n]*")


@case(2, "the training thread of rank 1 stands still, its process lives")
def hang(folder):
    run = started(folder)
    process = run.process_of(1)
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
    outcome = after_fault(run, begin, named)
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


@case(9, "1 of 4 ranks has 10% less CPU time than the others")
def slow_rank(folder):
    run, quotas, false_alarms = stragglers.started_with_quotas(folder, 0.4, 300)
    try:
        begin = time.monotonic()
        steps, others = stragglers.slow_down(run, quotas, 1)
        detected, log = time.monotonic() - begin, run.log()
    finally:
        run.stop()
        run.wait(lambda: not run.rank_processes(), "the end")
        quotas.remove()
    named = [line.group(0) for line in stragglers.NAMED.finditer(log) if line.group(1) == "1"]
    note = f"named after {steps} steps: `{named[0]}`" if steps is not None else f"not named in {stragglers.LIMIT} steps"
    return Outcome(detected if steps is not None else None, None, 0, f"{note}; false alarms in 300 steps before: {false_alarms}, after: {others}", log)


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


@case(17, "SIGKILL of a random rank, 25 times over a run")
def random_kills(folder):
    count, steps = 25, kills.steps_of(25)
    run = runs.Run(folder / "killed", text=runs.recipe(steps), options=["--max-restarts", kills.MANY_RESTARTS])
    killer = kills.Killer(run, random.Random(17))
    run.start()
    while len(killer.done) < count:
        killer.kill_one()
    run.wait_until_over()
    assert kills.has_weights_of_undisturbed(run, folder / "plain", steps)
    used, log = run.summary()["time"], run.log()
    share = used["microseconds"].get("step", 0) / sum(used["microseconds"].values())
    came_back = sorted(float(seconds) for seconds in re.findall(r"recovered [a-z ]+ in ([\d.]+) s", log))
    return Outcome(None, came_back[len(came_back) // 2], used["lost_steps"], f"last weights equal those of an undisturbed run, bit for bit; "
                   f"goodput {share:.1%}; next step: median of {len(came_back)} recoveries; steps lost: of all kills together", log)


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
    process = run.process_of(2)
    places = memory_places(process, needle)
    if not places:
        raise LeftOut("the memory of another process cannot be read")
    begin = time.monotonic()
    write_memory(process, places, bytes([needle[0] ^ 1]) + needle[1:])
    return after_fault(run, begin, r"the weights of rank \d+ \([^)]*\) differ from those of its 3 replicas after step \d+",
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
