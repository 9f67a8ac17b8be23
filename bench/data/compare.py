#!/usr/bin/env python3
"""Our tokenizer beside gigatoken, tiktoken and Hugging Face tokenizers, on one core, in turns, in one run.

    pip install gigatoken tiktoken tokenizers zstandard numpy
    bench/data/compare.py speed --vocabulary GPT2_FOLDER --text public_sample.jsonl.zst [--report]
    bench/data/compare.py exact --vocabulary GPT2_FOLDER --text FILE_OR_FOLDER ... [--report]

GPT2_FOLDER has r50k_base.tiktoken, vocab.json and merges.txt. `speed` prints MB/s of text per second of CPU time (user and system, of the
thread that works): cold is the first pass of a new tokenizer, warm the second of the same one; medians of the rounds. The rows of two cores are two
processes at once, each with all of the text, by the clock on the wall. `exact` encodes every text file with tiktoken and with ours and counts the
documents that differ. Texts: .jsonl and .jsonl.zst with an object a line, or anything that is UTF-8. --report writes
bench/data/reports/DATE-tokenizer.md (or -exact.md) and what was printed beside it as .log."""
import argparse
import base64
import concurrent.futures
import datetime
import io
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/cpu"))
from report import commit, machine, without_machine_names  # noqa: E402

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
FACTOR = 0x9E3779B97F4A7C15


def read_jsonl(path):
    """(group, text) of every line; the group is the Pile's name of the source."""
    raw = open(path, "rb")
    if str(path).endswith(".zst"):
        import zstandard
        raw = zstandard.ZstdDecompressor().stream_reader(raw)
    for line in io.TextIOWrapper(raw, encoding="utf-8"):
        row = json.loads(line)
        yield row.get("meta", {}).get("pile_set_name", "text"), row["text"]


def write_documents(path, documents):
    with open(path, "wb") as file:
        for document in documents:
            file.write(struct.pack("<I", len(document)) + document)


def ranks_of(vocabulary):
    lines = (vocabulary / "r50k_base.tiktoken").read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


class Tiktoken:
    name = "tiktoken"

    def __init__(self, vocabulary):
        import tiktoken
        self.encoding = tiktoken.Encoding("r50k", pat_str=PATTERN, mergeable_ranks=ranks_of(vocabulary), special_tokens={})

    def encode(self, text):
        return self.encoding.encode_ordinary(text)



class HuggingFace:
    name = "HF tokenizers"

    def __init__(self, vocabulary):
        from tokenizers import ByteLevelBPETokenizer
        self.tokenizer = ByteLevelBPETokenizer(str(vocabulary / "vocab.json"), str(vocabulary / "merges.txt"))

    def encode(self, text):
        return self.tokenizer.encode(text)


class Gigatoken:
    name = "gigatoken"
    takes_bytes = True

    def __init__(self, vocabulary):
        import gigatoken
        self.tokenizer = gigatoken.Tokenizer.from_tiktoken(str(vocabulary / "r50k_base.tiktoken"))

    def encode(self, text):
        return self.tokenizer.encode(text)


PRINTED = []


def say(text):
    PRINTED.append(text)
    print(text, flush=True)


def write_report(name, title, lines):
    path = ROOT / f"bench/data/reports/{datetime.date.today()}-{name}"
    head = f"# {title}, {datetime.date.today()}"
    path.with_suffix(".md").write_text(without_machine_names("\n".join([head, "", *lines])) + "\n")
    path.with_suffix(".log").write_text(without_machine_names("\n".join(PRINTED)) + "\n")


def time_peer(kind, vocabulary, documents, clock=time.thread_time):
    """Seconds of the first pass and of the second."""
    peer = kind(vocabulary)
    if not getattr(peer, "takes_bytes", False):
        documents = [document.decode() for document in documents]
    seconds = []
    for _ in range(2):
        begin = clock()
        for document in documents:
            peer.encode(document)
        seconds.append(clock() - begin)
    return seconds


def time_ours(bench, vocabulary, file, clock="cpu"):
    output = subprocess.run([bench, str(vocabulary / "r50k_base.tiktoken"), file, "1", clock], check=True, capture_output=True, text=True).stdout
    return [float(number) for number in output.split()[:2]]


def time_two(run):
    """The same work in two processes at once; the slower of the two."""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        both = [task.result() for task in [pool.submit(run), pool.submit(run)]]
    return [max(seconds) for seconds in zip(*both)]


class Work:
    """What a contestant does, in a form that goes to another process."""

    def __init__(self, name, arguments, file, documents):
        self.name, self.bench, self.vocabulary, self.file = name, arguments.bench, arguments.vocabulary, file
        every = {"tiktoken": 8, "HF tokenizers": 64}.get(name, 1)  # they take long, and have no cache to be cold
        self.documents = documents[::every]
        self.megabytes = sum(map(len, self.documents)) / 1e6

    def one(self):
        if self.name == "ours":
            return time_ours(self.bench, self.vocabulary, self.file)
        return time_peer(KINDS[self.name], self.vocabulary, self.documents)

    def by_the_wall(self):
        if self.name == "ours":
            return time_ours(self.bench, self.vocabulary, self.file, "wall")
        return time_peer(KINDS[self.name], self.vocabulary, self.documents, time.perf_counter)


KINDS = {"gigatoken": Gigatoken, "tiktoken": Tiktoken, "HF tokenizers": HuggingFace}


def versions():
    from importlib.metadata import version
    return ", ".join(f"{name} {version(name)}" for name in ("gigatoken", "tiktoken", "tokenizers"))


def speed(arguments):
    groups = {"all": []}
    for group, text in (row for path in arguments.text for row in read_jsonl(path)):
        groups["all"].append(text.encode())
        groups.setdefault(group, []).append(text.encode())
    load = [os.getloadavg()[0]]
    rows = {}  # (text, cores) -> megabytes, name -> [(cold, warm)]

    def measure(key, work, seconds, copies=1):
        cold, warm = (copies * work.megabytes / taken for taken in seconds)
        rows.setdefault(key, {}).setdefault(work.name, []).append((cold, warm))
        say(f"raw {key[0]}, {key[1]} {work.name}: cold {cold:.1f} warm {warm:.1f} MB/s")

    Gigatoken(arguments.vocabulary).encode(b"threads start once")
    with tempfile.TemporaryDirectory() as folder:
        for group, documents in groups.items():
            file = os.path.join(folder, group)
            write_documents(file, documents)
            work = {name: Work(name, arguments, file, documents) for name in ["ours", *KINDS]}
            for turn in range(arguments.rounds):
                for name in ["ours", "gigatoken"] if turn > 0 or group != "all" else work:
                    measure((group, "1 core"), work[name], work[name].one())
            if group == "all":
                for turn in range(max(arguments.rounds // 2, 1)):
                    for name in ["ours", "gigatoken"] if turn > 0 else work:
                        measure((group, "2 cores"), work[name], time_two(work[name].by_the_wall), copies=2)
    load.append(os.getloadavg()[0])
    megabytes = {group: sum(map(len, documents)) / 1e6 for group, documents in groups.items()}
    lines = ["| text | MB | cores | | cold MB/s | warm MB/s | ours to it, cold | warm |", "|---|---|---|---|---|---|---|---|"]
    for (group, cores), rates in rows.items():
        median = {name: [statistics.median(rate[i] for rate in found) for i in range(2)] for name, found in rates.items()}
        for name, (cold, warm) in median.items():
            ratios = [statistics.median(rates["ours"][k][i] / rates[name][k][i] for k in range(len(rates[name]))) for i in range(2)]
            lines.append(f"| {group} | {megabytes[group]:.1f} | {cores} | {name} | {cold:.1f} | {warm:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    lines += ["", f"Medians of {arguments.rounds} rounds, in turns; a ratio is the median of the ratios of the rounds. MB/s of text: by CPU time on one core, "
              "by the clock on two.", "", f"- peers: {versions()}", f"- machine: {machine()}", f"- commit {commit(ROOT)}",
              f"- load average before {load[0]:.1f}, after {load[1]:.1f}", f"- command: `bench/data/compare.py {' '.join(sys.argv[1:])}`"]
    say("\n".join(lines))
    if arguments.report:
        write_report("tokenizer", "The tokenizer beside its peers", lines)


def hash_of(tokens):
    array = numpy.asarray(tokens, dtype=numpy.uint64) + numpy.uint64(1)
    with numpy.errstate(over="ignore"):
        factors = (numpy.arange(len(array), dtype=numpy.uint64) * numpy.uint64(2) + numpy.uint64(1)) * numpy.uint64(FACTOR)
        return int((array * factors).sum(dtype=numpy.uint64))


def find_texts(paths, limit):
    """Documents of at most a few megabytes: .jsonl lines, or files that are UTF-8."""
    taken = 0
    for path in paths:
        files = [path] if path.is_file() else (pathlib.Path(folder) / name for folder, _, names in os.walk(path) for name in sorted(names))
        for file in files:
            if taken >= limit:
                return
            try:
                if file.name.endswith((".jsonl", ".jsonl.zst")):
                    texts = [text for _, text in read_jsonl(file)]
                elif file.is_symlink() or not file.is_file() or file.stat().st_size > 8 << 20:
                    continue
                else:
                    texts = [file.read_bytes().decode()]
            except (OSError, ValueError):
                continue
            for text in texts:
                if "\0" in text[:4096]:
                    continue
                taken += len(text)
                yield text


def fuzz(count):
    """Strings of characters from everywhere: of one class, of all, of few."""
    generator = random.Random(1)
    alphabets = ["ab '\n", "'sdtmlrve ", " \t\n\r\u00a0\u3000\u2028x", "0123456789½²Ⅷ ", "абвгд ё", "中文日本語 한국", "\u0301\u200d\ufe0f😀👩", "=-_/*<>|!"]
    for _ in range(count):
        kind = generator.randrange(3)
        if kind == 0:
            text = "".join(chr(c) for c in (generator.randrange(0x110000) for _ in range(generator.randrange(40))) if not 0xD800 <= c < 0xE000)
        else:
            alphabet = "".join(generator.sample(alphabets, kind))
            text = "".join(generator.choice(alphabet) for _ in range(generator.randrange(120)))
        yield text


def compare(arguments, texts, what):
    tiktoken = Tiktoken(arguments.vocabulary)
    documents, expected, total, tokens, differing = [], [], 0, 0, []

    def flush():
        with tempfile.NamedTemporaryFile() as file:
            write_documents(file.name, [text.encode() for text in documents])
            output = subprocess.run([arguments.bench, str(arguments.vocabulary / "r50k_base.tiktoken"), file.name, "hashes"], check=True,
                                    capture_output=True, text=True).stdout.splitlines()
        assert len(output) == len(documents)
        differing.extend(text for text, line, wanted in zip(documents, output, expected) if line != wanted)
        documents.clear()
        expected.clear()

    count = pending = 0
    for text in texts:
        found = tiktoken.encode(text)
        documents.append(text)
        expected.append(f"{len(found)} {hash_of(found)}")
        count, total, tokens, pending = count + 1, total + len(text.encode()), tokens + len(found), pending + len(text)
        if pending > 100e6:
            flush()
            pending = 0
            print(f"  {total / 1e6:.0f} MB, {len(differing)} differ", flush=True)
    flush()
    for text in differing[:5]:
        say(f"  {text[:200]!r}")
    return len(differing), f"| {what} | {count} | {total / 1e6:.1f} | {tokens} | {len(differing)} |"


def exact(arguments):
    fuzzed, fuzz_row = compare(arguments, fuzz(arguments.fuzz), "strings made up of characters from everywhere")
    found, text_row = compare(arguments, find_texts(arguments.text, arguments.megabytes * 1e6), "text found on the machine")
    lines = ["| what | documents | MB | tokens | documents whose tokens differ from tiktoken's |", "|---|---|---|---|---|", fuzz_row, text_row, "",
             f"- peers: {versions()}", f"- machine: {machine()}", f"- commit {commit(ROOT)}", f"- command: `bench/data/compare.py {' '.join(sys.argv[1:])}`"]
    say("\n".join(lines))
    if arguments.report:
        write_report("exact", "Tokens beside tiktoken's", lines)
    sys.exit(fuzzed + found > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "exact"])
    parser.add_argument("--vocabulary", type=pathlib.Path, required=True, help="a folder with GPT-2's vocabulary; scripts/fetch_goldens brings it")
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=float, default=1000, help="exact: how much text at most")
    parser.add_argument("--fuzz", type=int, default=200000, help="exact: how many made-up strings")
    parser.add_argument("--bench", default=str(ROOT / "build/tokenizer_bench"), help="the benchmark program, built with -DTRIREME_BENCH=ON")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    {"speed": speed, "exact": exact}[arguments.what](arguments)


if __name__ == "__main__":
    main()
