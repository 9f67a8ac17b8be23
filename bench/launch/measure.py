#!/usr/bin/env python3
"""Start-up cost of `trireme launch local` against plain mpirun, and how long large worlds of CPU ranks take to form.

usage: bench/launch/measure.py [--rounds 5] [--ranks 2] [--worlds 64,256] [--report]

Every run trains a tiny model on made-up data. The time is from the start of the command to the first step that is logged, in the
output of the command. `launch local` and mpirun take turns; only their ratio can be cited, since both share the machine with
whatever else runs on it. A world is `launch local` with that many ranks, far more than cores, started by mpirun and by the
supervisor itself (ranks that meet over TCP), against plain mpirun.
"""
import argparse
import datetime
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
TRIREME = REPO / "build/trireme"
RECIPE = """trainer: {precision: 32, threads: 1, max_steps: STEPS, val_check_interval: null}
exp_manager: {create_checkpoint_callback: false}
model:
  micro_batch_size: 1
  global_batch_size: RANKS
  encoder_seq_length: 16
  max_position_embeddings: 16
  num_layers: 1
  hidden_size: 16
  ffn_hidden_size: 32
  num_attention_heads: 2
  vocab_size: 64
  data: {data_impl: mock_legacy}
"""


class Place:
    """A folder with a recipe for so many ranks."""

    def __init__(self, ranks):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-bench-"))
        self.ranks = ranks
        self.runs = 0
        (self.folder / "tiny.yaml").write_text(RECIPE.replace("RANKS", str(ranks)).replace("STEPS", "2"))

    def mpirun(self):
        self.runs += 1
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(self.ranks), str(TRIREME), "train", "tiny.yaml",
                f"exp_manager.explicit_log_dir={self.folder}/plain-{self.runs}"]

    def launch(self):
        self.runs += 1
        return [str(TRIREME), "launch", "local", "tiny.yaml", "--ranks", str(self.ranks), "--name", f"run-{self.runs}"]


def seconds_to_first_step(command, folder, log, path=None):
    """Seconds to the first step and to the end; an error ends the measurement."""
    environment = dict(os.environ) if path is None else dict(os.environ, PATH=path)
    begin = time.monotonic()
    first = None
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        lines = []
        for line in run.stdout:
            lines.append(line)
            if first is None and line.startswith("step "):
                first = time.monotonic() - begin
    log.write(f"$ {' '.join(command)}\n{''.join(lines)}\n")
    if run.returncode != 0 or first is None:
        sys.exit(f"{' '.join(command)} ended with status {run.returncode}\n{''.join(lines[-20:])}")
    return first, time.monotonic() - begin


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(ranks, rounds, log):
    """Rows of the table: each way to start, with its ratio to plain mpirun of the same round."""
    place = Place(ranks)
    ways = {"mpirun": (place.mpirun, None), "launch local": (place.launch, None), "launch local without mpirun": (place.launch, "/nothing")}
    times = {name: [] for name in ways}
    ends = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (command, path) in ways.items():
            first, end = seconds_to_first_step(command(), place.folder, log, path)
            times[name].append(first)
            ends[name].append(end)
    shutil.rmtree(place.folder)
    rows = []
    for name in ways:
        ratio = statistics.median(own / plain for own, plain in zip(times[name], times["mpirun"]))
        rows.append(f"| {ranks} | {name} | {spread(times[name])} | {spread(ends[name])} | {ratio:.2f} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", default="2", help="of the comparison with mpirun")
    parser.add_argument("--worlds", default="64,256", help="numbers of ranks, one round each; empty: none")
    parser.add_argument("--report", action="store_true", help="write bench/launch/reports/DATE-TIME.md and .log")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    name = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        rows = [row for ranks in arguments.ranks.split(",") for row in compare(int(ranks), arguments.rounds, log)]
        rows += [row for world in arguments.worlds.split(",") if world for row in compare(int(world), 1, log)]
    text = pathlib.Path(log.name).read_text()
    commit = subprocess.run(["git", "describe", "--always", "--dirty= with changes"], cwd=REPO, capture_output=True, text=True).stdout.strip()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    quiet = load < 0.3
    report = "\n".join([
        f"# Starting ranks, {name}", "",
        f"`bench/launch/measure.py --rounds {arguments.rounds} --ranks {arguments.ranks} --worlds {arguments.worlds}`, commit {commit}", "",
        "| ranks | started with | s to the first step, median (lowest to highest) | s to the end | first step / mpirun |",
        "|---:|---|---:|---:|---:|", *rows, "",
        f"{model}, {os.cpu_count()} cores. Load average {load:.2f} before, {os.getloadavg()[0]:.2f} after (the runs themselves load every core).", "",
        "May be cited: " + ("yes, the ratios" if quiet else "no, the machine was busy before the first run") +
        ". Worlds are one round each.", ""])
    print(report)
    if arguments.report:
        folder = REPO / "bench/launch/reports"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(report)
        hidden = text.replace(str(REPO) + "/", "").replace(os.uname().nodename, "HOST")
        (folder / f"{name}.log").write_text(hidden)
    os.unlink(log.name)


if __name__ == "__main__":
    main()
