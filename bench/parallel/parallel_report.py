"""The table of measure.py, and the report around it."""
import datetime
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPORTS = HERE / 'reports'
sys.path.insert(0, str(HERE.parent / 'cpu'))
from report import commit, machine, without_machine_names  # noqa: E402


def rates_of(results, case):
    return [result['rate'] for result in results if result['case'] == case and 'rate' in result]


def median_of(results, case):
    rates = rates_of(results, case)
    return statistics.median(rates) if rates else None


def row(results, case, what):
    """One line of the table; dashes where nothing was measured."""
    rate, one, pair = (median_of(results, name) for name in (case, 'one', 'pair'))
    traces = [result['trace'] for result in results if result['case'] == case and 'trace' in result]
    rates = rates_of(results, case)
    cells = [f'`{case}`', what, f'{rate:.0f} ({min(rates):.0f}-{max(rates):.0f})', f'{rate / one:.2f}' if one else '-', f'{100 * rate / pair:.0f}%' if pair else '-']
    if not traces:
        return cells + ['-', '-', '-']
    last = traces[-1]
    hidden = f'{100 * last["hidden"] / last["communication"]:.0f}%' if last['communication'] else '-'
    return cells + [f'{last["sent"] / 2**20:.1f} MiB', f'{100 * last["communication"] / last["step"]:.0f}%', hidden]


def write(name, results, cases, facts):
    header = ['case', 'what', 'tokens/s', 'against one rank', 'of two alone', 'sent a step and rank', 'communication', 'of it hidden']
    rows = [row(results, case, what) for case, (what, _, _) in cases.items() if median_of(results, case)]
    table = [header, ['---'] * len(header), *rows]
    counts = [len(rates_of(results, case)) for case in cases if rates_of(results, case)]
    rounds = f'{min(counts)} to {max(counts)}' if min(counts) < max(counts) else f'{counts[0]}'
    commands = {result['case']: result['command'] for result in results if 'command' in result}
    lines = ['# The cost of each kind of parallelism', '',
             'Two ranks, each with one thread on a core of its own, against one rank on one core: the same model, the same global batch, f32, over MPI in shared memory.', '',
             *('| ' + ' | '.join(cells) + ' |' for cells in table), '',
             '- against one rank: 2.00 would be a second core without any cost',
             '- of two alone: against two runs of one rank at the same time, which share nothing but the machine; what is missing to 100% is the cost of the layout',
             '- communication: time in which a call between ranks was under way, as a share of a step, waiting for the other rank included; hidden: the part of it in which this rank computed',
             f'- {rounds} runs of {facts["steps"]} steps a case, the first half of which is not timed: median (lowest-highest), ratios are of medians. Bytes and shares are of one more run with --trace-ops',
             '- command: `bench/parallel/measure.py --results FILE`, once a round',
             f'- commit: {commit(facts["root"])}', f'- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC',
             f'- machine: {machine()}', f'- load average before: {facts["load"]:.1f}; it must be near 0 before a run that is to be cited', '',
             'Commands:', '', '```', *(without_machine_names(command) for command in commands.values()), '```', '']
    path = REPORTS / f'{name}.md'
    path.parent.mkdir(exist_ok=True)
    path.write_text('\n'.join(lines))
    return path
