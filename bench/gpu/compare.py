#!/usr/bin/env python3
"""Trains the same models with trireme and with PyTorch on the same GPU, in turns, and compares them: tokens per second, TFLOP/s, MFU
and memory, and of ours where the time of a step goes, op by op, from a run of its own.

  bench/gpu/compare.py                                        all cases in bf16 and FP8, three rounds; writes a report
  bench/gpu/compare.py --cases 126m:16:4,1.3b:8:4 --precisions bf16 --rounds 1 --no-trace-ops
  bench/gpu/compare.py --tune                                 compare GEMM algorithms in steps first, as `trireme train --tune` does

A case is MODEL:MICRO_BATCH:ACCUMULATION. The Python that runs the peer needs torch; this script needs only the standard library.
"""
import argparse
import dataclasses
import datetime
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, median_of, ratio_to_best, table, without_machine_names  # noqa: E402

CASES = ['126m:1:8', '126m:4:4', '126m:16:4', '126m:32:4', '1.3b:8:4', '5b:4:4', '175b-2layers:2:8']
PRECISIONS = {'bf16': [], 'fp8': ['model.fp8=true', 'model.fp8_hybrid=true']}
MODES = ['default', 'reduce-overhead']
SEQUENCE = 2048
WARM_UP = 5  # steps that summary.json leaves out
UNITS = {'B': 2**-30, 'KiB': 2**-20, 'MiB': 2**-10, 'GiB': 1}
PEER_STATE_BYTES = 2 + 2 + 4  # of a parameter: weight, gradient and two moments in bf16


@dataclasses.dataclass
class Details:
    """What a case is measured by, beside its rates. memory: program -> GiB of (state, FP8 weights, the rest)."""
    memory: dict = dataclasses.field(default_factory=dict)
    flops: float = 0  # of the model for a token
    peak: float | None = None  # TFLOP/s of the GPU, if they are known


class RunFailed(Exception):
    """The message is one line; what the program printed is in the log."""


def run_logged(command, log):
    command = [str(word) for word in command]
    log.append(f'$ {shlex.join(command)}')
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    log.append(done.stdout.rstrip())
    if done.returncode != 0:
        raise RunFailed(f'exit status {done.returncode}: {(done.stdout.strip() or "nothing printed").splitlines()[-1]}')
    return done.stdout


def train(arguments, case, precision, log, *options):
    """One run of ours; returns what summary.json says."""
    model, micro_batch, accumulation = case.split(':')
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        run_logged([arguments.trireme, 'train', HERE / f'recipes/{model}.yaml', f'model.micro_batch_size={micro_batch}',
                    f'model.global_batch_size={int(micro_batch) * int(accumulation)}',
                    f'trainer.max_steps={arguments.steps + WARM_UP}', f'exp_manager.explicit_log_dir={folder}',
                    *PRECISIONS[precision], *options], log)
        return json.loads((Path(folder) / 'summary.json').read_text())


def tune(arguments, log):
    """Compares GEMM algorithms in the steps of runs of their own; later runs find the best in the cache."""
    for case in arguments.cases:
        model, micro_batch, _ = case.split(':')
        for precision in arguments.precisions:
            log.append(f'\n== tuning {case} {precision}')
            print(f'tuning {case} {precision}', file=sys.stderr, flush=True)
            train(arguments, f'{model}:{micro_batch}:16', precision, log, 'trainer.max_steps=26', '--tune')


def our_memory(log):
    """GiB of (state, FP8 weights, the rest) as the start-up line announces it, which tests hold against what was measured. State is
    the bf16 weights, f32 gradients, masters and moments; the rest are activations and scratch. The driver and the libraries are
    left out: PyTorch's figure does not have them. The line continues in indented lines."""
    line = re.findall(r'^memory  parameters .*(?:\n {8}.*)*', '\n'.join(log), re.MULTILINE)[-1]
    parts = {name: float(size) * UNITS[unit] for name, size, unit in re.findall(r'(\w+) ([\d.]+) (B|KiB|MiB|GiB)', line)}
    state = parts['gradients'] / 2 + parts['gradients'] + parts['masters'] + parts['states']
    return state, max(0, parts['parameters'] - parts['gradients'] / 2), parts['activations'] + parts['scratch']


def ours(arguments, case, precision, log, details):
    """From the median step, as the peer's rate is."""
    model, micro_batch, accumulation = case.split(':')
    summary = train(arguments, case, precision, log)
    tokens = int(micro_batch) * int(accumulation) * SEQUENCE
    details.memory['trireme'] = our_memory(log)
    details.flops = summary['flops_per_sample'] / SEQUENCE
    details.peak = summary.get('peak_tflops_per_device')
    return {'trireme': tokens / summary['step_seconds']['median']}


def peers(arguments, case, precision, log, details):
    """All modes in one process, as the peer offers it."""
    options = ['--fp8'] if precision == 'fp8' else []
    output = run_logged([arguments.python, HERE / 'run_peer.py', arguments.peer, '--modes', ','.join(arguments.modes), '--steps',
                         arguments.steps, *options, case], log)
    found = re.findall(r'^(?:GRAPHS held_GiB=([\d.]+)\n)?PEER torch .* mode=(\S+) .*tok/s=(\d+) .*mem_GiB=([\d.]+)', output,
                       re.MULTILINE)
    for graphs, mode, _, peak in found:
        if 'trireme' in details.memory:
            state = details.memory['trireme'][0] / (2 + 4 + 4 + 8) * PEER_STATE_BYTES
            details.memory[f'torch {mode}'] = (state, 0, max(float(peak) - state, float(graphs or 0)))  # in graphs lies no state
    return {f'torch {mode}': float(rate) for _, mode, rate, _ in found}


def details_table(results, details):
    lines = ['TFLOP/s by the model\'s FLOPs (full formula) and MFU of the dense peak, from the same rates; GiB of weights, gradients, '
             'masters and moments (state), of FP8 copies of weights that stay for a step, and of all else: activations, scratch, what '
             'is made and used at once. Of PyTorch it is what was allocated at most, or what CUDA graphs hold where that is more.', '',
             '| case | precision | program | TFLOP/s | MFU | state | FP8 weights | all else | total |', '|---' * 9 + '|']
    for key, of_case in details.items():
        for name, (state, copies, rest) in of_case.memory.items():
            tflops = median_of(results[key][name]) * of_case.flops / 1e12
            mfu = f'{tflops / of_case.peak:.1%}' if of_case.peak else '-'
            lines.append(f'| {key[0]} | {key[1]} | {name} | {tflops:.0f} | {mfu} | {state:.1f} | '
                         f'{copies:.1f} | {rest:.1f} | {state + copies + rest:.1f} |')
    return '\n'.join(lines)


def measure(arguments, log, keep):
    """Rounds are the outer loop, and every other round goes backwards, so that a GPU that slows down touches both alike. `keep`
    is called after every run: what was measured is not lost when a later one is cut short."""
    names = ['trireme', *(f'torch {mode}' for mode in arguments.modes)]
    results = {(case, precision): {name: [] for name in names} for case in arguments.cases for precision in arguments.precisions}
    details = {key: Details() for key in results}
    failures = []
    for number in range(1, arguments.rounds + 1):
        for case, precision in results:
            for contestant in [ours, peers][::1 if number % 2 else -1]:
                log.append(f'\n== round {number} {case} {precision} {contestant.__name__}')
                try:
                    for name, rate in contestant(arguments, case, precision, log, details[case, precision]).items():
                        results[case, precision][name].append(rate)
                        print(f'round {number} {case} {precision} {name}: {rate:.0f} tokens/s', file=sys.stderr, flush=True)
                except RunFailed as failure:
                    failures.append(f'round {number} {case} {precision} {contestant.__name__}: {failure}')
                    print(failures[-1], file=sys.stderr, flush=True)
                keep(results, details, failures)
    return results, details, failures


def trace_ops(arguments, log):
    text = ''
    for case in arguments.cases:
        for precision in arguments.precisions:
            begin = len(log)
            train(arguments, case, precision, log, '--trace-ops')
            lines = '\n'.join(log[begin:]).splitlines()
            first = next(i for i, line in enumerate(lines) if line.startswith('op, per step'))
            text += f'\n{case} {precision}, where the time of a step goes:\n\n```\n' + '\n'.join(lines[first:]) + '\n```\n'
    return text


def arguments_of(command_line):
    words = lambda text: text.split(',')  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cases', type=words, default=CASES, help=f'default {",".join(CASES)}')
    parser.add_argument('--precisions', type=words, default=list(PRECISIONS), help='default bf16,fp8')
    parser.add_argument('--modes', type=words, default=MODES, help=f'of the peer; default {",".join(MODES)}')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=20, help='timed steps of a run')
    parser.add_argument('--tune', action='store_true', help='let trireme compare GEMM algorithms in steps before anything is timed')
    parser.add_argument('--trace-ops', action=argparse.BooleanOptionalAction, default=True, help='where the time of our steps goes')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme')
    parser.add_argument('--peer', type=Path, default=ROOT / 'bench/peers/torch_gpt.py', help='the PyTorch program')
    parser.add_argument('--python', default=sys.executable, help='the Python that runs the peer')
    parser.add_argument('--commit', help='of the sources, where they are no git checkout')
    parser.add_argument('--reports', type=Path, default=HERE / 'reports', help='where the report goes')
    return parser.parse_args(command_line)


def name_of_gpu():
    try:
        return subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version,memory.total', '--format=csv,noheader'],
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit('there is no GPU here that nvidia-smi knows of')


def main(command_line):
    arguments = arguments_of(command_line)
    log = []
    now = datetime.datetime.now(datetime.timezone.utc)
    name = f'{now:%Y-%m-%d-%H%M%S}'
    gpu = name_of_gpu()
    facts = [f'command: `bench/gpu/compare.py {shlex.join(command_line)}`', f'commit: {arguments.commit or commit(ROOT)}',
             f'date: {now:%Y-%m-%d %H:%M} UTC', f'machine: {gpu}', f'rounds: {arguments.rounds}, programs in turns, '
             f'{arguments.steps} timed steps each; rates from the median step of each run',
             'ours keeps fp32 masters, moments and gradients; the peer keeps all of them in bf16']
    arguments.reports.mkdir(parents=True, exist_ok=True)

    def keep(results, details, failures, tables=''):
        text = '\n'.join(['Tokens per second: median of the rounds (lowest-highest).', '',
                          table(results, ['trireme', *(f'torch {mode}' for mode in arguments.modes)]), '',
                          details_table(results, details), ''])
        report = ['# GPU training against PyTorch', '', text, *(f'- {fact}' for fact in facts),
                  *(f'- failed: {failure}' for failure in failures), f'- raw output of every run: [{name}.log]({name}.log)', tables]
        (arguments.reports / f'{name}.md').write_text(without_machine_names('\n'.join(report)) + '\n')
        (arguments.reports / f'{name}.log').write_text(without_machine_names('\n'.join(log).lstrip()) + '\n')
        return text + tables

    if arguments.tune:
        try:
            tune(arguments, log)
        except RunFailed as failure:
            sys.exit(f'tuning: {failure}')
    results, details, failures = measure(arguments, log, keep)
    try:
        tables = trace_ops(arguments, log) if arguments.trace_ops else ''
    except RunFailed as failure:
        failures.append(f'tracing: {failure}')
        tables = ''
    print(keep(results, details, failures, tables))
    worst = min((ratio for rates in results.values() if (ratio := ratio_to_best(rates))), default=None)
    if worst is not None:
        print(f'lowest ratio {worst:.3f}; {arguments.reports / name}.md')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
