#!/usr/bin/env python3
"""Step time of the demo beside another busy program, with one thread and with one per core.

  bench/cpu/contention.py --rounds 3           # minutes; a report in cpu/reports/
  bench/cpu/contention.py --rounds 1 --quick   # no report

The competitor is one endless loop per core. Runs alternate, so that what else the machine does meets all of them alike. The bound:
with a competitor on every core, all threads take at most 1.5 times as long as one thread. Needs only the standard library.
"""
import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOUND = 1.5


def competitors(count):
    return [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(count)]


def command_of(arguments, threads, folder):
    return [str(arguments.trireme), 'train', 'demo', '--benchmark', 'trainer.backend=cpu', 'trainer.precision=32',
            f'trainer.threads={threads}', f'trainer.max_steps={arguments.steps}', f'exp_manager.explicit_log_dir={folder}/run']


def median_step(arguments, threads, busy):
    """Seconds of the median step of one run beside `busy` competitors."""
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        others = competitors(busy)
        try:
            done = subprocess.run(command_of(arguments, threads, folder), capture_output=True, text=True)
        finally:
            for other in others:
                other.kill()
                other.wait()
        if done.returncode != 0:
            sys.exit(f'contention.py: {done.stderr.strip().splitlines()[-1]}')
        return json.loads((Path(folder) / 'run/summary.json').read_text())['step_seconds']['median']


def cpu_name():
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.split(':', 1)[1].strip()
    return 'not known'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--quick', action='store_true', help='no report')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme')
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    cases = [(threads, busy) for busy in (0, cores) for threads in sorted({1, cores})]
    seconds = {case: [] for case in cases}
    lines = []
    for _ in range(arguments.rounds):
        for threads, busy in cases:
            seconds[threads, busy].append(median_step(arguments, threads, busy))
            lines.append(f'threads {threads}, competitors {busy}: {seconds[threads, busy][-1] * 1e3:.1f} ms')
            print(lines[-1], flush=True)
    table = ['| threads | busy programs beside it | ms per step: median (least to most) |', '|---:|---:|---|']
    for threads, busy in cases:
        all_ms = [value * 1e3 for value in seconds[threads, busy]]
        table.append(f'| {threads} | {busy} | {statistics.median(all_ms):.1f} ({min(all_ms):.1f} to {max(all_ms):.1f}) |')
    ratio = max(seconds[cores, cores]) / statistics.median(seconds[1, cores])
    verdict = f'Worst run with {cores} threads beside {cores} busy programs: {ratio:.2f} times the median of one thread; bound {BOUND}.'
    print('\n'.join(table), verdict, sep='\n\n')
    if arguments.quick:
        return
    commit = subprocess.run(['git', 'describe', '--always', '--dirty'], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    name = f'{datetime.date.today()}-contention'
    report = [f'# Step time beside other busy programs, {datetime.date.today()}', '', *table, '', verdict, '',
              f'Command: `bench/cpu/contention.py {shlex.join(sys.argv[1:])}`; each run: '
              f'`{shlex.join(command_of(arguments, cores, "FOLDER")).replace(str(ROOT) + "/", "")}`.',
              f'Commit {commit}. {cpu_name()}, {cores} cores. Load before {load:.2f}, after {os.getloadavg()[0]:.2f} '
              '(the competitors themselves). Raw output: the `.log` beside this file.', '']
    folder = ROOT / 'bench/cpu/reports'
    (folder / f'{name}.md').write_text('\n'.join(report))
    (folder / f'{name}.log').write_text('\n'.join(lines) + '\n')
    print(f'report: {folder / name}.md')


if __name__ == '__main__':
    main()
