#!/usr/bin/env python3
"""Kills random ranks of one run at random moments, and compares its last weights with those of an undisturbed run.

usage: bench/faults/kills.py [--kills 200] [--seed 1] [--folder FOLDER] [--seconds N] [--report]

The run has 4 ranks and is under `trireme launch local`. Each kill (SIGKILL) hits a rank drawn at random, rank 0 included: while
the ranks start, a random time after a checkpoint was reached, or while a checkpoint is being written. The status is 0 only if the
last checkpoints are equal, bit for bit. With --seconds the script stops the run after that time and leaves with status 75; the
same command with the same --folder continues it.
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

STEPS_PER_KILL = 40
MANY_RESTARTS = 1000  # of attempts without a new checkpoint: kills come faster than any machine fails


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="kept, so that the run can be continued")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--report", action="store_true", help="write bench/faults/reports/kills-DATE-TIME.md and .log")
    arguments = parser.parse_args()
    load, begin = os.getloadavg()[0], time.monotonic()
    folder = pathlib.Path(arguments.folder or tempfile.mkdtemp(prefix="trireme-kills-"))
    steps = (arguments.kills + 2) * STEPS_PER_KILL
    options = ["--max-restarts", MANY_RESTARTS]
    run = runs.Run(folder / "killed", text=runs.recipe(steps), options=options)
    state_file = folder / "state.json"
    state = json.loads(state_file.read_text()) if state_file.exists() else {"done": [], "seconds": 0}
    dice = random.Random(arguments.seed * 1_000_003 + len(state["done"]))
    run.start(*(["--resume"] if state["done"] else []))
    killed = set()
    while len(state["done"]) < arguments.kills:
        wait_for_ranks(run, killed)
        kind = choose_moment(run, len(state["done"]), dice)
        if run.is_over():
            sys.exit(f"the run ended after {len(state['done'])} kills\n{run.log()[-3000:]}")
        rank = dice.randrange(run.ranks)
        before = run.rank_processes()
        process = run.process_of(rank)
        if process is None:
            continue  # the attempt is ending
        os.kill(process, signal.SIGKILL)
        killed = set(before)
        state["done"].append([kind, rank, run.newest_step()])
        state_file.write_text(json.dumps(state))
        if arguments.seconds and time.monotonic() - begin > arguments.seconds:
            run.wait(lambda: run.newest_step() >= 0, "a checkpoint")
            run.stop()
            run.wait(lambda: not run.rank_processes(), "the end of the ranks")
            state["seconds"] += time.monotonic() - begin
            state_file.write_text(json.dumps(state))
            print(f"{len(state['done'])} kills so far", file=sys.stderr)
            sys.exit(75)
    run.wait_until_over(600)
    state["seconds"] += time.monotonic() - begin
    plain = runs.Run(folder / "plain", text=runs.recipe(steps))
    plain.run_to_end()
    equal = run.newest_step() == plain.newest_step() == steps and run.weights() == plain.weights()
    kinds = [kind for kind, _, _ in state["done"]]
    time_used = run.summary()["time"]
    total = sum(time_used["microseconds"].values())
    rows = [f"| {use.replace('_', ' ')} | {microseconds / 1e6:.1f} | {microseconds / total * 100:.1f} |"
            for use, microseconds in time_used["microseconds"].items() if microseconds]
    runs.write_report("kills", [
        f"# {arguments.kills} kills of one run", "",
        *runs.facts(f"bench/faults/kills.py --kills {arguments.kills} --seed {arguments.seed}", load),
        "| | |", "|---|---|",
        f"| kills while ranks start, in steps, during a save | {kinds.count('start')}, {kinds.count('step')}, {kinds.count('save')} |",
        f"| of rank 0, 1, 2, 3 | {', '.join(str(sum(rank == hit for _, hit, _ in state['done'])) for rank in range(run.ranks))} |",
        f"| steps of the run, steps lost | {steps}, {time_used['lost_steps']} |",
        f"| attempts that began to train or load | {time_used['attempts']} |",
        f"| seconds per kill | {state['seconds'] / arguments.kills:.2f} |",
        f"| last weights and optimizer state equal those of an undisturbed run, bit for bit | {'yes' if equal else 'NO'} |", "",
        "| time used for | s | % |", "|---|---:|---:|", *rows, "",
        "May be cited: yes, the counts and the comparison; the seconds are those of a machine that others used too.", ""],
        run.log(), arguments.report)
    if not arguments.folder:
        shutil.rmtree(folder)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
