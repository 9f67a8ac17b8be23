#!/usr/bin/env python3
"""Trains for hours with a fault about every minute, its checkpoints on a nearly full disk, and looks for what is lost or leaks.

usage: bench/faults/soak.py [--hours 2] [--every 60] [--seed 1] [--only kill,full] [--report]

The run has 4 CPU ranks under `trireme launch local`. The kind of each fault, its moment and its rank are drawn at random from the
seed. Memory, file descriptors and threads of the supervisor and of all ranks are sampled every 5 s; at the end the shared memory
and temporary files that the run has left are counted. The status is 0 only if the run came back after every fault, nothing is left,
nothing grew, and the last weights equal those of an undisturbed run of as many steps, bit for bit. Needs root for the disk.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import runs
from cases import MANY, last_step
from file_faults import flip_bit, small_disk

SAMPLE_SECONDS = 5
SETTLED_SECONDS = 15  # of a process, before its memory counts
COME_BACK_SECONDS = 180
MOST_GROWTH = 0.05    # of the memory of a process while it lives
FAULTS = {}


def fault(function):
    FAULTS[function.__name__] = function
    return function


@fault
def kill(run, dice, disk):
    """a rank is killed"""
    os.kill(run.process_of(dice.randrange(run.ranks)), signal.SIGKILL)


@fault
def kill_in_save(run, dice, disk):
    """a rank is killed while a checkpoint is written"""
    since = time.time()
    run.wait(lambda: run.is_saving(since), "a save")
    os.kill(run.process_of(dice.randrange(run.ranks)), signal.SIGKILL)


@fault
def hang(run, dice, disk):
    """a rank is stopped for good"""
    os.kill(run.process_of(dice.randrange(run.ranks)), signal.SIGSTOP)


@fault
def pause(run, dice, disk):
    """a rank is stopped for 2 s"""
    process = run.process_of(dice.randrange(run.ranks))
    os.kill(process, signal.SIGSTOP)
    time.sleep(2)
    os.kill(process, signal.SIGCONT)


@fault
def terminate(run, dice, disk):
    """a rank gets SIGTERM; the launch is continued"""
    os.kill(run.process_of(dice.randrange(run.ranks)), signal.SIGTERM)
    run.wait_until_over()
    run.start("--resume")


@fault
def supervisor(run, dice, disk):
    """the supervisor is killed; the launch is continued"""
    for process in run.processes("supervise"):
        os.kill(process, signal.SIGKILL)
    run.wait(lambda: not run.rank_processes(), "the end of the ranks")
    run.start("--resume")


@fault
def full(run, dice, disk):
    """the disk of the checkpoints is full for 5 s"""
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    time.sleep(5)
    filler.unlink()


@fault
def damage(run, dice, disk):
    """a bit of the newest checkpoint is flipped, and a rank killed"""
    shards = sorted((disk / f"step-{run.newest_step():08}").glob("*.safetensors"))
    with contextlib.suppress(OSError, IndexError):  # it may just be replaced
        shard = dice.choice(shards)
        flip_bit(shard, dice.randrange(shard.stat().st_size), dice.randrange(8))
    kill(run, dice, disk)


class Samples(threading.Thread):
    """What the processes of a run hold, over their lives."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.run_, self.seen, self.shared, self.over = run, collections.defaultdict(list), set(), threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE_SECONDS):
            for kind, word in (("supervisor", "supervise"), ("rank", "train")):
                for process in self.run_.processes(word):
                    with contextlib.suppress(OSError, ValueError, IndexError):
                        self.seen[kind, process].append(self.sample(process))

    def sample(self, process):
        folder = pathlib.Path(f"/proc/{process}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        self.shared |= {pathlib.Path(path) for path in re.findall(r"/dev/shm/\S+", (folder / "maps").read_text())}
        return time.monotonic(), int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(folder / "fd")), int(status["Threads"])

    def rows(self):
        """Lines of the table, and whether nothing grew."""
        rows, is_flat = [], True
        for kind in ("supervisor", "rank"):
            lives = [[one for one in life if one[0] >= life[0][0] + SETTLED_SECONDS] for (what, _), life in self.seen.items() if what == kind]
            lives = [life for life in lives if len(life) > 1]
            if not lives:
                continue
            hours = sum(life[-1][0] - life[0][0] for life in lives) / 3600
            growth = max((life[-1][1] / life[0][1] - 1 for life in lives))
            more = [max(life[-1][column] - life[0][column] for life in lives) for column in (2, 3)]
            is_flat = is_flat and growth <= MOST_GROWTH and max(more) <= 0
            most = [max(one[column] for life in lives for one in life) for column in (1, 2, 3)]
            rows.append(f"| {kind} | {len(lives)} | {hours:.2f} | {most[0]:.0f} | {growth:+.1%} | {most[1]} | {more[0]:+} | {most[2]} | {more[1]:+} |")
        return rows, is_flat


def comes_back(run):
    """Waits until the run has done further steps and saved one; returns the seconds."""
    begin, at, saved = time.monotonic(), last_step(run), run.newest_step()
    run.wait(lambda: run.newest_step() not in (saved, -1) and last_step(run) >= 0 and len(run.rank_processes()) == run.ranks,
             f"a checkpoint after the one of step {saved}, and steps after {at}", COME_BACK_SECONDS)
    return time.monotonic() - begin


def soak(run, disk, dice, arguments):
    """Injects faults until the time is over; returns [(kind, seconds until the run had saved again)]."""
    kinds, done, end = sorted(FAULTS if not arguments.only else set(arguments.only.split(",")) & set(FAULTS)), [], time.monotonic() + arguments.hours * 3600
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.5, 1.5) * arguments.every)
        kind = dice.choice(kinds)
        run.wait(lambda: len(run.rank_processes()) == run.ranks and all(run.process_of(rank) for rank in range(run.ranks)), "all ranks")
        with contextlib.suppress(ProcessLookupError, TypeError):  # the rank has just left
            FAULTS[kind](run, dice, disk)
        done.append((kind, comes_back(run)))
        print(f"{kind}: {done[-1][1]:.1f} s, step {run.newest_step()}", file=sys.stderr, flush=True)
    return done


def undisturbed(folder, text, step):
    """The weights after this step of a run of the same settings."""
    plain = runs.Run(folder, text=text, options=[f"exp_manager.checkpoint_callback_params.every_n_train_steps={step}"])
    plain.start()
    plain.wait(lambda: plain.newest_step() >= step, f"step {step}", 10 * 3600)
    plain.stop()
    return plain.weights(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--every", type=float, default=60, help="seconds from the end of a recovery to the next fault, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds of faults: " + ", ".join(FAULTS))
    parser.add_argument("--report", action="store_true", help="write bench/faults/reports/soak-DATE-TIME.md and .log")
    arguments = parser.parse_args()
    machine, folder = runs.Machine(), pathlib.Path(tempfile.mkdtemp(prefix="trireme-soak-"))
    temporary = folder / "tmp"
    temporary.mkdir()
    text = runs.recipe(MANY, every=50, layers=2, width=128, sequence=64)
    run = runs.Run(folder / "soak", text=text, options=["--max-restarts", 20], environment=dict(os.environ, TMPDIR=str(temporary)))
    disk = run.results / "checkpoints"
    with small_disk(disk, "256m"):
        run.start()
        run.wait(lambda: run.newest_step() > 0, "a checkpoint")
        size = sum(path.stat().st_size for path in (disk / f"step-{run.newest_step():08}").iterdir())
        room = 4 * size + (3 << 19)  # three are kept, one is written, which asks for 1 MiB more than its size
        subprocess.run(["mount", "-o", f"remount,size={room}", str(disk)], check=True)
        samples = Samples(run)
        samples.start()
        done, failure = [], ""
        try:
            done = soak(run, disk, random.Random(arguments.seed), arguments)
            run.trireme("launch", "--stop", run.name, check=False)
            run.wait_until_over()
        except SystemExit as error:
            failure = str(error)
        samples.over.set()
        samples.join()
        run.stop()
        steps, weights, log = run.newest_step(), run.weights(), run.log()
        used = runs.json.loads((run.results / "summary.json").read_text())["time"] if not failure else None
    left = sorted(str(path) for path in samples.shared if path.exists()) + sorted(str(path) for path in temporary.rglob("*") if not path.is_dir())
    rows, is_flat = samples.rows()
    is_equal = not failure and undisturbed(folder / "plain", text, steps) == weights
    report(arguments, machine, done, failure, used, size, steps, is_equal, left, rows, is_flat, log)
    shutil.rmtree(folder)
    return 0 if is_equal and is_flat and not left else 1


def report(arguments, machine, done, failure, used, size, steps, is_equal, left, rows, is_flat, log):
    kinds = collections.defaultdict(list)
    for kind, seconds in done:
        kinds[kind].append(seconds)
    faults = [f"| {FAULTS[kind].__doc__} | {len(times)} | {sorted(times)[len(times) // 2]:.1f} | {max(times):.1f} |" for kind, times in sorted(kinds.items())]
    total = sum(used["microseconds"].values()) if used else 1
    uses = [f"| {use.replace('_', ' ')} | {microseconds / 1e6:.1f} | {microseconds / total:.1%} |"
            for use, microseconds in used["microseconds"].items() if microseconds] if used else []
    runs.write_report("soak", [
        f"# {arguments.hours:g} hours with a fault every {arguments.every:g} s", "",
        *machine.facts(f"bench/faults/soak.py --hours {arguments.hours:g} --every {arguments.every:g} --seed {arguments.seed}"
                       + f" --only {arguments.only}" * bool(arguments.only)),
        f"4 ranks; checkpoints of {size / 1e6:.1f} MB on a disk that holds four of them.", "",
        *([f"FAILED after {len(done)} faults: `{failure.splitlines()[0]}`", ""] if failure else []),
        "| fault | times | seconds until a new checkpoint, median | most |", "|---|---:|---:|---:|", *faults, "",
        "| | |", "|---|---|",
        f"| steps at the end, steps lost | {steps}, {used['lost_steps'] if used else ''} |",
        f"| last weights equal those of an undisturbed run, bit for bit | {'yes' if is_equal else 'NO'} |",
        f"| left in shared memory and in the folder of temporary files | {len(left)} files |",
        f"| memory grew by at most {MOST_GROWTH:.0%} in any process, descriptors and threads did not | {'yes' if is_flat else 'NO'} |", "",
        "| process | processes | hours of all | RSS, most, MiB | most growth | descriptors, most | growth | threads, most | growth |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|", *rows, "",
        "| time used for | s | % |", "|---|---:|---:|", *uses, "",
        *machine.verdict("the counts, the comparison and what was left")], "\n".join([*left, failure, log]), arguments.report)


if __name__ == "__main__":
    sys.exit(main())
