"""The programs that compare.py times: how each is called, and where its tokens per second are found."""
import dataclasses
import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

RECIPES = Path(__file__).resolve().parent / 'recipes'
CASES = {'10m': 4, '124m-1k': 4}  # recipe, which is also the peer's name of the case -> micro-batch, as in the recipe
PRECISIONS = {'fp32': '32', 'bf16': 'bf16'}  # the peer's name -> trainer.precision
PEER_MODES = ['eager', 'default']  # default: torch.compile


class RunFailed(Exception):
    """The message is one line; what the program printed is in the log."""


@dataclasses.dataclass(frozen=True)
class Limits:
    steps: int  # timed steps of a run
    threads: int
    timeout: int  # seconds for one run


def run_logged(command, log, limits):
    """Runs a command, its output going to the end of the log, and returns the output."""
    command = [str(word) for word in command]
    threads = {'OMP_NUM_THREADS': str(limits.threads)}
    log.write(f'$ OMP_NUM_THREADS={limits.threads} {shlex.join(command)}\n')
    log.flush()
    begin = log.tell()
    try:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | threads,
                                timeout=limits.timeout).returncode
    except subprocess.TimeoutExpired:
        raise RunFailed(f'not done after {limits.timeout} s') from None
    finally:
        log.seek(begin)
        output = log.read()
    if status != 0:
        last_line = (output.strip() or 'nothing printed').splitlines()[-1]
        raise RunFailed(f'exit status {status}: {last_line}')
    return output


class Trireme:
    name = 'trireme'

    def __init__(self, binary):
        self.binary = binary

    def tokens_per_second(self, case, precision, limits, log):
        # summary.json leaves the first 5 steps out of its rates, but never more than half of them.
        all_steps = limits.steps + min(5, limits.steps)
        with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
            run_logged([self.binary, 'train', RECIPES / f'{case}.yaml', f'trainer.precision={PRECISIONS[precision]}',
                        f'trainer.max_steps={all_steps}', f'trainer.threads={limits.threads}',
                        f'exp_manager.explicit_log_dir={folder}'], log, limits)
            return self.read_summary(Path(folder) / 'summary.json')

    @staticmethod
    def read_summary(path):
        """The mean over the timed steps; the peer gives their median, which a single slow step does not touch."""
        try:
            return float(json.loads(path.read_text())['tokens_per_second'])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFailed(f'no tokens_per_second in summary.json: {error!r}') from None


class Peer:
    """A PyTorch program that prints one line a run: PEER torch VERSION ... tok/s=NUMBER ..."""

    def __init__(self, python, script, mode):
        self.python, self.script, self.mode = python, script, mode
        self.name = f'torch {mode}'

    def tokens_per_second(self, case, precision, limits, log):
        output = run_logged([self.python, self.script, '--device', 'cpu', '--dtype', precision, '--modes', self.mode, '--steps',
                             limits.steps, f'{case}:{CASES[case]}'], log, limits)
        found = re.search(r'^PEER torch .* tok/s=(\d+)', output, re.MULTILINE)
        if not found:
            failure = re.search(r'^PEER torch .*FAILED (.*)$', output, re.MULTILINE)
            raise RunFailed(failure.group(1) if failure else 'printed no tok/s')
        return float(found.group(1))
