"""The table of compare.py, and the report around it."""
import os
import re
import socket
import statistics
import subprocess
from pathlib import Path

FLAGS = ['avx2', 'avx512f', 'avx512_bf16', 'amx_tile', 'amx_bf16']


def without_machine_names(text):
    """Reports are public: absolute folders and the host's name say nothing about a result."""
    text = re.sub(r'(?<![\w.])/[\w.+-]+(?:/[\w.+-]+)*/', '', text)
    host = socket.gethostname()
    return text if host == 'localhost' else re.sub(rf'\b{re.escape(host)}\b', 'HOST', text)


def machine():
    """CPU model, cores of this process, the instruction sets that matter to a GEMM, memory."""
    information = Path('/proc/cpuinfo').read_text()
    model = re.search(r'^model name\s*:\s*(.*)$', information, re.MULTILINE)
    flags = set(re.search(r'^flags\s*:\s*(.*)$', information, re.MULTILINE).group(1).split())
    sets = ', '.join(flag if flag in flags else f'no {flag}' for flag in FLAGS)
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    return (f'{model.group(1) if model else "unknown CPU"}; {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores; {sets}; '
            f'{memory:.0f} GiB')


def commit(root):
    """The commit of the sources, and whether the working tree differs from it."""
    def git(*arguments):
        return subprocess.run(['git', '-C', root, *arguments], capture_output=True, text=True).stdout.strip()
    changed = git('status', '--porcelain', '--', 'src', 'cmake', 'CMakeLists.txt', 'bench/cpu/recipes')
    return git('rev-parse', 'HEAD') + (' with changes' if changed else '')


def median_of(rates):
    return statistics.median(rates) if rates else None


def ratio_to_best(rates_by_name):
    """Ours over the fastest peer; None when either side has no result. The first name is ours."""
    ours, *peers = [median_of(rates) for rates in rates_by_name.values()]
    peers = [rate for rate in peers if rate is not None]
    return ours / max(peers) if ours is not None and peers else None


def table(results, names):
    """results: (case, precision) -> name -> list of tokens per second. Returns Markdown with aligned columns."""
    def cell(rates):
        if not rates:
            return 'failed'
        return f'{median_of(rates):.0f}' + (f' ({min(rates):.0f}-{max(rates):.0f})' if len(rates) > 1 else '')
    rows = [['case', 'precision', *names, 'ours / best peer'], None]
    for (case, precision), rates_by_name in results.items():
        ratio = ratio_to_best(rates_by_name)
        rows.append([case, precision, *(cell(rates_by_name[name]) for name in names), '-' if ratio is None else f'{ratio:.2f}'])
    widths = [max(len(row[i]) for row in rows if row) for i in range(len(rows[0]))]
    rows[1] = ['-' * width for width in widths]
    return '\n'.join('| ' + ' | '.join(text.ljust(width) for text, width in zip(row, widths)) + ' |' for row in rows)


def markdown(table_text, facts, failures, log_name):
    """The whole report; facts: label -> value, as bench/README.md requires them."""
    lines = ['# CPU training against PyTorch', '', 'Tokens per second: median of the rounds (lowest-highest).', '', table_text, '']
    lines += [f'- {label}: {value}' for label, value in facts.items()]
    lines += [f'- failed: {failure}' for failure in failures]
    lines += [f'- raw output of every run: [{log_name}]({log_name})', '']
    return without_machine_names('\n'.join(lines))
