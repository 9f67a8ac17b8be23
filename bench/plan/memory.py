#!/usr/bin/env python3
"""Memory of runs as `trireme plan` predicts it, against what the system says of the process.

  bench/plan/memory.py --cluster one.yaml two.yaml       # CPUs: resident memory of the process; files of `trireme plan --measure`
  bench/plan/memory.py --cluster dgx-h200 --gpu          # a GPU: the driver's figure for the process

The prediction is made before the run, from the recipe alone: the planned memory of the rank that takes most, and a constant for the
program, the driver and their libraries. A report goes to plan/reports/. Needs only the standard library.
"""
import argparse
import datetime
import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from own_runs import ROOT, RunFailed, commit, machine, started, without_machine_names

BOUND = 3  # percent

MODEL = ['model.encoder_seq_length=512', 'model.max_position_embeddings=512', 'model.num_layers=24', 'model.hidden_size=1024',
         'model.ffn_hidden_size=4096', 'model.num_attention_heads=16', 'model.vocab_size=50304']
BATCH = ['model.micro_batch_size=2', 'model.global_batch_size=4']
CPU_RECIPE = 'bench/cpu/recipes/124m-1k.yaml'
F32, BF16 = ['trainer.precision=32'], ['trainer.precision=bf16']

# name -> (ranks, recipe, overrides)
CPU_CASES = {
    '355m f32': (1, CPU_RECIPE, MODEL + BATCH + F32),
    '355m bf16': (1, CPU_RECIPE, MODEL + BATCH + BF16),
    '355m bf16, full recompute': (1, CPU_RECIPE, MODEL + BATCH + BF16 + [
        '+model.activations_checkpoint_granularity=full', '+model.activations_checkpoint_method=uniform',
        '+model.activations_checkpoint_num_layers=1']),
    '355m bf16, TP 2': (2, CPU_RECIPE, MODEL + BATCH + BF16 + ['+model.tensor_model_parallel_size=2']),
    '355m f32, DP 2, sharded': (2, CPU_RECIPE, MODEL + BATCH + F32 + ['model.optim.name=distributed_fused_adam']),
}
GPU_CASES = {f'{model} {"fp8" if fp8 else "bf16"}': (1, f'bench/gpu/recipes/{model}.yaml', [
    f'model.micro_batch_size={micro_batch}', f'model.global_batch_size={micro_batch * steps}', f'model.fp8={"true" if fp8 else "false"}'])
    for model, micro_batch, steps in [('126m', 16, 4), ('1.3b', 8, 4), ('5b', 4, 4), ('175b-2layers', 2, 8)] for fp8 in (False, True)}


def predicted(arguments, ranks, recipe, overrides, cluster):
    """The plan of `trireme plan`, which is made without a run."""
    command = [str(arguments.trireme), 'plan', recipe, '--json', '--cluster', cluster, f'trainer.devices={ranks}', *overrides]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)['memory'], shlex.join(command)


def driver_bytes():
    """The most that the driver says of one process; 0 where no process uses a GPU."""
    done = subprocess.run(['nvidia-smi', '--query-compute-apps=used_memory', '--format=csv,noheader,nounits'], capture_output=True, text=True)
    sizes = [int(line) for line in done.stdout.split() if line.isdigit()]
    return max(sizes, default=0) << 20


def measured(arguments, ranks, recipe, overrides):
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        command = started(ranks, [str(arguments.trireme), 'train', recipe, '--benchmark', f'trainer.max_steps={arguments.steps}',
                                  f'exp_manager.explicit_log_dir={folder}/run', *overrides])
        log = open(Path(folder) / 'output.txt', 'w')
        run, most = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT), 0
        while run.poll() is None:
            most = max(most, driver_bytes() if arguments.gpu else 0)
            time.sleep(0.2)
        if run.returncode != 0:
            lines = (Path(folder) / 'output.txt').read_text().strip().splitlines()
            raise RunFailed(next((line for line in lines if line.startswith('trireme:')), lines[-1]))
        summary = json.loads((Path(folder) / 'run/summary.json').read_text())
        return most if arguments.gpu else summary['memory_measured_bytes'], shlex.join(command).replace(folder, 'FOLDER')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cluster', nargs='+', required=True, help='the platform; on CPUs what was measured with 1, 2, ... ranks')
    parser.add_argument('--gpu', action='store_true')
    parser.add_argument('--steps', type=int, default=3)
    parser.add_argument('--name', help='of the report')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme')
    arguments = parser.parse_args()
    cases = GPU_CASES if arguments.gpu else {name: case for name, case in CPU_CASES.items() if case[0] <= len(arguments.cluster)}
    rows, log, commands = [], [], []
    for name, (ranks, recipe, overrides) in cases.items():
        cluster = arguments.cluster[ranks - 1]
        cluster = str(Path(cluster).resolve()) if Path(cluster).exists() else cluster
        plan, plan_command = predicted(arguments, ranks, recipe, overrides, cluster)
        took, run_command = measured(arguments, ranks, recipe, overrides)
        constant = next(value for key, value in plan['bytes'].items() if key.endswith(' and libraries'))
        error = 100 * (plan['total'] / took - 1)
        rows.append((name, plan['total'], constant, took, error))
        log.append(json.dumps({'case': name, 'plan': plan, 'measured': took}))
        commands += [plan_command, run_command]
        print(f'{name:28} predicted {plan["total"] / 2**30:6.2f} GiB, measured {took / 2**30:6.2f} GiB: {error:+5.1f}%', flush=True)
    what = "the driver's figure for the process" if arguments.gpu else 'peak resident memory of the rank that took most'
    errors = [abs(row[-1]) for row in rows]
    table = ['| case | predicted | of it the constant | measured | error |', '|---|---:|---:|---:|---:|']
    table += [f'| {name} | {total / 2**30:.2f} GiB | {constant / 2**20:.0f} MiB | {took / 2**30:.2f} GiB | {error:+.1f}% |'
              for name, total, constant, took, error in rows]
    lines = ['# Memory, predicted and measured', '', *table, '', f'- measured: {what}',
             f'- mean error {sum(errors) / len(errors):.1f}%, largest {max(errors):.1f}%; the bound is {BOUND}%',
             f'- command: `bench/plan/memory.py {shlex.join(sys.argv[1:])}`', f'- commit: {commit(ROOT)}',
             f'- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC', f'- machine: {machine()}',
             '- memory does not depend on what else the machine does', '', 'Commands:', '', '```', *commands, '```', '']
    reports = ROOT / 'bench/plan/reports'
    reports.mkdir(exist_ok=True)
    name = arguments.name or f'{datetime.date.today()}-memory{"-gpu" if arguments.gpu else ""}'
    (reports / f'{name}.md').write_text(without_machine_names('\n'.join(lines).replace(str(ROOT) + '/', '')))
    (reports / f'{name}.log').write_text(without_machine_names('\n'.join(log)) + '\n')
    print(f'report: {reports / name}.md')


if __name__ == '__main__':
    try:
        main()
    except RunFailed as failure:
        sys.exit(f'memory.py: {failure}')
