#!/usr/bin/env python3
"""How long a run waits for its samples, and how much memory they take: gpt3/126m with its 600,000 steps on mock data and on a small real dataset,
and a dataset of a thousand million documents.

  bench/data/open_dataset.py --sample SAMPLE.jsonl.zst --tokenizer VOCAB.json [--documents 1000000000] [--folder FOLDER] [--large PREFIX] [--report]

The large dataset takes 20 bytes a document in FOLDER (four tokens each; its .bin is a file without blocks), its index 4 more; everything is
removed in the end, but PREFIX.bin, PREFIX.idx and the index in PREFIX-index, which are made if they are not there (--only-write: nothing else is
done; the report of a later call then has the time that the index took). The time of a case is that of a whole process: `trireme data index` makes
the index, `trireme data sample` opens it as training does and prints a sample; the large one also with its files dropped from the system's cache. Anonymous memory is what the process holds itself; mapped files are the system's cache of the index, which it takes back when others need it."""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, machine, without_machine_names  # noqa: E402


def watch(process, peaks):
    """The most anonymous and mapped memory that was seen, in MiB."""
    while process.poll() is None:
        try:
            lines = Path(f'/proc/{process.pid}/status').read_text().splitlines()
        except OSError:
            return
        for line in lines:
            if line.startswith(('RssAnon:', 'RssFile:')):
                name = line[:7]
                peaks[name] = max(peaks.get(name, 0), int(line.split()[1]) / 1024)
        time.sleep(0.01)


def run(arguments, rows, log, name, *command):
    peaks = {}
    started = time.monotonic()
    process = subprocess.Popen([arguments.binary, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = threading.Thread(target=watch, args=(process, peaks))
    watcher.start()
    output, _ = process.communicate()
    seconds = time.monotonic() - started
    watcher.join()
    if process.returncode != 0:
        sys.exit(f'{name}: {output}')
    user = os.times().children_user
    rows.append((name, seconds, peaks.get('RssAnon', 0), peaks.get('RssFile', 0)))
    log.append(f'trireme {" ".join(command)}\n{seconds:.3f} s, {peaks}, {user:.1f} s of user time so far\n{output[:2000]}')
    print(f'{name}: {seconds:.2f} s, {peaks.get("RssAnon", 0):.0f} MiB anonymous, {peaks.get("RssFile", 0):.0f} MiB mapped', flush=True)


def write_large(prefix, documents, tokens):
    """Megatron's two files: `tokens` tokens in every document, all of them 0."""
    step = 1 << 24
    with open(f'{prefix}.idx', 'wb') as file:
        file.write(b'MMIDIDX\0\0' + (1).to_bytes(8, 'little') + b'\x08' + documents.to_bytes(8, 'little') + (documents + 1).to_bytes(8, 'little'))
        for begin in range(0, documents, step):
            numpy.full(min(step, documents - begin), tokens, dtype='<i4').tofile(file)
        for factor, count in ((2 * tokens, documents), (1, documents + 1)):
            for begin in range(0, count, step):
                (numpy.arange(begin, min(begin + step, count), dtype='<i8') * factor).tofile(file)
    with open(f'{prefix}.bin', 'wb') as file:
        file.truncate(2 * tokens * documents)


def large_recipe(prefix):
    return ['gpt3/126m', 'trainer.max_steps=1000', 'trainer.val_check_interval=null', 'model.data.data_impl=mmap', f'model.data.data_prefix=[{prefix}]',
            'model.data.splits_string="1,0,0"', f'model.data.index_mapping_dir={prefix}-index']


def make_large(arguments, prefix, rows, log):
    """The large dataset and its index, unless they are there; a row for the index either way."""
    if not Path(f'{prefix}.bin').exists():
        write_large(prefix, arguments.documents, 4)
    kept = Path(f'{prefix}-index.json')
    if not kept.exists():
        run(arguments, rows, log, f'{arguments.documents:,} documents: index made', 'data', 'index', *large_recipe(prefix))
        kept.write_text(json.dumps([rows[-1], log[-1]]))
    else:
        row, lines = json.loads(kept.read_text())
        rows.append(row)
        log.append(f'in an earlier call:\n{lines}')


def drop_from_cache(files):
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--binary', default=str(ROOT / 'build/trireme'))
    parser.add_argument('--sample', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--documents', type=int, default=1_000_000_000, help='0 leaves the large dataset out')
    parser.add_argument('--folder', help='for the files; default: a temporary one')
    parser.add_argument('--large', metavar='PREFIX', help='the large dataset, made once and kept')
    parser.add_argument('--only-write', action='store_true', help='make the large dataset and no more')
    parser.add_argument('--report', action='store_true', help='write bench/data/reports/DATE-open.md and .log')
    arguments = parser.parse_args()
    rows, log, load = [], [], [os.getloadavg()]
    if arguments.only_write:
        return make_large(arguments, arguments.large, rows, log)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        steps = 'trainer.max_steps=600000'
        run(arguments, rows, log, 'gpt3/126m, 600,000 steps, mock data', 'data', 'sample', 'gpt3/126m', steps)
        small = f'{folder}/small'
        subprocess.run([arguments.binary, 'data', 'prepare', arguments.sample, '--tokenizer', arguments.tokenizer, '--append-eod', '--output', small],
                       check=True, capture_output=True)
        real = ['gpt3/126m', steps, 'model.data.data_impl=mmap', f'model.data.data_prefix=[{small}_text_document]', 'model.data.splits_string="90,10,0"']
        run(arguments, rows, log, 'the same, 5.6 million tokens of real data: index made', 'data', 'index', *real)
        run(arguments, rows, log, 'the same, opened once more', 'data', 'sample', *real)
        if arguments.documents > 0:
            large = arguments.large or f'{folder}/large'
            make_large(arguments, large, rows, log)
            name = f'{arguments.documents:,} documents'
            run(arguments, rows, log, f'{name}: opened', 'data', 'sample', *large_recipe(large))
            run(arguments, rows, log, f'{name}: opened once more', 'data', 'sample', *large_recipe(large))
            drop_from_cache([f'{large}.bin', f'{large}.idx', *Path(f'{large}-index').iterdir()])
            run(arguments, rows, log, f'{name}: opened from the disk, nothing in the cache', 'data', 'sample', *large_recipe(large))
            run(arguments, rows, log, f'{name}: opened once more', 'data', 'sample', *large_recipe(large))
    load.append(os.getloadavg())
    table = '| case | seconds | anonymous MiB | mapped MiB |\n|---|---|---|---|\n' + '\n'.join(
        f'| {name} | {seconds:.2f} | {anonymous:.0f} | {mapped:.0f} |' for name, seconds, anonymous, mapped in rows)
    command = 'bench/data/open_dataset.py ' + ' '.join(sys.argv[1:])
    text = without_machine_names(f'''# Opening datasets, {datetime.date.today()}

{table}

Whole processes, once each. Anonymous: held by the process; mapped: the system's cache of the index files, given back when others need it.

- machine: {machine()}
- commit {commit(ROOT)}
- load average before {load[0][0]:.1f}, after {load[1][0]:.1f}
- command: `{command}`
''')
    print(text)
    if arguments.report:
        name = ROOT / f'bench/data/reports/{datetime.date.today()}-open'
        name.with_suffix('.md').write_text(text)
        name.with_suffix('.log').write_text(without_machine_names('\n'.join(log)))


if __name__ == '__main__':
    main()
