#!/usr/bin/env python3
"""What the logs cost, as a share of a training step.

Runs telemetry_bench (all sinks writing real files) and `trireme train --benchmark` of the demo, as it is and with steps as short as
it can have them, in turns, and writes a report with its raw lines. Example, after a build with -DTRIREME_BENCH=ON:

    bench/telemetry/measure.py --rounds 3
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, machine, without_machine_names  # noqa: E402

MODELS = {'demo': ['demo'], 'demo, one sample a step': ['demo', 'model.global_batch_size=1', 'model.micro_batch_size=1']}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=str(ROOT / 'build'), help='folder with trireme and telemetry_bench')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--log-steps', type=int, default=20000, help='steps that telemetry_bench writes')
    parser.add_argument('--train-steps', type=int, default=40, help='steps of each benchmark run')
    parser.add_argument('--cores', help='cores to run on, as taskset takes them; all of them if left out')
    parser.add_argument('--output', default=str(ROOT / 'bench/telemetry/reports'), help='folder of the report')
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    lines, costs, steps = [], {}, {name: [] for name in MODELS}
    pin = ['taskset', '-c', arguments.cores] if arguments.cores else []

    def run(command):
        result = subprocess.run(pin + command, cwd=ROOT, capture_output=True, text=True, check=True)
        return result.stdout, result.stderr

    def say(text):
        print(text, flush=True)
        lines.append(text)

    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.build) as folder:
        for number in range(arguments.rounds):
            say(f'== round {number + 1}')
            output, _ = run([f'{arguments.build}/telemetry_bench', f'{folder}/logs-{number}', str(arguments.log_steps)])
            for line in output.splitlines():
                say(line)
                sink, mean, median = re.search(r'sinks=(\S+) .*mean_us=(\S+) median_us=(\S+)', line).groups()
                costs.setdefault(sink, []).append((float(mean), float(median)))
            for index, (name, recipe) in enumerate(MODELS.items()):
                output, _ = run([f'{arguments.build}/trireme', 'train', *recipe, '--benchmark', '--json', 'trainer.backend=cpu',
                                 f'trainer.max_steps={arguments.train_steps}',
                                 f'exp_manager.explicit_log_dir={folder}/{index}-{number}'])
                report = json.loads(output)
                seconds = report['step_seconds']
                steps[name].append(seconds['min'])
                say(f"STEP recipe='{' '.join(recipe)}' machine='{report['machine']}' commit={report['commit']} median_ms={seconds['median'] * 1e3:.2f} "
                    f"mean_ms={seconds['mean'] * 1e3:.2f} min_ms={seconds['min'] * 1e3:.2f} max_ms={seconds['max'] * 1e3:.2f}")
    load_after = os.getloadavg()[0]

    mean_cost, median_cost = (statistics.median(cost[i] for cost in costs['all']) for i in (0, 1))
    table = ['| model | fastest step | logs, mean | share | logs, median | share |', '|---|---|---|---|---|---|']
    for name, fastest in steps.items():
        step = min(fastest) * 1e6  # so that a busy machine does not make the share look small
        table.append(f'| {name} | {step / 1e3:.1f} ms | {mean_cost:.1f} us | {mean_cost / step:.3%} | {median_cost:.1f} us | '
                     f'{median_cost / step:.3%} |')
    sinks = ['| sinks | mean | median |', '|---|---|---|']
    for sink, rounds in costs.items():
        sinks.append(f'| {sink} | {statistics.median(r[0] for r in rounds):.1f} us | {statistics.median(r[1] for r in rounds):.1f} us |')

    date = datetime.date.today().isoformat()
    command = 'bench/telemetry/measure.py ' + ' '.join(sys.argv[1:])
    report = '\n'.join([
        f'# What the logs cost a step, {date}', '',
        'All logs of a run (terminal, DLLogger, TensorBoard, metrics.csv, text logs, MLPerf lines, summary) write every step, to files on',
        f'the disk of the build; medians of {arguments.rounds} rounds, against the fastest step of all of them.', '', *table, '',
        f'Steps of {mean_cost / 0.005 / 1e3:.1f} ms and longer spend less than 0.5% on logs. Sink by sink; "none" is what every step '
        'pays: reading', 'the memory in use, rates, and outliers.', '', *sinks, '',
        f'- command: `{command.strip()}`', f'- commit: {commit(str(ROOT))}', f'- machine: {machine()}',
        f'- load average {load_before:.1f} before, {load_after:.1f} after', f'- raw lines: [{date}.log]({date}.log)', ''])
    output = Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / f'{date}.md').write_text(without_machine_names(report))
    (output / f'{date}.log').write_text(without_machine_names('\n'.join(lines) + '\n'))
    print('\n' + '\n'.join(table))


if __name__ == '__main__':
    main()
