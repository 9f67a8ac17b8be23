"""Tiny runs under `trireme launch local`, and what the fault scripts do to their processes."""
import atexit
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parents[2]
TRIREME = pathlib.Path(os.environ.get("TRIREME", REPO / "build/trireme"))
RECIPE = """trainer: {{precision: 32, threads: 1, max_steps: {steps}, val_check_interval: null, console_every_n_steps: 1000}}
exp_manager: {{checkpoint_callback_params: {{every_n_train_steps: {every}, keep_last: 3}}}}
model:
  micro_batch_size: 1
  global_batch_size: {batch}
  encoder_seq_length: {sequence}
  max_position_embeddings: {sequence}
  num_layers: {layers}
  hidden_size: {width}
  ffn_hidden_size: {width}
  num_attention_heads: 4
  vocab_size: 128
  hidden_dropout: 0.1
  data: {{data_impl: mock}}
"""


def recipe(steps, every=10, batch=4, sequence=16, layers=1, width=32):
    return RECIPE.format(**locals())


class Run:
    """A launch in a folder of its own."""

    def __init__(self, folder, name="run", ranks=4, text=None, options=(), command=None, environment=None):
        self.folder, self.name, self.ranks, self.options = pathlib.Path(folder), name, ranks, list(options)
        self.folder.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (self.folder / f"{name}.yaml").write_text(text)
        self.launch_folder = self.folder / "runs" / name
        self.results = self.launch_folder / "results"
        self.environment = environment

    def trireme(self, *words, check=True):
        done = subprocess.run([str(TRIREME), *map(str, words)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=self.environment)
        if check and done.returncode != 0:
            raise SystemExit(f"trireme {' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}\n{self.log()[-3000:]}")
        return done

    def start(self, *more):
        self.trireme("launch", "local", f"{self.name}.yaml", "--name", self.name, "--ranks", self.ranks, "--detach", *self.options, *more)

    def run_to_end(self, *more, check=True):
        return self.trireme("launch", "local", f"{self.name}.yaml", "--name", self.name, "--ranks", self.ranks, *self.options, *more,
                            check=check)

    def log(self):
        path = self.launch_folder / "log.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def attempts(self):
        try:
            return json.loads((self.launch_folder / "attempts.json").read_text())
        except (OSError, ValueError):
            return []

    def goodput(self):
        """The attempts of the run, as its ranks recorded them."""
        found = []
        try:
            lines = (self.results / "goodput.jsonl").read_bytes().split(b"\n")
        except OSError:
            return found
        for line in lines:
            try:
                found.append(json.loads(line.strip(b"\0 ")))
            except ValueError:
                pass
        return found

    def summary(self):
        return json.loads((self.results / "summary.json").read_text())

    def newest_step(self):
        try:
            names = os.listdir(self.results / "checkpoints")
        except OSError:
            return -1
        return max((int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdigit()), default=-1)

    def is_saving(self, since):
        """Whether a save is under way that began after this time; a killed one leaves its temporary folder behind."""
        try:
            return any(entry.name.endswith(".writing") and entry.stat().st_ctime > since
                       for entry in os.scandir(self.results / "checkpoints"))
        except OSError:
            return False

    def processes(self, word):
        """By their start: the processes of this launch that are `trireme WORD` or `trireme launch WORD`."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_program = pathlib.Path(words[0].decode(errors="replace")).name == TRIREME.name
            if is_program and word.encode() in words[1:3] and any(str(self.launch_folder).encode() in one for one in words):
                found.append(int(name))
        return sorted(found)

    def rank_processes(self):
        return self.processes("train")

    def process_of(self, rank):
        """By what the rank's process says of itself: the environment that its launcher gave it."""
        for process in self.rank_processes():
            try:
                words = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word in (f"{name}={rank}".encode() for name in ("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID")) for word in words):
                return process
        return None

    def is_over(self):
        return not self.processes("supervise")

    def wait(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"{what}: not after {seconds} s\n{self.log()[-3000:]}")
            time.sleep(0.002)

    def wait_until_over(self, seconds=300):
        self.wait(self.is_over, "the end of the run", seconds)

    def stop(self):
        self.trireme("launch", "--stop", self.name, check=False)
        for process in self.processes("supervise") + self.rank_processes():
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass

    def weights(self, step=None):
        """A digest of all shards of a checkpoint."""
        step = self.newest_step() if step is None else step
        digest = hashlib.sha256()
        for shard in sorted((self.results / f"checkpoints/step-{step:08}").glob("*.safetensors")):
            digest.update(shard.read_bytes())
        return digest.hexdigest()


class Machine:
    """How busy other programs keep the machine while a script measures. Own processes are those of its cgroup, which they inherit."""

    def __init__(self):
        self.commit = commit()
        self.load, self.begin, self.group = os.getloadavg()[0], time.monotonic(), pathlib.Path(f"/sys/fs/cgroup/cpuacct/trireme-{os.getpid()}")
        try:
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
            atexit.register(self.leave)
        except OSError:
            self.group = None
        self.others_before = self.others()

    def leave(self):
        (self.group.parent / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            self.group.rmdir()

    def others(self):
        """CPU seconds of other programs since the machine was started."""
        user, nice, system = map(int, open("/proc/stat").readline().split()[1:4])
        own = int((self.group / "cpuacct.usage").read_text()) / 1e9 if self.group else 0
        return (user + nice + system) / os.sysconf("SC_CLK_TCK") - own

    def facts(self, command):
        """The lines that every report has."""
        model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
        self.share = (self.others() - self.others_before) / ((time.monotonic() - self.begin) * os.cpu_count())
        others = f"Other programs used {self.share:.0%} of the cores' time" if self.group else "What other programs used is not known here"
        return [f"`{command}`, commit {self.commit}", "",
                f"{model}, {os.cpu_count()} cores. Load average {self.load:.2f} before, {os.getloadavg()[0]:.2f} after. {others}.", ""]

    def verdict(self, counts):
        """May be cited: what needs no quiet machine, and seconds, which do. To be called after facts()."""
        if "changes" in self.commit:
            return ["May be cited: no, the tree had changes that are not committed.", ""]
        busy = [text for text, is_so in (("the load average was above 0.5 before the first case", self.load > 0.5),
                                         ("other programs used more than 5% of the cores' time", self.group is None or self.share > 0.05)) if is_so]
        return [f"May be cited: yes, {counts}; the seconds " + (f"no: {', '.join(busy)}." if busy else "too."), ""]


def commit():
    return subprocess.run(["git", "describe", "--always", "--dirty= with changes"], cwd=REPO, capture_output=True, text=True).stdout.strip()


def write_report(name, lines, log, wanted):
    text = "\n".join(lines) + "\n"
    print(text)
    if not wanted:
        return
    folder = REPO / "bench/faults/reports"
    folder.mkdir(exist_ok=True)
    stem = f"{name}-{datetime.datetime.now().strftime('%Y-%m-%d-%H%M')}"
    (folder / f"{stem}.md").write_text(without_places(text))
    (folder / f"{stem}.log").write_text(without_places(log))


def without_places(text):
    """Without the names of this machine and of its folders."""
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/trireme-[a-z]+-\w+", "FOLDER", text)
    return re.sub(rf"\b{re.escape(os.uname().nodename)}\b", "HOST", text.replace(str(REPO) + "/", "").replace(str(TRIREME.parent) + "/", ""))
