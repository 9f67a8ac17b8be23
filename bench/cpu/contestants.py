"""The programs that compare.py times: how each is called, and where its tokens per second are found."""
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

RECIPES = Path(__file__).resolve().parent / 'recipes'
CASES = {'10m': 4, '124m-1k': 4}  # recipe, which is also the peer's name of the case -> micro-batch, as in the recipe
PRECISIONS = {'fp32': '32', 'bf16': 'bf16'}  # the peer's name -> trainer.precision
PEER_MODES = ['eager', 'default']  # default: torch.compile
# Limits of oneDNN, the library of PyTorch's CPU GEMMs, best first; None: no limit. Some virtual machines announce AMX and yet end
# oneDNN's AMX code with SIGILL.
PEER_INSTRUCTION_SETS = [None, 'AVX512_CORE_AMX', 'AVX10_1_512', 'AVX512_CORE_BF16', 'AVX512_CORE', 'AVX2']
# Limits of both programs, for what CPUs without the better instructions reach: name -> TRIREME_CPU_ISA, the peer's first limit.
INSTRUCTIONS = {'best': (None, None), 'avx512': ('avx512_bf16', 'AVX10_1_512')}


class RunFailed(Exception):
    """The message is one line; what the program printed is in the log."""


class IllegalInstruction(RunFailed):
    """The program was ended by SIGILL."""


@dataclasses.dataclass(frozen=True)
class Limits:
    steps: int  # timed steps of a run
    threads: int
    timeout: int  # seconds for one run


def run_logged(command, log, limits, variables=()):
    """Runs a command, its output going to the end of the log, and returns the output. variables: pairs for its environment."""
    command = [str(word) for word in command]
    variables = {'OMP_NUM_THREADS': str(limits.threads), **dict(variables)}
    log.write(f'$ {" ".join(f"{name}={value}" for name, value in variables.items())} {shlex.join(command)}\n')
    log.flush()
    begin = log.tell()
    try:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | variables,
                                timeout=limits.timeout).returncode
    except subprocess.TimeoutExpired:
        raise RunFailed(f'not done after {limits.timeout} s') from None
    finally:
        log.seek(begin)
        output = log.read()
    if status == -signal.SIGILL:
        raise IllegalInstruction('ended by SIGILL')
    if status != 0:
        last_line = (output.strip() or 'nothing printed').splitlines()[-1]
        raise RunFailed(f'exit status {status}: {last_line}')
    return output


class Trireme:
    name = 'trireme'

    def __init__(self, binary, instructions='best'):
        self.binary, self.instruction_set = binary, INSTRUCTIONS[instructions][0]

    def tokens_per_second(self, case, precision, limits, log):
        with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
            self.train(case, precision, limits, log, folder)
            return self.read_summary(Path(folder) / 'summary.json')

    def op_times(self, case, precision, limits, log):
        """The table of where the time of a step goes, from a run of its own."""
        with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
            output = self.train(case, precision, limits, log, folder, '--trace-ops')
        lines = output.splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith('op, per step')), len(lines))
        return '\n'.join(line for line in lines[first:] if not line.startswith('trace '))

    def train(self, case, precision, limits, log, folder, *options):
        # summary.json leaves the first 5 steps out of its rates, but never more than half of them.
        all_steps = limits.steps + min(5, limits.steps)
        output = run_logged([self.binary, 'train', RECIPES / f'{case}.yaml', 'trainer.backend=cpu',
                             f'trainer.precision={PRECISIONS[precision]}', f'trainer.max_steps={all_steps}',
                             f'trainer.threads={limits.threads}', f'exp_manager.explicit_log_dir={folder}', *options], log, limits,
                            [('TRIREME_CPU_ISA', self.instruction_set)] if self.instruction_set else [])
        backend = re.search(r'^backend (\w+)', output, re.MULTILINE)
        if not backend or backend.group(1) != 'cpu':
            raise RunFailed(f'it ran on {backend.group(1) if backend else "an unknown backend"}; this comparison is of CPUs only')
        return output

    @staticmethod
    def read_summary(path):
        """The mean over the timed steps; the peer gives their median, which a single slow step does not touch."""
        try:
            return float(json.loads(path.read_text())['tokens_per_second'])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFailed(f'no tokens_per_second in summary.json: {error!r}') from None


class Peer:
    """A PyTorch program that prints one line per run: PEER torch VERSION ... tok/s=NUMBER ..."""
    limits = {}  # precision -> index into PEER_INSTRUCTION_SETS of the best that runs; all modes share it

    def __init__(self, python, script, mode, instructions='best'):
        self.python, self.script, self.mode = python, script, mode
        self.first = PEER_INSTRUCTION_SETS.index(INSTRUCTIONS[instructions][1])
        self.name = f'torch {mode}'

    def tokens_per_second(self, case, precision, limits, log):
        for index in range(Peer.limits.get(precision, self.first), len(PEER_INSTRUCTION_SETS)):
            Peer.limits[precision] = index
            try:
                return self.run(case, precision, limits, log, PEER_INSTRUCTION_SETS[index])
            except IllegalInstruction:
                log.write(f'ended by SIGILL; next limit of {precision}\n')
        raise RunFailed('ended by SIGILL with every limit of the instruction set')

    @classmethod
    def limited(cls, instructions):
        """One phrase per precision whose instruction set had to be limited further than asked for."""
        asked = PEER_INSTRUCTION_SETS.index(INSTRUCTIONS[instructions][1])
        return [f'ONEDNN_MAX_CPU_ISA={PEER_INSTRUCTION_SETS[index]} in {precision}, the best that runs: without it, SIGILL in oneDNN'
                for precision, index in cls.limits.items() if index > asked]

    def run(self, case, precision, limits, log, instruction_set):
        variables = [('ONEDNN_MAX_CPU_ISA', instruction_set)] if instruction_set else []
        output = run_logged([self.python, self.script, '--device', 'cpu', '--dtype', precision, '--modes', self.mode, '--steps',
                             limits.steps, f'{case}:{CASES[case]}'], log, limits, variables)
        found = re.search(r'^PEER torch .* tok/s=(\d+)', output, re.MULTILINE)
        if not found:
            failure = re.search(r'^PEER torch .*FAILED (.*)$', output, re.MULTILINE)
            raise RunFailed(failure.group(1) if failure else 'printed no tok/s')
        return float(found.group(1))
