#!/usr/bin/env python3
"""Measures trireme data prepare from a .jsonl.zst to finished .bin and .idx, on one core and on two, beside tiktoken's tokenizer alone.

  bench/data/pipeline.py --sample SAMPLE.jsonl.zst --tokenizer VOCAB.json --ranks RANKS.tiktoken --python PYTHON [--repeat 40] [--rounds 3]
      [--megatron FOLDER] [--report]

SAMPLE is repeated into one zstd stream of level 3 (and once as it is, cold). PYTHON is an interpreter with tiktoken; it encodes the same texts on
one thread. Rates are megabytes (10^6) of jsonl; a rate per core is by CPU time (user + system), so that a busy machine does not change it much; the
scaling from one core to two is by wall time, and only a quiet machine gives it: what the machine itself gives, two runs of one core each at the same
time against one alone, is measured beside it. One core is one that the program may use; the system writes to the disk on any. FOLDER is a copy of Megatron-LM whose tools/preprocess_data_fast.py
(gigatoken inside; PYTHON, 3.12 or later, then also has torch, transformers, gigatoken and awkward) makes the same dataset of the same lines, unpacked; its time is the one that it prints, without
the start of Python."""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, machine, without_machine_names  # noqa: E402

TIKTOKEN = r'''
import json, sys, time, tiktoken, tiktoken.load
pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
encoding = tiktoken.Encoding('gpt2', pat_str=pattern, mergeable_ranks=tiktoken.load.load_tiktoken_bpe(sys.argv[1]), special_tokens={})
texts = [json.loads(line)['text'] for line in sys.stdin]
best = 1e9
for _ in range(3):
    start = time.thread_time()
    tokens = sum(len(encoding.encode_ordinary(text)) for text in texts)
    best = min(best, time.thread_time() - start)
print(json.dumps({'tokens': tokens, 'text_bytes': sum(len(text.encode()) for text in texts), 'cpu_seconds': best, 'version': tiktoken.__version__}))
'''


def start(arguments, source, cores, folder):
    """A run on these cores, begun: its process, its output and its command."""
    output = Path(folder) / f'out-{time.time_ns()}'
    command = ['taskset', '-c', ','.join(map(str, cores)), arguments.binary, 'data', 'prepare', source, '--tokenizer', arguments.tokenizer,
               '--append-eod', '--workers', str(len(cores)), '--output', str(output), '--json']
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), output, ' '.join(command)


def finish(run, folder):
    process, output, command = run
    text, problem = process.communicate()
    if process.returncode != 0:
        sys.exit(f'{command}: {problem}')
    for file in Path(folder).glob(output.name + '*'):
        file.unlink()
    return json.loads(text), command


def prepare(arguments, source, cores, folder):
    """One run on so many cores; its report."""
    return finish(start(arguments, source, range(cores), folder), folder)


def prepare_twice(arguments, source, folder):
    """Two runs at once on a core each; their reports."""
    runs = [start(arguments, source, [core], folder) for core in range(2)]
    return [finish(run, folder) for run in runs]


def stolen_seconds():
    """What the host gave to others while this machine wanted to run, over all cores."""
    return int(Path('/proc/stat').read_text().split(None, 9)[8]) / os.sysconf('SC_CLK_TCK')


MEGATRON_TOKENIZER = r'''
import json, pathlib, sys, tokenizers
folder = pathlib.Path(sys.argv[3])
folder.mkdir()
tokenizer = tokenizers.ByteLevelBPETokenizer(sys.argv[1], sys.argv[2])
tokenizer.add_special_tokens(['<|endoftext|>'])
tokenizer.save(str(folder / 'tokenizer.json'))
(folder / 'tokenizer_config.json').write_text(json.dumps({'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<|endoftext|>'}))
'''


def megatron(arguments, source, cores, folder):
    """The seconds that Megatron's fast script takes, by its own clock."""
    tokenizer = Path(folder) / 'megatron-tokenizer'
    if not tokenizer.exists():
        vocabulary = Path(arguments.tokenizer)
        subprocess.run([arguments.python, '-c', MEGATRON_TOKENIZER, vocabulary, vocabulary.with_name('merges.txt'), tokenizer], check=True,
                       capture_output=True)
    output = Path(folder) / f'megatron-{time.time_ns()}'
    command = ['taskset', '-c', ','.join(map(str, range(cores))), arguments.python, f'{arguments.megatron}/tools/preprocess_data_fast.py', '--input', source,
               '--tokenizer-type', 'HuggingFaceTokenizer', '--tokenizer-model', str(tokenizer), '--use-gigatoken', '--append-eod', '--output-prefix', str(output)]
    environment = {**os.environ, 'PYTHONPATH': arguments.megatron, 'RAYON_NUM_THREADS': str(cores)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for file in Path(folder).glob(output.name + '*'):
        file.unlink()
    return float(re.search(r'Elapsed time: ([0-9.]+) seconds', result.stdout).group(1)), ' '.join(command)


def rates(report):
    cpu = report['user_seconds'] + report['system_seconds']
    return {'MB/s of CPU': report['input_bytes'] / 1e6 / cpu, 'MB/s of wall': report['input_bytes'] / 1e6 / report['wall_seconds'],
            'wall': report['wall_seconds'], 'peak MiB': report['peak_memory_bytes'] / 2**20,
            **{f'{name} MB/s': stage.get('mb_per_cpu_second', 0) for name, stage in report['stages'].items()}}


def ratios_of(above, below):
    ratios = [a / b for a, b in zip(above, below)]
    return f'{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--binary', default=str(ROOT / 'build/trireme'))
    parser.add_argument('--sample', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--ranks', required=True, help='the same vocabulary as a .tiktoken file, for the peer')
    parser.add_argument('--python', default='python3')
    parser.add_argument('--repeat', type=int, default=40)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--megatron', help='a copy of Megatron-LM, to run its fast script beside')
    parser.add_argument('--report', action='store_true', help='write bench/data/reports/DATE-pipeline.md and .log')
    arguments = parser.parse_args()
    log, load = [], [os.getloadavg()]
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run(['zstd', '-dc', arguments.sample], capture_output=True, check=True).stdout
        large = str(Path(folder) / 'large.jsonl.zst')
        with subprocess.Popen(['zstd', '-3', '-q', '-o', large], stdin=subprocess.PIPE) as packer:
            for _ in range(arguments.repeat):
                packer.stdin.write(lines)
            packer.stdin.close()
        peer = json.loads(subprocess.run([arguments.python, '-c', TIKTOKEN, arguments.ranks], input=lines,
                                         capture_output=True, check=True).stdout)
        log.append(f'tiktoken {json.dumps(peer)}')
        cases = [(f'sample x {arguments.repeat}, zstd -3', large, 1), (f'sample x {arguments.repeat}, zstd -3', large, 2),
                 ('sample once (cold)', arguments.sample, 1)]
        results = {case: [] for case in cases}
        together, stolen = [], {1: [], 2: [], 'together': []}
        megatron_seconds = {1: [], 2: []}
        if arguments.megatron:
            Path(folder, 'large.jsonl').write_bytes(lines * arguments.repeat)
        for _ in range(arguments.rounds):
            for case in cases:
                before = stolen_seconds()
                report, command = prepare(arguments, case[1], case[2], folder)
                results[case].append(rates(report))
                if case[1] == large:
                    stolen[case[2]].append(stolen_seconds() - before)
                log += [command, json.dumps({key: value for key, value in report.items() if key != 'identity'})]
            before = stolen_seconds()
            pair = prepare_twice(arguments, large, folder)
            together.append(max(report['wall_seconds'] for report, _ in pair))
            stolen['together'].append(stolen_seconds() - before)
            for report, command in pair:
                log += ['two at once: ' + command, json.dumps({key: value for key, value in report.items() if key != 'identity'})]
            for cores in megatron_seconds if arguments.megatron else ():
                seconds, command = megatron(arguments, str(Path(folder) / 'large.jsonl'), cores, folder)
                megatron_seconds[cores].append(seconds)
                log += [command, f'{seconds} s']
    load.append(os.getloadavg())
    tiktoken_rate = peer['text_bytes'] / 1e6 / peer['cpu_seconds']
    text = [f'# jsonl.zst to .bin and .idx, {datetime.date.today()}', '',
            '| input | cores | MB/s per CPU second | MB/s of wall | read | parse | tokenize | write | peak MiB |', '|---|---|---|---|---|---|---|---|---|']
    for (name, _, cores), runs in results.items():
        def middle(key, digits=0):
            values = [run[key] for run in runs]
            return f'{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})'
        text.append(f'| {name} | {cores} | {middle("MB/s of CPU")} | {middle("MB/s of wall")} | ' +
                    ' | '.join(middle(f'{stage} MB/s') for stage in ('read', 'parse', 'tokenize', 'write')) + f' | {middle("peak MiB")} |')
    walls = [[run['wall'] for run in results[case]] for case in cases[:2]]
    one, two = map(statistics.median, walls)
    per_core = statistics.median(run['MB/s of CPU'] for run in results[cases[0]])
    text += ['', 'Median of the rounds, lowest and highest. Stages: megabytes of jsonl per second of their own CPU time.', '',
             f'- two cores over one, wall: {ratios_of(walls[0], walls[1])}; two runs of one core each at the same time, of the same work twice, over one alone: '
             f'{ratios_of([2 * wall for wall in walls[0]], together)}: what this machine gives to two processes that share nothing (median of the rounds, lowest and highest)',
             '- seconds that the host took from both cores during a run, medians: '
             f'{statistics.median(stolen[1]):.1f} of {one:.1f} on one core, {statistics.median(stolen[2]):.1f} of {two:.1f} on two, '
             f'{statistics.median(stolen["together"]):.1f} of {statistics.median(together):.1f} with two runs at once',
             f'- tiktoken {peer["version"]}, its tokenizer alone on the same texts, one thread: {tiktoken_rate:.1f} MB/s of text; '
             f'the whole pipeline on one core is {per_core / tiktoken_rate:.1f} times that',
             *(f'- Megatron\'s preprocess_data_fast.py on {cores} core{"s" if cores > 1 else ""}, from lines that are unpacked already: '
               f'{len(lines) * arguments.repeat / 1e6 / statistics.median(seconds):.1f} MB/s of wall; '
               f'ours, from zstd, is {statistics.median(run["MB/s of wall"] for run in results[cases[cores - 1]]) * statistics.median(seconds) / (len(lines) * arguments.repeat / 1e6):.1f} times that'
               for cores, seconds in megatron_seconds.items() if seconds),
             f'- machine: {machine()}', f'- commit {commit(ROOT)}',
             f'- load average before {load[0][0]:.1f}, after {load[1][0]:.1f}' +
             ('; the machine was shared: rates of wall time and the scaling are not to be cited' if max(load[0][0], load[1][0]) > 2.5 else ''),
             f'- command: `{" ".join(["bench/data/pipeline.py"] + sys.argv[1:])}`']
    print('\n'.join(text))
    if arguments.report:
        reports = ROOT / 'bench/data/reports'
        reports.mkdir(exist_ok=True)
        name = f'{datetime.date.today()}-pipeline'
        (reports / f'{name}.md').write_text(without_machine_names('\n'.join(text)) + '\n')
        (reports / f'{name}.log').write_text(without_machine_names('\n'.join(log)) + '\n')


if __name__ == '__main__':
    main()
