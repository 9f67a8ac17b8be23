#!/usr/bin/env python3
"""Trains the same models with two builds of trireme on the same GPU, in turns: the median step of each, their ratio, and whether the
losses are equal to the last bit. For changes that must alter neither numbers nor speed.

  bench/gpu/versions.py --before OLD/trireme --after build/trireme --cases 126m:1:8,1.3b:8:4 --rounds 2 --steps 6

A case is MODEL:MICRO_BATCH:ACCUMULATION of the models in bench/gpu/recipes.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

RECIPES = Path(__file__).resolve().parent / 'recipes'
PRECISIONS = {'bf16': [], 'fp8': ['model.fp8=true', 'model.fp8_hybrid=true']}
WARM_UP = 5  # steps that summary.json leaves out


def run(program, case, precision, steps):
    """Median seconds of a step, and the last loss."""
    model, micro_batch, accumulation = case.split(':')
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as folder:
        subprocess.run([program, 'train', RECIPES / f'{model}.yaml', f'model.micro_batch_size={micro_batch}',
                        f'model.global_batch_size={int(micro_batch) * int(accumulation)}', f'trainer.max_steps={steps + WARM_UP}',
                        f'exp_manager.explicit_log_dir={folder}', *PRECISIONS[precision]],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        summary = json.loads((Path(folder) / 'summary.json').read_text())
    return summary['step_seconds']['median'], summary['final_loss']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--before', required=True, type=Path, help='the older program')
    parser.add_argument('--after', required=True, type=Path, help='the newer program')
    parser.add_argument('--cases', default='126m:1:8,126m:4:4,126m:16:4,1.3b:8:4,5b:4:4,175b-2layers:2:8')
    parser.add_argument('--precisions', default='bf16,fp8')
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--steps', type=int, default=6, help='timed steps of a run')
    arguments = parser.parse_args()
    print('| case | precision | before, ms | after, ms | before / after | losses |\n|---|---|---|---|---|---|', flush=True)
    for case in arguments.cases.split(','):
        for precision in arguments.precisions.split(','):
            times, losses = {}, {}
            for _ in range(arguments.rounds):
                for program in (arguments.before, arguments.after):
                    seconds, losses[program] = run(program, case, precision, arguments.steps)
                    times.setdefault(program, []).append(seconds * 1e3)
            before, after = (statistics.median(times[program]) for program in (arguments.before, arguments.after))
            equal = 'equal' if losses[arguments.before] == losses[arguments.after] else 'DIFFER'
            print(f'| {case} | {precision} | {before:.2f} | {after:.2f} | {before / after:.4f} | {equal} |', flush=True)


if __name__ == '__main__':
    main()
