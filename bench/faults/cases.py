"""The table of faults: how a case is added to it, and what most cases do."""
import os
import re
import subprocess
import time

import runs

CASES = []  # in the order of the table
MANY = 1_000_000
HEARTBEATS = 2.5  # seconds in which every rank has sent two


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
    """A run that has logged this step, and whose ranks have said with their heartbeats that they train."""
    run = runs.Run(folder, text=runs.recipe(steps, **sizes), options=options)
    run.start()
    run.wait(lambda: last_step(run) >= step, f"step {step}")
    time.sleep(HEARTBEATS)
    return run


def seconds_until(run, condition, what, begin, limit=120):
    run.wait(condition, what, limit)
    return time.monotonic() - begin


def after_fault(run, begin, pattern, note=""):
    """Until the fault is named, and until the next attempt has logged a step."""
    detected = seconds_until(run, lambda: re.search(pattern, run.log()), pattern, begin)
    named = re.search(pattern, run.log()).group(0)
    run.wait(lambda: len(run.goodput()) > 1 and run.goodput()[-1]["first_step"] >= 0, "the next attempt")
    before, after = run.goodput()[-2:]  # the logs of the steps that are lost are gone by now
    resumed = seconds_until(run, lambda: last_step(run) >= after["first_step"], "the next step", begin)
    log = run.log()
    run.stop()
    return Outcome(detected, resumed, max(before["steps_done"] - after["first_step"], 0), f"`{named}`{note}", log)
