#!/usr/bin/env python3
"""Kills random ranks of one run at random moments, and compares its last weights with those of an undisturbed run.

usage: bench/faults/kills.py [--kills 200] [--slurm] [--seed 1] [--folder FOLDER] [--seconds N] [--report]

The run has 4 ranks and is under `trireme launch local`, or with --slurm under `trireme launch slurm` on two nodes of a real Slurm
cluster on this machine. Each kill (SIGKILL) hits a rank drawn at random, rank 0 included: while the ranks start, a random time
after a checkpoint was reached, or while a checkpoint is being written. The status is 0 only if the last checkpoints are equal, bit
for bit. With --seconds the script stops the run after that time and leaves with status 75; the same command with the same --folder
continues it.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import runs
import slurm

STEPS_PER_KILL = 40
MANY_RESTARTS = 1000  # of attempts without a new checkpoint: kills come faster than any machine fails


def steps_of(kills):
    return (kills + 2) * STEPS_PER_KILL


def wait_for_ranks(run, before):
    """Until the ranks of a new attempt are there, none of which was there before."""
    run.wait(lambda: run.is_over() or (len(run.rank_processes()) == run.ranks and not before & set(run.rank_processes())),
             "ranks of the next attempt")


def choose_moment(run, kill, dice):
    """Waits for the moment of a kill; returns what it was."""
    begin = time.time()
    kind = dice.choice(["start", "step", "step", "save"])
    if kind == "start":
        time.sleep(dice.uniform(0, 1.0))
        return kind
    target = kill * STEPS_PER_KILL
    run.wait(lambda: run.is_over() or run.newest_step() >= target, f"step {target}")
    if kind == "save":
        run.wait(lambda: run.is_over() or run.is_saving(begin), "a save")
    else:
        time.sleep(dice.uniform(0, 0.03))
    return kind


class Killer:
    def __init__(self, run, dice, done=()):
        self.run, self.dice, self.done, self.killed = run, dice, list(done), set()

    def kill_one(self):
        """One more kill, unless the attempt has just ended: (moment, rank, newest step)."""
        wait_for_ranks(self.run, self.killed)
        kind = choose_moment(self.run, len(self.done), self.dice)
        if self.run.is_over():
            sys.exit(f"the run ended after {len(self.done)} kills\n{self.run.log()[-3000:]}")
        rank, before = self.dice.randrange(self.run.ranks), self.run.rank_processes()
        process = self.run.process_of(rank)
        if process is None:
            return
        os.kill(process, signal.SIGKILL)
        self.killed = set(before)
        self.done.append([kind, rank, self.run.newest_step()])

    def text(self):
        kinds, hits = [one[0] for one in self.done], [one[1] for one in self.done]
        return (", ".join(str(kinds.count(kind)) for kind in ("start", "step", "save")),
                ", ".join(str(hits.count(rank)) for rank in range(self.run.ranks)))


def has_weights_of_undisturbed(run, folder, steps):
    plain = runs.Run(folder, text=runs.recipe(steps))
    plain.run_to_end()
    return run.newest_step() == plain.newest_step() == steps and run.weights() == plain.weights()


def arguments_of_command():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--slurm", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="kept, so that the run can be continued")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--report", action="store_true", help="write bench/faults/reports/kills-DATE-TIME.md and .log")
    arguments = parser.parse_args()
    if arguments.slurm and (arguments.folder or arguments.seconds):
        parser.error("a cluster ends with the script: --slurm cannot be continued")
    return arguments


def main():
    arguments = arguments_of_command()
    machine, begin = runs.Machine(), time.monotonic()
    folder = pathlib.Path(arguments.folder or tempfile.mkdtemp(prefix="trireme-kills-"))
    steps, options = steps_of(arguments.kills), ["--max-restarts", MANY_RESTARTS]
    cluster = slurm.Cluster(2) if arguments.slurm else None
    try:
        if arguments.slurm:
            run = slurm.SlurmRun(cluster, folder / "killed", 2, 2, ["--exclusive"], text=runs.recipe(steps), options=options)
        else:
            run = runs.Run(folder / "killed", text=runs.recipe(steps), options=options)
        state_file = folder / "state.json"
        state = json.loads(state_file.read_text()) if state_file.exists() else {"done": [], "seconds": 0}
        killer = Killer(run, random.Random(arguments.seed * 1_000_003 + len(state["done"])), state["done"])
        run.start(*(["--resume"] if killer.done else []))
        while len(killer.done) < arguments.kills:
            killer.kill_one()
            if arguments.seconds and time.monotonic() - begin > arguments.seconds:
                run.wait(lambda: run.newest_step() >= 0, "a checkpoint")
                run.stop()
                run.wait(lambda: not run.rank_processes(), "the end of the ranks")
                state_file.write_text(json.dumps({"done": killer.done, "seconds": state["seconds"] + time.monotonic() - begin}))
                print(f"{len(killer.done)} kills so far", file=sys.stderr)
                sys.exit(75)
        run.wait_until_over(600)
    finally:
        if cluster:
            cluster.remove()
    seconds = state["seconds"] + time.monotonic() - begin
    equal = has_weights_of_undisturbed(run, folder / "plain", steps)
    kinds, hits = killer.text()
    time_used = run.summary()["time"]
    total = sum(time_used["microseconds"].values())
    rows = [f"| {use.replace('_', ' ')} | {microseconds / 1e6:.1f} | {microseconds / total * 100:.1f} |"
            for use, microseconds in time_used["microseconds"].items() if microseconds]
    command = f"bench/faults/kills.py --kills {arguments.kills}{' --slurm' * arguments.slurm} --seed {arguments.seed}"
    runs.write_report("kills-slurm" if arguments.slurm else "kills", [
        f"# {arguments.kills} kills of one run{' under Slurm' * arguments.slurm}", "",
        *machine.facts(command),
        "| | |", "|---|---|",
        f"| kills while ranks start, in steps, during a save | {kinds} |",
        f"| of rank 0, 1, 2, 3 | {hits} |",
        f"| steps of the run, steps lost | {steps}, {time_used['lost_steps']} |",
        f"| attempts that began to train or load | {time_used['attempts']} |",
        f"| seconds per kill | {seconds / arguments.kills:.2f} |",
        f"| last weights and optimizer state equal those of an undisturbed run, bit for bit | {'yes' if equal else 'NO'} |", "",
        "| time used for | s | % |", "|---|---:|---:|", *rows, "",
        *machine.verdict("the counts and the comparison")], run.log(), arguments.report)
    if not arguments.folder:
        shutil.rmtree(folder)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
