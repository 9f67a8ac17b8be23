"""Faults of nodes and jobs on a real Slurm cluster of this machine."""
import contextlib
import re
import time

import runs
import slurm
from cases import HEARTBEATS, LeftOut, MANY, Outcome, after_fault, case, last_step


@contextlib.contextmanager
def cluster_of(nodes):
    try:
        cluster = slurm.Cluster(nodes)
    except (OSError, slurm.Missing) as reason:
        raise LeftOut(f"no Slurm: {reason}") from None
    try:
        yield cluster
    finally:
        cluster.remove()


def nodes_of(run, attempt):
    return re.search(rf"attempt {attempt} on (\S+?)(?:, from|\n)", run.log()).group(1).split(",")


@case(4, "a node loses power; the allocation has a spare (Slurm)")
def lost_node(folder):
    with cluster_of(3) as cluster:
        run = slurm.SlurmRun(cluster, folder, 2, 2, ["--spares", 1, "--exclusive"], text=runs.recipe(MANY))
        run.start()
        run.wait(lambda: run.newest_step() >= 40, "a checkpoint")
        time.sleep(HEARTBEATS)
        lost, begin = nodes_of(run, 1)[1], time.monotonic()
        cluster.fail(lost)
        outcome = after_fault(run, begin, r"rank \d+ \([^)]*\) (died|lags)[^;\n]*")
        first, second = nodes_of(run, 1), nodes_of(run, 2)
    assert "takes over" in outcome.log and "of Slurm" not in outcome.log
    outcome.note += f"; nodes {','.join(first)}, then {','.join(second)}"
    return outcome


@case(19, "Slurm's signal before the time limit; the job is requeued to other nodes")
def time_limit(folder):
    steps = 3000
    with cluster_of(4) as cluster:
        run = slurm.SlurmRun(cluster, folder, 2, 2, ["--exclusive"], text=runs.recipe(steps, every=1000))
        run.start()
        run.wait(lambda: last_step(run) >= 40, "step 40")
        first = nodes_of(run, 1)
        cluster.command("scontrol", "update", f"NodeName={first[0]}", "State=DRAIN", "Reason=test")
        begin, at = time.monotonic(), last_step(run)
        cluster.command("scancel", "--batch", "--signal=USR1", run.job()["id"])
        run.wait(lambda: "saved before the time limit; back to the queue" in run.log(), "the requeue")
        detected = time.monotonic() - begin
        run.wait(lambda: run.is_over() or len(run.goodput()) > 1 and run.goodput()[-1]["first_step"] >= 0, "the next attempt")
        resumed = time.monotonic() - begin
        run.wait_until_over()
        log, attempts = run.log(), run.goodput()
        second = re.findall(r"attempt 2 on (\S+?)(?:, from|\n)", log)
    plain = runs.Run(folder / "plain", text=runs.recipe(steps, every=1000))
    plain.run_to_end()
    equal = run.newest_step() == plain.newest_step() == steps and run.weights() == plain.weights()
    lost = attempts[0]["steps_done"] - attempts[1]["first_step"]
    assert equal and lost == 0 and attempts[1]["first_step"] >= at and second and second[0] != ",".join(first)
    rows = [line.split(",")[0] for line in (run.results / "metrics.csv").read_text().splitlines()[1:]]
    assert len(rows) == len(set(rows)) == steps, f"{len(rows)} rows of metrics.csv"
    return Outcome(detected, resumed, lost, f"saved, requeued from {','.join(first)} to {second[0]}; every step is logged once; last "
                   "weights equal those of an undisturbed run, bit for bit; detected: until it had saved and left", log)
