#!/usr/bin/env python3
"""Trains the same models with trireme and with PyTorch on the same cores, in turns, and compares their tokens per second.

  bench/cpu/compare.py                                   all cases, three rounds; writes a report
  bench/cpu/compare.py --quick                           the small case once, in a few minutes; writes none
  bench/cpu/compare.py --cases 10m --precisions fp32 --cores 0-3
  bench/cpu/compare.py --wait 30                         waits up to half an hour for a quiet machine

A report is made on a quiet machine only. The rules of bench/README.md that a run breaks are named in its report.

The Python that runs the peer needs torch; this script needs only the standard library.
"""
import argparse
import datetime
import math
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

import quiet
import report
from contestants import CASES, INSTRUCTIONS, PEER_MODES, PRECISIONS, Limits, Peer, RunFailed, Trireme

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTION_TEXTS = {'best': 'all that the machine has'} | {
    name: f'both programs limited: TRIREME_CPU_ISA={ours}, ONEDNN_MAX_CPU_ISA={peer}'
    for name, (ours, peer) in INSTRUCTIONS.items() if ours}
REPORTS = Path(__file__).resolve().parent / 'reports'


def choice_list(allowed):
    """An argparse type: a comma-separated list of allowed words."""
    def parse(text):
        words = text.split(',')
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f'{word!r} is not one of {", ".join(allowed)}')
        return words
    return parse


def core_list(text):
    """An argparse type: 0-3,8 -> {0, 1, 2, 3, 8}."""
    cores = set()
    for part in text.split(','):
        found = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
        if not found:
            raise argparse.ArgumentTypeError(f'{part!r} is not a core or a range such as 0-3')
        first = int(found.group(1))
        cores.update(range(first, int(found.group(2) or first) + 1))
    missing = cores - os.sched_getaffinity(0)
    if missing:
        raise argparse.ArgumentTypeError(f'core {min(missing)} is not available to this process')
    return cores


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError('must be at least 1')
    return value


def arguments_of(command_line):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='10m, fp32 and bf16, one round of 3 steps, no report')
    parser.add_argument('--cases', type=choice_list(CASES), help=f'default {",".join(CASES)}')
    parser.add_argument('--precisions', type=choice_list(PRECISIONS), default=list(PRECISIONS), help='default fp32,bf16')
    parser.add_argument('--modes', type=choice_list(PEER_MODES), default=PEER_MODES, help='of the peer; default eager,default')
    parser.add_argument('--instructions', choices=INSTRUCTIONS, default='best',
                        help='what both programs may use at most; default best, all that the machine has')
    parser.add_argument('--rounds', type=positive, help='runs of each program; default 3')
    parser.add_argument('--steps', type=positive, help='timed steps of a run; default 5')
    parser.add_argument('--cores', type=core_list, default=os.sched_getaffinity(0), help='e.g. 0-3; default all')
    parser.add_argument('--timeout', type=positive, default=1800, help='seconds for one run; default 1800')
    parser.add_argument('--minutes', type=positive, help='start no run after so many; what was measured until then is reported')
    parser.add_argument('--wait', type=positive, default=1, help='minutes to wait for a quiet machine; default 1')
    parser.add_argument('--busy', action='store_true', help='measure on a busy machine too; the report says that it cannot be cited')
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme', help='default build/trireme')
    parser.add_argument('--peer', type=Path, default=ROOT / 'bench/peers/torch_gpt.py', help='the PyTorch program')
    parser.add_argument('--python', default=sys.executable, help='the Python that runs the peer')
    parser.add_argument('--commit', help='of the sources, where they are no git checkout')
    parser.add_argument('--name', help='of the report; default date and commit')
    parser.add_argument('--reports', type=Path, default=REPORTS, help='where the report goes')
    arguments = parser.parse_args(command_line)
    arguments.cases = arguments.cases or (['10m'] if arguments.quick else list(CASES))
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    arguments.steps = arguments.steps or (3 if arguments.quick else 5)
    for path in (arguments.trireme, arguments.peer):
        if not path.is_file():
            parser.error(f'{path} is not there; see bench/README.md')
    return arguments


def measure(arguments, contestants, log):
    """Returns ((case, precision) -> name -> rates, failures, per run the share of the cores' time that other programs used).

    Rounds are the outer loop, and every other round runs backwards: a machine that slows down, or a neighbour that comes and goes,
    affects all programs alike."""
    limits = Limits(arguments.steps, len(arguments.cores), arguments.timeout)
    results = {(case, precision): {contestant.name: [] for contestant in contestants}
               for case in arguments.cases for precision in arguments.precisions}
    failures, shares = [], []
    end = time.monotonic() + 60 * (arguments.minutes or math.inf)
    for round_number in range(1, arguments.rounds + 1):
        for case, precision in results:
            for contestant in contestants[::1 if round_number % 2 else -1]:
                label = f'round {round_number} {case} {precision} {contestant.name}'
                if time.monotonic() > end:
                    failures.append(f'{label}: not started, {arguments.minutes} minutes were over')
                    continue
                log.write(f'\n== {label}, load average {quiet.load_average():.1f}\n')
                neighbours = quiet.Neighbours(arguments.cores)
                try:
                    rate = contestant.tokens_per_second(case, precision, limits, log)
                    results[case, precision][contestant.name].append(rate)
                    print(f'{label}: {rate:.0f} tokens/s', file=sys.stderr, flush=True)
                except RunFailed as failure:
                    failures.append(f'{label}: {failure}')
                    print(f'{label} failed: {failure}', file=sys.stderr, flush=True)
                shares.append(neighbours.share())
                log.write(f'other programs used {shares[-1]:.1%} of the cores\n')
    return results, failures, shares


def op_tables(arguments, ours, log, failures):
    """Markdown: where the time of our steps goes, one table per case and precision."""
    limits = Limits(arguments.steps, len(arguments.cores), arguments.timeout)
    text = ''
    for case in arguments.cases:
        for precision in arguments.precisions:
            log.write(f'\n== ops of {case} {precision}\n')
            try:
                table = ours.op_times(case, precision, limits, log)
                text += f'\n{case} {precision}, where the time of a step goes:\n\n```\n{table}\n```\n'
            except RunFailed as failure:
                failures.append(f'ops of {case} {precision}: {failure}')
    return text


def broken_rules(arguments, commit, load_before, failures, shares):
    """What keeps the figures from being cited, by the rules of bench/README.md."""
    rules = [(arguments.rounds < 3, f'{arguments.rounds} rounds; at least 3 are needed'),
             ('with changes' in commit, 'sources with changes'),
             (load_before > quiet.QUIET_LOAD, f'load average {load_before:.1f} before; at most {quiet.QUIET_LOAD} is quiet'),
             (max(shares, default=0) > quiet.QUIET_SHARE,
              f'other programs used up to {max(shares, default=0):.0%} of the cores during a run; at most {quiet.QUIET_SHARE:.0%} is quiet'),
             (bool(failures), f'{len(failures)} runs failed')]
    return [text for broken, text in rules if broken]


def main(command_line):
    arguments = arguments_of(command_line)
    os.sched_setaffinity(0, arguments.cores)  # the programs inherit it
    contestants = [Trireme(arguments.trireme, arguments.instructions)]
    contestants += [Peer(arguments.python, arguments.peer, mode, arguments.instructions) for mode in arguments.modes]
    if not arguments.quick and not arguments.busy and not quiet.wait_until_quiet(arguments.wait):
        print(f'compare.py: the load average is {quiet.load_average():.1f}, and a report needs at most {quiet.QUIET_LOAD} before the '
              'first run; wait longer with --wait MINUTES, or measure anyway with --busy', file=sys.stderr)
        return 2
    commit, load_before = arguments.commit or report.commit(ROOT), quiet.load_average()
    with tempfile.TemporaryFile('w+', errors='replace') as log:
        results, failures, shares = measure(arguments, contestants, log)
        tables = '' if arguments.quick else op_tables(arguments, contestants[0], log, failures)
        log.seek(0)
        log_text = report.without_machine_names(log.read())
    table = report.table(results, [contestant.name for contestant in contestants])
    print(table)
    if arguments.quick:
        if failures:
            print(log_text, file=sys.stderr)
        return 1 if failures else 0

    now = datetime.datetime.now(datetime.timezone.utc)
    name = arguments.name or f'{now:%Y-%m-%d}-{commit[:10]}'
    broken = broken_rules(arguments, commit, load_before, failures, shares)
    facts = {
        'command': f'`bench/cpu/compare.py {shlex.join(command_line)}`',
        'commit': commit,
        'date': f'{now:%Y-%m-%d %H:%M} UTC',
        'machine': report.machine(),
        'may be cited': '; '.join(['no', *broken]) if broken else 'yes',
        'load average before': f'{load_before:.1f}, after: {quiet.load_average():.1f}',
        'other programs': f'used at most {max(shares, default=0):.1%} of the cores during a run',
        'runs': f'{arguments.rounds} rounds, programs in turns, {arguments.steps} timed steps each, {len(arguments.cores)} threads',
        'peer': '; '.join([*(re.findall(r'^PEER (torch \S+)', log_text, re.MULTILINE) or ['no output'])[:1], *Peer.limited(arguments.instructions)]),
        'instructions': INSTRUCTION_TEXTS[arguments.instructions],
        'rate of a run': 'ours from the mean of the timed steps, as summary.json has it; the peer\'s from their median',
    }
    arguments.reports.mkdir(parents=True, exist_ok=True)
    (arguments.reports / f'{name}.log').write_text(log_text.lstrip())
    (arguments.reports / f'{name}.md').write_text(report.markdown(table, facts, failures, f'{name}.log') + tables)
    print(arguments.reports / f'{name}.md', file=sys.stderr)
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
