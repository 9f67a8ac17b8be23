#!/usr/bin/env python3
"""Injects faults into runs of tiny models and measures what happens: the table of faults.

usage: bench/faults/measure.py [--only kill,stop] [--report] [--list]

Each case starts a run of its own, injects the fault for real, and measures from then on: seconds until it is named, seconds until
the next attempt has done its first step, and the steps that were lost. Cases that need root, mpirun, network namespaces, cgroups, a
compiler or Slurm are left out, and say so, where these are missing.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import runs
from cases import CASES, LeftOut
import rank_faults, file_faults, host_faults, slurm_faults  # noqa: E401,F401: each adds its cases


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
    machine, rows, log, good = runs.Machine(), [], [], True
    top = pathlib.Path(tempfile.mkdtemp(prefix="trireme-faults-"))
    for number, fault, function in chosen:
        row, works = measure(number, fault, function, top / function.__name__, log)
        rows.append(row)
        good = good and works
    shutil.rmtree(top, ignore_errors=True)
    command = "bench/faults/measure.py" + (f" --only {arguments.only}" if arguments.only else "")
    runs.write_report("faults", [
        "# Faults in a run", "", *machine.facts(command),
        "Seconds from the injection of the fault: until it was named in the log, and until the next attempt had done its first step.",
        "Numbers are those of the faults in [docs/faults.md](../../../docs/faults.md).", "",
        "| # | fault | named after, s | next step after, s | steps lost | |", "|---:|---|---:|---:|---:|---|", *rows, "",
        *machine.verdict("what happened and the steps")], "\n".join(log), arguments.report)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
