"""Faults of disks and files: full, slow, damaged, gone."""
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import runs
from cases import LeftOut, MANY, Outcome, case, last_step, seconds_until, started


@case(11, "SIGKILL 0 to 19 ms after a save began")
def kill_in_save(folder):
    run = started(folder, options=["--max-restarts", 100], every=5)
    lost, seen = 0, set()
    for offset in range(20):
        run.wait(lambda: len(run.rank_processes()) == 4 and not seen & set(run.rank_processes()), "ranks")
        since = time.time()
        run.wait(lambda: run.is_saving(since), "a save")
        seen = set(run.rank_processes())
        time.sleep(offset / 1000)
        os.kill(random.Random(offset).choice(sorted(seen)), signal.SIGKILL)
    run.wait(lambda: not seen & set(run.rank_processes()) and run.newest_step() > 0 and len(run.rank_processes()) == 4, "ranks")
    time.sleep(1)
    log = run.log()
    lost = sum(one["steps_done"] - later["first_step"] for one, later in zip(run.goodput(), run.goodput()[1:])
               if later["first_step"] >= 0 and one["first_step"] >= 0)
    damaged = len(re.findall(r"damaged|cannot be used", log))
    run.stop()
    return Outcome(None, None, lost, f"20 kills; checkpoints found damaged: {damaged}; steps lost: of all kills together", log)


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]).returncode != 0:
        raise LeftOut("only root can make a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)])


@case(12, "the disk of run and checkpoints fills up, then has room again")
def full_disk(folder):
    run = runs.Run(folder, text=runs.recipe(MANY, every=20))
    with small_disk(run.launch_folder, "64m"):
        run.start()
        run.wait(lambda: run.newest_step() >= 40, "a checkpoint")
        filler = run.launch_folder / "filler"
        begin = time.monotonic()
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        detected = seconds_until(run, lambda: "cannot save" in run.log() or not run.log().endswith("\n"), "a warning", begin)
        before = run.newest_step()
        time.sleep(2)
        alive = len(run.rank_processes()) == 4
        filler.unlink()
        again = seconds_until(run, lambda: run.newest_step() > before, "the next checkpoint", time.monotonic())
        attempts, log = len(run.attempts()), run.log()
        run.stop()
    assert alive and attempts == 1, log[-2000:]
    return Outcome(detected, None, 0, f"the ranks trained on for 2 s without room; a checkpoint {again:.2f} s after there was", log)


@case(12, "the folder of checkpoints becomes read-only, then writable")
def read_only(folder):
    run = runs.Run(folder, text=runs.recipe(MANY, every=20))
    with small_disk(run.results / "checkpoints", "64m") as disk:
        run.start()
        run.wait(lambda: run.newest_step() >= 40, "a checkpoint")
        begin = time.monotonic()
        while subprocess.run(["mount", "-o", "remount,ro", str(disk)], stderr=subprocess.DEVNULL).returncode != 0:
            time.sleep(0.001)  # a file is open for writing
        detected = seconds_until(run, lambda: re.search("warning:.*Read-only", run.log()), "a warning", begin)
        before, at = run.newest_step(), last_step(run)
        time.sleep(2)
        trained = last_step(run) - at
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        again = seconds_until(run, lambda: run.newest_step() > before, "the next checkpoint", time.monotonic())
        attempts, log = len(run.attempts()), run.log()
        run.stop()
        run.wait(lambda: not run.rank_processes(), "the end")
    assert attempts == 1 and trained > 0
    return Outcome(detected, None, 0, f"{trained} steps in the next 2 s; a checkpoint {again:.2f} s after it was writable", log)


@contextlib.contextmanager
def slow_disk(folder, image, size, rate):
    """A disk on which processes in its group can write so many bytes per second; yields the group."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(size)
    group = pathlib.Path(f"/sys/fs/cgroup/blkio/trireme-{os.getpid()}")
    with contextlib.ExitStack() as stack:
        try:
            subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
            stack.callback(subprocess.run, ["umount", "-l", str(folder)])
            group.mkdir()
            stack.callback(group.rmdir)
            device = os.stat(folder).st_dev
            (group / "blkio.throttle.write_bps_device").write_text(f"{os.major(device)}:{os.minor(device)} {rate}")
        except (OSError, subprocess.CalledProcessError):
            raise LeftOut("this machine has no loop device, or no version 1 of cgroups") from None
        yield group


@case(12, "the disk of the run's checkpoints writes 1 MB/s; local_dir is in memory")
def slow_checkpoints(folder):
    run = runs.Run(folder, text=runs.recipe(MANY, every=400, layers=2, width=96), options=[
        f"exp_manager.checkpoint_callback_params.local_dir={folder}/local"])
    (folder / "local").mkdir()
    with small_disk(folder / "local", "256m"), slow_disk(run.results / "checkpoints", folder / "disk", 256 << 20, 1 << 20) as group:
        run.start()
        run.wait(lambda: run.newest_step() >= 400, "a checkpoint")
        rates, saved = [], []
        for throttled in (False, True):
            for process in run.rank_processes() if throttled else []:
                (group / "cgroup.procs").write_text(str(process))
            at, before, begin = last_step(run), run.newest_step(), time.monotonic()
            time.sleep(15)
            rates.append((last_step(run) - at) / (time.monotonic() - begin))
            saved.append(run.newest_step() - before)
        attempts, log = len(run.attempts()), run.log()
        run.stop()
        run.wait(lambda: not run.rank_processes(), "the end")
    assert attempts == 1 and saved[1] > 0, saved
    return Outcome(None, None, 0, f"{rates[0]:.0f} steps/s became {rates[1]:.0f}; newest checkpoint in the folder {saved[0]} steps further "
                   f"after 15 s with the fast disk, {saved[1]} with the slow one; no restart", log)


def flip_bit(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


@case(13, "a bit of a shard of the newest checkpoint is flipped")
def damaged_checkpoint(folder):
    run = started(folder, step=60)
    run.stop()
    run.wait(lambda: not run.rank_processes() and run.is_over(), "the end")
    newest = run.newest_step()
    shard = run.results / f"checkpoints/step-{newest:08}/rank-00000.safetensors"
    flip_bit(shard, shard.stat().st_size - 100)
    begin = time.monotonic()
    run.start("--resume")
    run.wait(lambda: "is damaged" in run.log(), "the damage is named")
    detected = time.monotonic() - begin
    run.wait(lambda: "resumed from step" in run.log(), "the older checkpoint is used")
    named = re.search(r"shard rank-00000[^\n]*", run.log()).group(0)
    resumed = int(re.findall(r"resumed from step (\d+)", run.log())[-1])
    log = run.log()
    run.stop()
    return Outcome(detected, None, newest - resumed, f"`{named}`; detected: from the start of the next launch", log)


DATA = """trainer: {precision: 32, threads: 1, max_steps: 3, val_check_interval: null}
exp_manager: {create_checkpoint_callback: false}
model:
  micro_batch_size: 1
  global_batch_size: 1
  encoder_seq_length: 64
  max_position_embeddings: 64
  num_layers: 1
  hidden_size: 32
  ffn_hidden_size: 32
  num_attention_heads: 4
  vocab_size: 257
  data: {data_impl: mmap, data_prefix: [a_text_document], splits_string: "100,0,0"}
"""


@case(13, "a bit of a dataset's tokens, or of its index, is flipped")
def damaged_data(folder):
    run = runs.Run(folder, name="data", text=DATA)
    (folder / "documents.jsonl").write_text("".join('{"text": "%s"}\n' % ("a tale of %d ranks " % i * 20) for i in range(50)))
    run.trireme("data", "prepare", "documents.jsonl", "--tokenizer", "bytes", "--append-eod", "--output", "a")
    dice, notes, lines = random.Random(1), [], []
    for ending in ("bin", "idx"):
        path, verified, refused = folder / f"a_text_document.{ending}", 0, 0
        for trial in range(20):
            offset = dice.randrange(path.stat().st_size)
            bit = dice.randrange(8)
            flip_bit(path, offset, bit)
            found = run.trireme("data", "verify", "--vocabulary", 257, "a_text_document", check=False)
            trained = run.trireme("train", "data.yaml", f"exp_manager.explicit_log_dir=out-{ending}-{trial}", check=False)
            verified += found.returncode == 2 and f"a_text_document.{ending}" in found.stdout
            refused += trained.returncode == 2 and f"a_text_document.{ending}" in trained.stdout
            assert trained.returncode in (0, 2), trained.stdout
            lines += [f"{ending} byte {offset}", found.stdout.strip(), trained.stdout.strip().split("\n")[-1]]
            flip_bit(path, offset, bit)
        notes.append(f".{ending}: `trireme data verify` named {verified} of 20, training refused {refused}")
    return Outcome(None, None, 0, "; ".join(notes), "\n".join(lines))


@case(22, "the disk of all logs and events is full from step 40 on")
def logs_gone(folder):
    run = runs.Run(folder, text=runs.recipe(3000, every=1000), options=["exp_manager.create_checkpoint_callback=false"])
    with small_disk(run.launch_folder, "8m"):
        run.start()
        run.wait(lambda: last_step(run) >= 40, "step 40")
        with contextlib.suppress(OSError), open(run.launch_folder / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        begin = time.monotonic()
        run.wait_until_over()
        seconds, attempts, log = time.monotonic() - begin, run.attempts(), run.log()
    assert len(attempts) == 1, attempts
    return Outcome(None, None, 0, f"the run ended by itself {seconds:.1f} s later, one attempt", log)
