#!/usr/bin/env python3
"""Slows ranks of a run by 10% with a quota of CPU time, and counts the steps until they are named, and the false alarms before.

usage: bench/faults/stragglers.py [--clean 10000] [--trials 10] [--cpu 0.4] [--seed 1] [--report]

The run has 4 ranks. Each is in a cgroup of its own with the same quota (--cpu), so that they do not compete for the cores; a slow
rank gets 90% of that. Each trial slows a rank drawn at random until it is named, or for 400 steps, then gives it its quota again
until that is noticed. Needs root and version 1 of cgroups.
"""
import argparse
import contextlib
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

import runs
from cases import LeftOut, MANY, last_step

PERIOD = 10_000  # microseconds in which a quota is enforced: shorter than a step
LIMIT = 400      # steps of a trial
NAMED = re.compile(r"warning: rank (\d+) \([^)]*\) is slow: [^\n]*")


class Quotas:
    """The cgroups of the ranks."""

    def __init__(self, run, cpu):
        self.cpu, self.groups = cpu, []
        for rank in range(run.ranks):
            group = pathlib.Path(f"/sys/fs/cgroup/cpu/trireme-{run.process_of(rank)}")
            try:
                group.mkdir()
            except OSError as error:
                self.remove()
                raise LeftOut(f"no quotas of CPU time: {error.strerror}") from None
            self.groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            self.set(rank, 1)
            (group / "cgroup.procs").write_text(str(run.process_of(rank)))

    def set(self, rank, share):
        (self.groups[rank] / "cpu.cfs_quota_us").write_text(str(int(PERIOD * self.cpu * share)))

    def remove(self):
        for group in self.groups:
            with contextlib.suppress(OSError):
                group.rmdir()


def alarms(run):
    return [int(rank) for rank in NAMED.findall(run.log())]


def started_with_quotas(folder, cpu, clean):
    """A run that has done so many steps since its ranks have quotas; and the false alarms in these."""
    run = runs.Run(folder, text=runs.recipe(MANY, every=MANY, batch=8, sequence=128, layers=4, width=192))
    run.start()
    run.wait(lambda: last_step(run) >= 20, "step 20", 240)
    quotas = Quotas(run, cpu)
    begin, before = last_step(run), len(alarms(run))
    run.wait(lambda: last_step(run) >= begin + clean, f"{clean} clean steps", 3600)
    return run, quotas, len(alarms(run)) - before


def slow_down(run, quotas, rank):
    """Steps until the rank is named, or None; and how many other ranks were named."""
    begin, seen = last_step(run), len(alarms(run))
    quotas.set(rank, 0.9)
    run.wait(lambda: rank in alarms(run)[seen:] or last_step(run) > begin + LIMIT, "a warning", 600)
    steps, named = last_step(run) - begin, alarms(run)[seen:]
    quotas.set(rank, 1)
    return steps if rank in named else None, sum(one != rank for one in named)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clean", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--cpu", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="write bench/faults/reports/stragglers-DATE-TIME.md and .log")
    arguments = parser.parse_args()
    machine, dice, folder = runs.Machine(), random.Random(arguments.seed), pathlib.Path(tempfile.mkdtemp(prefix="trireme-slow-"))
    begin = time.monotonic()
    run, quotas, false_alarms = started_with_quotas(folder, arguments.cpu, arguments.clean)
    times, others = [], 0
    try:
        clean_steps, clean_seconds = last_step(run), time.monotonic() - begin
        for _ in range(arguments.trials):
            rank = dice.randrange(run.ranks)
            steps, wrong = slow_down(run, quotas, rank)
            times.append(steps)
            others += wrong
            end = last_step(run) + LIMIT
            run.wait(lambda: run.log().count("is as fast as") >= len(alarms(run)) or last_step(run) > end, "recovery", 600)
    finally:
        log = run.log()
        run.stop()
        run.wait(lambda: not run.rank_processes(), "the end")
        quotas.remove()
    text = ", ".join("not named" if steps is None else str(steps) for steps in times)
    runs.write_report("stragglers", [
        "# Ranks slowed by 10%", "",
        *machine.facts(f"bench/faults/stragglers.py --clean {arguments.clean} --trials {arguments.trials} --cpu {arguments.cpu} --seed {arguments.seed}"),
        "| | |", "|---|---|",
        f"| clean steps of 4 ranks, false alarms | {clean_steps}, {false_alarms} |",
        f"| milliseconds per clean step | {clean_seconds / clean_steps * 1000:.1f} |",
        f"| slowed ranks, steps until each was named | {text} |",
        f"| named within 50 steps | {sum(steps is not None and steps <= 50 for steps in times)} of {len(times)} |",
        f"| other ranks named meanwhile | {others} |", "",
        *machine.verdict("what was counted")], log, arguments.report)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
