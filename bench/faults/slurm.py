"""A real Slurm cluster on this machine, which tests/support/slurm_cluster.sh starts, and launches on it. Needs root, slurm-wlm, munge."""
import os
import pathlib
import shlex
import subprocess
import tempfile
import time

import runs

SCRIPT = runs.REPO / "tests/support/slurm_cluster.sh"


class Missing(Exception):
    """This machine has no Slurm."""


class Cluster:
    def __init__(self, nodes):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-slurm-"))
        up = self.script("up", nodes, "SlurmdTimeout=10")
        if up.returncode != 0:
            self.remove()
            raise Missing((up.stdout.strip() or "Slurm does not start").splitlines()[-1])
        exported = (self.folder / "cluster/environment").read_text().removeprefix("export ")
        self.environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin", TRIREME_RECIPES=str(runs.REPO / "recipes"),
                                **dict(word.split("=", 1) for word in shlex.split(exported)))

    def script(self, command, *words):
        return subprocess.run([str(SCRIPT), command, str(self.folder / "cluster"), *map(str, words)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def command(self, *words):
        return subprocess.run(list(map(str, words)), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def fail(self, *nodes):
        """These nodes lose power: their daemons and everything they started are gone."""
        self.script("fail", *nodes)

    def remove(self):
        self.script("down")
        self.folder.rmdir()


class SlurmRun(runs.Run):
    """A launch on a cluster."""

    def __init__(self, cluster, folder, nodes, ranks_per_node, words=(), **options):
        super().__init__(folder, ranks=nodes * ranks_per_node, environment=cluster.environment, **options)
        self.cluster = cluster
        self.words = ["slurm", f"{self.name}.yaml", "--name", self.name, "--nodes", nodes, "--ranks", ranks_per_node, "--mpi", "none",
                      *words]
        self.asked_at, self.phase = 0, "waiting"

    def start(self, *more):
        self.trireme("launch", *self.words, *self.options, *more)

    def job(self):
        return runs.json.loads(self.trireme("launch", "--json", "--status", self.name, check=False).stdout)["jobs"][0]

    def is_over(self):
        """Also ends Slurm's pause of two minutes after a requeue, as any look at the status does."""
        if time.monotonic() - self.asked_at > 0.5:
            self.phase, self.asked_at = self.job()["phase"], time.monotonic()
        return self.phase not in ("waiting", "running", "unknown")
