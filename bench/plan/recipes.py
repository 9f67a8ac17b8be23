#!/usr/bin/env python3
"""Plans every shipped recipe, and prints docs/plan-recipes.md:

  bench/plan/recipes.py > docs/plan-recipes.md
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The clusters that recipes are made for, by the beginning of their names; the first that fits counts.
CLUSTERS = [
    ('gpt3/175b-256gpus-fp8', 'a3-mega'),
    ('gpt3/530b', 'azure-nd-a100-v4'),
    ('gpt3-22.06/', 'azure-nd-a100-v4'),
    ('proxy/h200', 'dgx-h200'),
    ('', 'dgx-h100'),
]

# Steps that others measured with the recipe's model, layout and batch: recipe, nodes (None: the recipe's), cluster, their
# software, seconds, who.
AZURE = 'Azure NDm A100 v4'
MEASURED = [
    ('gpt3/175b-256gpus-fp8', 32, 'a3-mega', 'nemo-24', 25.4, 'its authors'),
    ('gpt3/175b_mlperf', 64, 'dgx-h100', 'mlperf-v4', 9.4963, 'MLPerf Training v4.1, eos_n64'),
    ('gpt3/530b', 105, 'azure-nd-a100-v4', 'nemo-22', 88.2, AZURE),
    ('gpt3-22.06/5b', 20, 'azure-nd-a100-v4', 'nemo-22', 4.3, AZURE),
    ('gpt3-22.06/20b', 36, 'azure-nd-a100-v4', 'nemo-22', 9.3, AZURE),
    ('gpt3-22.06/40b', 32, 'azure-nd-a100-v4', 'nemo-22', 18.8, AZURE),
    ('gpt3-22.06/175b', 32, 'azure-nd-a100-v4', 'nemo-22', 79.9, AZURE),
    ('gpt3-22.06/175b', 96, 'azure-nd-a100-v4', 'nemo-22', 29.1, AZURE),
    ('gpt3-22.06/175b', 128, 'azure-nd-a100-v4', 'nemo-22', 22.8, AZURE),
    ('proxy/h200x1', None, 'dgx-h200', 'trireme', 1.33716, 'this program, `bench/gpu`'),
]

PAGE = '''# The shipped recipes, planned

What [`trireme plan`](plan.md) predicts for every shipped recipe on the cluster that it is made for. This page is the
output of `bench/plan/recipes.py`; a test compares it with what the program says.

{recipes}

- Memory is that of the rank that takes most, of all that the GPU has.
- TFLOP/s are per GPU, MFU is of the peak in bf16, or in fp8 where the recipe has FP8 GEMMs.
- The software is this program; its runs on a cluster have not been measured.
- The cluster is `dgx-h100` where the recipe is not made for another.
- `demo` is made for a CPU and has no row.

## Beside measured steps

Where others published the step time of a recipe's model, layout and batch, or this program was measured: `predicted`
is with the profile of the software that ran, `as trireme` with this program's.

{measured}

- The rows of Azure, MLPerf and this program are among those that the constants were [fitted](../bench/plan/README.md)
  to.
- Azure published neither layout nor batch; both are inferred, and so is the recompute that the fit assumed, which is
  full. The recipes recompute less.
'''


def cluster_of(recipe):
    return next(cluster for beginning, cluster in CLUSTERS if recipe.startswith(beginning))


class Program:
    def __init__(self, path):
        # Recipes in a user's own folder are not shipped.
        self.path = path
        self.environment = {key: value for key, value in os.environ.items() if key != 'TRIREME_RECIPES'}

    def json(self, *arguments):
        try:
            done = subprocess.run([self.path, *arguments, '--json'], env=self.environment, stdout=subprocess.PIPE, check=False)
        except OSError as error:
            sys.exit(f'{self.path}: {error.strerror}; build it, or name another with --trireme')
        if done.returncode != 0:
            sys.exit(f'{self.path} {" ".join(arguments)} ended with status {done.returncode}')
        return json.loads(done.stdout)


def table(titles, rows):
    """Titles that begin with ">" are of columns of numbers."""
    rule = '|' + '|'.join('---:' if title.startswith('>') else '---' for title in titles) + '|'
    lines = ['| ' + ' | '.join(title.lstrip('>') for title in titles) + ' |', rule]
    return '\n'.join(lines + ['| ' + ' | '.join(row) + ' |' for row in rows])


def seconds(value):
    return f'{value:.1f} s' if value >= 10 else f'{value:.2f} s' if value >= 1 else f'{1000 * value:.0f} ms'


def gib(value):
    return f'{value / 2**30:.1f} GiB'


def recipe_row(program, recipe):
    cluster = cluster_of(recipe)
    plan = program.json('plan', recipe, '--cluster', cluster)
    memory = plan['memory']
    fits = 'yes' if memory['fits'] else f'no, {gib(-memory["left"])} more'
    return [f'`{recipe}`', cluster, str(plan['gpus']), fits, gib(memory['total']), seconds(plan['step_s']),
            f'{plan["tflops_per_gpu"]:.0f}', f'{100 * plan["mfu"]:.1f}%']


def measured_row(program, recipe, nodes, cluster, software, measured, who):
    where = ['--cluster', cluster] + (['--nodes', str(nodes)] if nodes else [])
    plan = {profile: program.json('plan', recipe, *where, '--profile', profile)
            for profile in {software, 'trireme'}}
    step = {profile: plan[profile]['step_s'] for profile in plan}
    error = 100 * (step[software] / measured - 1)
    return [f'`{recipe}`', str(plan[software]['gpus']), cluster, who, seconds(measured), software, seconds(step[software]), f'{error:+.1f}%',
            seconds(step['trireme'])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trireme', default=os.path.join(ROOT, 'build', 'trireme'), help='the program')
    program = Program(parser.parse_args().trireme)
    recipes = [recipe['name'] for recipe in program.json('recipes') if recipe['precision'] != 'f32']
    titles = ['recipe', 'cluster', '>GPUs', 'fits', '>memory', '>step', '>TFLOP/s', '>MFU']
    measured_titles = ['recipe', '>GPUs', 'cluster', 'measured by', '>measured', 'software', '>predicted', '>error', '>as trireme']
    print(PAGE.format(recipes=table(titles, [recipe_row(program, recipe) for recipe in recipes]),
                      measured=table(measured_titles, [measured_row(program, *row) for row in MEASURED])), end='')


if __name__ == '__main__':
    main()
