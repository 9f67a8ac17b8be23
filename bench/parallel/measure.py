#!/usr/bin/env python3
"""What each kind of parallelism costs on this machine: two ranks, each on a core of its own, against one rank on one core that does
the same work.

  bench/parallel/measure.py                              all cases, one round; writes a report
  bench/parallel/measure.py --cases one,pair,tp2         some of them
  bench/parallel/measure.py --results FILE --rounds 3    results are added to FILE, so that a long measurement can be made in parts
  bench/parallel/measure.py --cases sp2 --traces FOLDER  also keeps the Chrome traces of its ranks, a file each

Every case is run once more with --trace-ops, which is where the bytes and the share of communication that is hidden behind ops come
from; its tokens per second do not count. A case that has been traced in FILE is not traced again. Needs mpirun and two cores; only the standard library of Python.
"""
import argparse
import datetime
import gzip
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import parallel_report

ROOT = Path(__file__).resolve().parents[2]
RECIPE = Path(__file__).resolve().parent / 'recipes/small.yaml'

TP2 = ['model.tensor_model_parallel_size=2']
SP2 = TP2 + ['model.sequence_parallel=true']
PP2 = ['model.pipeline_model_parallel_size=2']
CP2 = ['model.context_parallel_size=2']
ZERO = ['model.optim.name=distributed_fused_adam']
OVERLAP_GRADIENTS = ['model.optim.overlap_grad_sync=true', 'model.optim.overlap_param_sync=true']

# name -> (what it is, ranks, settings)
CASES = {
    'one': ('one rank', 1, []),
    'pair': ('two runs of one rank beside each other: what the second core gives', 1, []),
    'tp2': ('tensor parallel', 2, TP2),
    'tp2-pieces': ('tensor parallel, in pieces that overlap with GEMMs', 2, TP2 + ['model.ub_tp_comm_overlap=true']),
    'sp2': ('tensor and sequence parallel', 2, SP2),
    'pp2-1f1b': ('pipeline, 1F1B', 2, PP2 + ['model.overlap_p2p_comm=false']),
    'pp2-1f1b-overlap': ('pipeline, 1F1B, messages overlapped', 2, PP2 + ['model.overlap_p2p_comm=true']),
    'pp2-vp2': ('pipeline, interleaved in two chunks a rank', 2, PP2 + ['model.virtual_pipeline_model_parallel_size=2']),
    'pp2-gpipe': ('pipeline, GPipe', 2, PP2 + ['model.pipeline_schedule=gpipe']),
    'pp2-zb': ('pipeline, zero bubble (ZB-H1)', 2, PP2 + ['model.pipeline_schedule=zb-h1']),
    'dp2': ('data parallel, every rank with the whole state', 2, []),
    'dp2-zero': ('data parallel, state shared out (ZeRO-1)', 2, ZERO),
    'dp2-zero-overlap': ('data parallel, ZeRO-1, overlapped', 2, ZERO + OVERLAP_GRADIENTS),
    'cp2': ('context parallel (ring attention)', 2, CP2),
}


class RunFailed(Exception):
    """The message is one line."""


# Of an operand of a call between two ranks, what each of them sends. An exchange counts what it sends and what it receives.
SENT = {'all_reduce': 1, 'reduce_scatter': 0.5, 'all_gather': 0.5, 'broadcast': 0.5, 'send': 1, 'receive': 0, 'exchange': 0.5}


def command_of(arguments, case, folder, more):
    _, ranks, settings = CASES[case]
    train = [str(arguments.trireme), 'train', str(RECIPE), '--benchmark', f'trainer.max_steps={arguments.steps}',
             f'exp_manager.explicit_log_dir={folder}', *settings, *more]
    if ranks == 1:
        return train
    root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
    return ['mpirun', *root, '-n', str(ranks), '--bind-to', 'core', *train]


def start(arguments, case, folder, core, more=()):
    command = command_of(arguments, case, folder, more)
    if core is not None:
        command = ['taskset', '-c', str(core), *command]
    log = open(Path(folder) / 'output.txt', 'w')
    return command, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def finish(process, folder, timeout):
    """Waits for a run; its tokens per second."""
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise RunFailed(f'not done after {timeout} s') from None
    if status != 0:
        lines = (Path(folder) / 'output.txt').read_text().strip().splitlines() or ['nothing printed']
        raise RunFailed(f'exit status {status}: {next((line for line in lines if line.startswith("trireme: ")), lines[-1])}')
    return json.loads((Path(folder) / 'summary.json').read_text())['tokens_per_second']


def measure(arguments, case):
    """Tokens per second of a case, and the command."""
    cores = sorted(os.sched_getaffinity(0))
    ranks = CASES[case][1]
    copies = 2 if case == 'pair' else 1
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        runs = []
        for copy in range(copies):
            Path(folder, str(copy)).mkdir()
            runs.append(start(arguments, case, f'{folder}/{copy}', cores[copy] if ranks == 1 else None))
        rates = [finish(process, f'{folder}/{copy}', arguments.timeout) for copy, (_, process) in enumerate(runs)]
        return sum(rates), shlex.join(runs[0][0]).replace(f'{folder}/0', 'FOLDER')


def trace(arguments, case):
    """Per rank and step: bytes sent, seconds of communication, those of them behind ops, seconds of the step."""
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        finish(start(arguments, case, folder, None, ['--trace-ops'])[1], folder, arguments.timeout)
        ranks = [json.loads(path.read_text()) for path in sorted(Path(folder).glob('ops_globalrank-*.json'))]
        if arguments.traces:
            arguments.traces.mkdir(parents=True, exist_ok=True)
            for path in Path(folder).glob('trace_globalrank-*.json'):
                (arguments.traces / f'{case}-{path.name}.gz').write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    calls = [op for rank in ranks for op in rank['ops'] if 'hidden_seconds' in op]
    return {'sent': sum(op['bytes'] * SENT.get(op['name'].split()[-1], 0) for op in calls) / len(ranks),
            'communication': sum(op['seconds'] for op in calls) / len(ranks),
            'hidden': sum(op['hidden_seconds'] for op in calls) / len(ranks),
            'step': sum(rank['step_seconds'] for rank in ranks) / len(ranks)}


def arguments_of(command_line):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cases', type=lambda text: text.split(','), default=list(CASES), help=f'of {", ".join(CASES)}')
    parser.add_argument('--rounds', type=int, default=1, help='runs of each case, in turns; default 1; 0: only traced ones')
    parser.add_argument('--steps', type=int, default=6, help='of a run, the first half of which is not timed; default 6')
    parser.add_argument('--timeout', type=int, default=600, help='seconds for one run; default 600')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme', help='default build/trireme')
    parser.add_argument('--results', type=Path, help='a file of results that new ones are added to')
    parser.add_argument('--traces', type=Path, help='a folder for the Chrome traces of all ranks')
    parser.add_argument('--name', help='of the report; default the date')
    arguments = parser.parse_args(command_line)
    for case in arguments.cases:
        if case not in CASES:
            parser.error(f'--cases {case}: use some of {", ".join(CASES)}')
    if len(os.sched_getaffinity(0)) < 2:
        parser.error('two cores are needed, one for each rank')
    return arguments


def main():
    arguments = arguments_of(sys.argv[1:])
    results = []
    if arguments.results and arguments.results.exists():
        results = [json.loads(line) for line in arguments.results.read_text().splitlines()]

    def add(result):
        results.append(result)
        if arguments.results:
            with open(arguments.results, 'a') as file:
                file.write(json.dumps(result) + '\n')

    load = os.getloadavg()[0]
    for _ in range(arguments.rounds):
        for case in arguments.cases:
            rate, command = measure(arguments, case)
            print(f'{case:18} {rate:8.0f} tokens/s', flush=True)
            add({'case': case, 'rate': rate, 'command': command})
    for case in arguments.cases:
        if CASES[case][1] > 1 and not any(result['case'] == case and 'trace' in result for result in results):
            add({'case': case, 'trace': trace(arguments, case)})
    name = arguments.name or f'{datetime.date.today()}'
    path = parallel_report.write(name, results, CASES, {'root': ROOT, 'steps': arguments.steps, 'load': load, 'trireme': arguments.trireme})
    print(f'report: {path}')


if __name__ == '__main__':
    try:
        main()
    except RunFailed as failure:
        sys.exit(f'measure.py: {failure}')
