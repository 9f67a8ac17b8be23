#!/usr/bin/env python3
"""Steps of this program as `trireme plan` predicts them on a machine that `trireme plan --measure` has measured, and as measured.

  bench/plan/own_runs.py --measure one.yaml two.yaml                   # minutes: measures this machine with one and two ranks
  bench/plan/own_runs.py --cluster one.yaml two.yaml --rounds 3        # the cases on CPUs; a report in plan/reports/
  bench/plan/own_runs.py --cluster h200.yaml --gpu --rounds 3          # the cases of bench/gpu, and two shapes more
  bench/plan/own_runs.py --cluster one.yaml --results FILE --rounds 1  # results are added to FILE, so that rounds can be made in parts

All cases run once per round, so that what else the machine does meets all of them alike. A case is measured by the median of its
rounds, each the median of its steady steps. Needs only the standard library.
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
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from quiet import QUIET_LOAD, QUIET_SHARE, Neighbours, load_average  # noqa: E402
from report import commit, machine, without_machine_names  # noqa: E402

BOUND, GOAL = 7, 4  # percent

F32, BF16 = ['trainer.precision=32'], ['trainer.precision=bf16']
CPU, SMALL = 'bench/cpu/recipes/', 'bench/parallel/recipes/small.yaml'
ONE_SAMPLE = ['model.micro_batch_size=1', 'model.global_batch_size=2']
TP2, PP2 = ['model.tensor_model_parallel_size=2'], ['model.pipeline_model_parallel_size=2']
ZERO = ['model.optim.name=distributed_fused_adam']
OVERLAP = ['model.optim.overlap_grad_sync=true', 'model.optim.overlap_param_sync=true']
WIDE = ['model.hidden_size=640', 'model.ffn_hidden_size=1792', 'model.num_attention_heads=10', 'model.num_query_groups=5',
        'model.normalization=rmsnorm', 'model.activation=swiglu', 'model.position_embedding_type=rope', 'model.bias=false',
        'model.num_layers=6', 'model.global_batch_size=2']

# name -> (ranks, recipe, overrides, steps). Those that measuring has seen no GEMM of are marked with *.
CPU_CASES = {
    'demo f32': (1, 'demo', F32, 30),
    'demo bf16': (1, 'demo', BF16, 30),
    '10m f32': (1, CPU + '10m.yaml', F32 + ONE_SAMPLE, 10),
    '10m bf16': (1, CPU + '10m.yaml', BF16 + ONE_SAMPLE, 10),
    '124m-1k f32': (1, CPU + '124m-1k.yaml', F32 + ['model.micro_batch_size=1', 'model.global_batch_size=1'], 8),
    '124m-1k bf16': (1, CPU + '124m-1k.yaml', BF16 + ['model.micro_batch_size=1', 'model.global_batch_size=1'], 8),
    'llama 640* f32': (1, SMALL, F32 + WIDE + ['trainer.threads=0'], 10),
    'llama 640* bf16': (1, SMALL, BF16 + WIDE + ['trainer.threads=0'], 10),
    'tp2 f32': (2, SMALL, F32 + TP2, 8),
    'tp2 bf16': (2, SMALL, BF16 + TP2, 8),
    'sp2 f32': (2, SMALL, F32 + TP2 + ['model.sequence_parallel=true'], 8),
    'pp2 f32': (2, SMALL, F32 + PP2, 8),
    'pp2-vp2 bf16': (2, SMALL, BF16 + PP2 + ['model.virtual_pipeline_model_parallel_size=2'], 8),
    'cp2 f32': (2, SMALL, F32 + ['model.context_parallel_size=2'], 8),
    'dp2 f32': (2, SMALL, F32, 8),
    'dp2-zero bf16': (2, SMALL, BF16 + ZERO, 8),
    'dp2-zero-overlap f32': (2, SMALL, F32 + ZERO + OVERLAP, 8),
    '10m dp2 bf16': (2, CPU + '10m.yaml', BF16 + ONE_SAMPLE, 8),
    '10m tp2 f32': (2, CPU + '10m.yaml', F32 + ONE_SAMPLE + TP2, 8),
    'llama 640* dp2 bf16': (2, SMALL, BF16 + WIDE, 8),
}


def gpu_case(model, micro_batch, accumulation, fp8, more=()):
    recipe = f'bench/gpu/recipes/{model}.yaml'
    return (1, recipe, [f'model.micro_batch_size={micro_batch}', f'model.global_batch_size={micro_batch * accumulation}',
                        f'model.fp8={"true" if fp8 else "false"}', *more], 16)


def gpu_cases():
    unseen = {'3072*': ['model.hidden_size=3072', 'model.ffn_hidden_size=12288', 'model.num_attention_heads=24', 'model.num_layers=12'],
              '5120*': ['model.hidden_size=5120', 'model.ffn_hidden_size=20480', 'model.num_attention_heads=40', 'model.num_layers=8']}
    cases = {}
    for fp8 in (False, True):
        kind = 'fp8' if fp8 else 'bf16'
        for model, micro_batch, accumulation in [('126m', 1, 8), ('126m', 4, 4), ('126m', 16, 4), ('1.3b', 8, 4), ('5b', 4, 4), ('175b-2layers', 2, 8)]:
            cases[f'{model}:{micro_batch}:{accumulation} {kind}'] = gpu_case(model, micro_batch, accumulation, fp8)
        cases[f'{"3072*"}:6:2 {kind}'] = gpu_case('1.3b', 6, 2, fp8, unseen['3072*'])
        cases[f'{"5120*"}:3:4 {kind}'] = gpu_case('5b', 3, 4, fp8, unseen['5120*'])
    return cases


class RunFailed(Exception):
    """The message is one line."""


def started(ranks, command):
    if ranks == 1:
        return command
    root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
    return ['mpirun', *root, '-n', str(ranks), '--bind-to', 'core', *command]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith('trireme:')]
        raise RunFailed(lines[0] if lines else f'{shlex.join(command)} ended with status {done.returncode}')


def command_of(arguments, ranks, recipe, overrides, steps, cluster, folder):
    return started(ranks, [str(arguments.trireme), 'train', recipe, '--benchmark', '--plan', '--cluster', str(cluster),
                           f'trainer.max_steps={steps}', f'exp_manager.explicit_log_dir={folder}', *overrides])


def measure_case(arguments, name, cluster):
    ranks, recipe, overrides, steps = arguments.cases[name]
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        command = command_of(arguments, ranks, recipe, overrides, steps, cluster, Path(folder) / 'run')
        neighbours = Neighbours(sorted(os.sched_getaffinity(0)))
        run(command)
        summary = json.loads((Path(folder) / 'run/summary.json').read_text())
        return {'case': name, 'plan': summary['plan'], 'others': neighbours.share(),
                'command': shlex.join(command).replace(str(folder), 'FOLDER').replace(str(ROOT) + '/', '')}


def measure_machine(arguments):
    for ranks, path in enumerate(arguments.measure, start=1):
        print(f'measuring with {ranks} rank{"s" if ranks > 1 else ""}: {path}', flush=True)
        run(started(ranks, [str(arguments.trireme), 'plan', '--measure', '--output', str(path)]))


def row(name, results):
    plans = [result['plan'] for result in results if result['case'] == name]
    measured = [plan['measured_s'] for plan in plans]
    median, predicted = statistics.median(measured), plans[-1]['step_s']
    return {'case': name, 'predicted': predicted, 'median': median, 'least': min(measured), 'most': max(measured),
            'error': 100 * (predicted / median - 1), 'rounds': len(measured)}


def report_of(arguments, results, load):
    rows = [row(name, results) for name in arguments.cases if any(result['case'] == name for result in results)]
    table = ['| case | predicted | measured: median (least to most) | error |', '|---|---:|---:|---:|']
    table += [f'| {r["case"]} | {1e3 * r["predicted"]:.1f} ms | {1e3 * r["median"]:.1f} ({1e3 * r["least"]:.1f}-{1e3 * r["most"]:.1f}) ms | '
              f'{r["error"]:+.1f}% |' for r in rows]
    errors = [abs(r['error']) for r in rows]
    outside = [r['case'] for r in rows if abs(r['error']) > BOUND]
    others = max(result['others'] for result in results)
    broken = [text for is_broken, text in [
        (load > QUIET_LOAD, f'load average {load:.1f} before'), (others > QUIET_SHARE and not arguments.gpu, f'others used {100 * others:.0f}% of the cores'),
        (min(r['rounds'] for r in rows) < 3, 'fewer than three rounds'), ('with changes' in commit(ROOT), 'sources with changes')] if is_broken]
    commands = {result['case']: result['command'] for result in results}
    lines = ['# Own steps, predicted after `trireme plan --measure`', '', *table, '',
             f'- mean error {statistics.mean(errors):.1f}%, largest {max(errors):.1f}%; within {BOUND}%: {len(errors) - len(outside)} of {len(errors)}, '
             f'within the goal of {GOAL}%: {sum(error <= GOAL for error in errors)}',
             f'- outside of {BOUND}%: {", ".join(outside) or "none"}',
             '- cases with * have widths that measuring has not seen',
             f'- command: `bench/plan/own_runs.py {shlex.join(sys.argv[1:])}`',
             f'- commit: {commit(ROOT)}', f'- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC',
             f'- machine: {machine()}', f'- load average before: {load:.1f}, after: {load_average():.1f}',
             f'- other programs: used at most {100 * others:.1f}% of the cores during a run',
             f'- may be cited: {"no: " + ", ".join(broken) if broken else "yes"}', '',
             'Commands:', '', '```', *commands.values(), '```', '']
    return without_machine_names('\n'.join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--measure', nargs='+', metavar='FILE', type=Path, default=[], help='measure the machine with 1, 2, ... ranks, to these files')
    parser.add_argument('--cluster', nargs='+', metavar='FILE', type=Path, default=[], help='what was measured with 1, 2, ... ranks')
    parser.add_argument('--gpu', action='store_true', help='the cases of bench/gpu')
    parser.add_argument('--cases', help='some of them, separated by commas')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--results', type=Path, help='a file that results are added to')
    parser.add_argument('--name', help='of the report')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme')
    arguments = parser.parse_args()
    measure_machine(arguments)
    if not arguments.cluster:
        return
    known = gpu_cases() if arguments.gpu else CPU_CASES
    names = arguments.cases.split(',') if arguments.cases else [name for name, case in known.items() if case[0] <= len(arguments.cluster)]
    arguments.cases = {name: known[name] for name in names}
    results = []
    if arguments.results and arguments.results.exists():
        results = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    load = load_average()
    for _ in range(arguments.rounds):
        for name, case in arguments.cases.items():
            result = measure_case(arguments, name, arguments.cluster[case[0] - 1].resolve())
            plan = result['plan']
            print(f'{name:22} predicted {1e3 * plan["step_s"]:8.1f} ms, measured {1e3 * plan["measured_s"]:8.1f} ms: {plan["error_pct"]:+6.1f}%', flush=True)
            results.append(result)
            if arguments.results:
                with open(arguments.results, 'a') as file:
                    file.write(json.dumps(result) + '\n')
    reports = ROOT / 'bench/plan/reports'
    reports.mkdir(exist_ok=True)
    name = arguments.name or f'{datetime.date.today()}-{"gpu" if arguments.gpu else "cpu"}'
    (reports / f'{name}.md').write_text(report_of(arguments, results, load))
    (reports / f'{name}.log').write_text('\n'.join(json.dumps(result) for result in results) + '\n')
    print(f'report: {reports / name}.md')


if __name__ == '__main__':
    try:
        main()
    except RunFailed as failure:
        sys.exit(f'own_runs.py: {failure}')
