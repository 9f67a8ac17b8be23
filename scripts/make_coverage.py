#!/usr/bin/env python3
"""Writes docs/coverage.md: what users of five other systems do, the command here, and the tests that prove it.

  scripts/make_coverage.py > docs/coverage.md

The rows are those of tests/docs/capabilities.csv. A test that is not in the sources is an error.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / 'tests/docs/capabilities.csv'
SYSTEMS = {'P': 'gpt3-proxy', 'G': 'gpu-recipes', 'A': 'AWS', 'L': 'LitGPT', 'Z': 'Azure'}
TEST = re.compile(r'^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)', re.MULTILINE)

PAGE = '''# What users of five other systems do, and where it is here

Every row is something that users of [gpt3-proxy](from/gpt3-proxy.md), [gpu-recipes](from/gpu-recipes.md),
[AWS ParallelCluster](from/parallelcluster.md), [LitGPT](from/litgpt.md) or [Azure](from/azure.md) do, with the command
that does it here and the tests that prove it: {done} rows. {missing} are not there. Tests run on CPUs, but those that
need a GPU, Slurm, Helm, podman or a browser; they are skipped by name where it is missing. No row claims a cluster.

`scripts/make_coverage.py` writes this page and refuses a test that does not exist.
'''


def tests_of_sources():
    """File of each test, by Suite.Name."""
    found = {}
    for path in sorted((ROOT / 'tests').rglob('*_test.cpp')):
        for suite, name in TEST.findall(path.read_text(encoding='utf-8')):
            found[f'{suite}.{name}'] = path.relative_to(ROOT)
    return found


def proof(name, sources):
    path = sources.get(name.split('/')[-1])
    if path is None:
        sys.exit(f'{TABLE.relative_to(ROOT)}: {name}: there is no such test')
    return f'[{name.split("/")[-1]}](../{path})'


def rows():
    lines = TABLE.read_text(encoding='utf-8').splitlines()
    titles = lines[0].split('|')
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split('|')
        if len(cells) != len(titles):
            sys.exit(f'{TABLE.relative_to(ROOT)}:{number}: expected {len(titles)} columns')
        yield dict(zip(titles, cells))


def main():
    sources = tests_of_sources()
    areas, done, missing = {}, 0, 0
    for row in rows():
        systems = ', '.join(SYSTEMS[letter] for letter in row['systems'].split())
        if row['tests']:
            proofs = '<br>'.join(proof(name, sources) for name in row['tests'].split())
            cells, done = [row['capability'], systems, row['command'], proofs], done + 1
        else:
            cells, missing = [row['capability'], systems], missing + 1
        areas.setdefault(row['area'], []).append(cells)
    page = PAGE.format(done=done, missing=missing)
    for area, cells in areas.items():
        titles = ['what', 'users of', 'command', 'proof'][:len(cells[0])]
        page += f'\n## {area}\n\n' + '\n'.join('| ' + ' | '.join(row) + ' |' for row in [titles, ['---'] * len(titles), *cells]) + '\n'
    print(page, end='')


if __name__ == '__main__':
    main()
