#!/usr/bin/env python3
"""Our tokenizer beside gigatoken, tiktoken and Hugging Face tokenizers, on one core, in turns, in one run.

    pip install gigatoken tiktoken tokenizers zstandard numpy
    bench/data/compare.py speed --vocabulary GPT2_FOLDER --text public_sample.jsonl.zst [--log FILE]
    bench/data/compare.py exact --vocabulary GPT2_FOLDER --text FILE_OR_FOLDER ...

GPT2_FOLDER has r50k_base.tiktoken, vocab.json and merges.txt. `speed` prints MB/s of text per second of CPU time (user and system, of the
thread that works): cold is the first pass of a new tokenizer, warm the second of the same one; medians of the rounds. `exact` encodes every
text file with tiktoken and with ours and counts the documents that differ. Texts: .jsonl and .jsonl.zst with an object a line, or anything
that is UTF-8."""
import argparse
import base64
import io
import json
import os
import pathlib
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
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


def time_peer(kind, vocabulary, documents):
    peer = kind(vocabulary)
    if not getattr(peer, "takes_bytes", False):
        documents = [document.decode() for document in documents]
    seconds = []
    for _ in range(2):
        begin = time.thread_time()
        for document in documents:
            peer.encode(document)
        seconds.append(time.thread_time() - begin)
    return seconds


def time_ours(bench, vocabulary, file):
    output = subprocess.run([bench, str(vocabulary / "r50k_base.tiktoken"), file, "1"], check=True, capture_output=True, text=True).stdout
    return [float(number) for number in output.split()[:2]]


def describe_machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    instructions = " ".join(name for name in ("avx2", "avx512bw", "avx512_vbmi2") if name in flags.split())
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=, with changes"], capture_output=True, text=True).stdout.strip()
    return f"{model}, {os.cpu_count()} cores, {instructions}; commit {commit}"


def versions():
    from importlib.metadata import version
    return ", ".join(f"{name} {version(name)}" for name in ("gigatoken", "tiktoken", "tokenizers"))


def speed(arguments):
    groups = {"all": []}
    for group, text in (row for path in arguments.text for row in read_jsonl(path)):
        groups["all"].append(text.encode())
        groups.setdefault(group, []).append(text.encode())
    print(f"machine: {describe_machine()}\npeers: {versions()}\nload before: {os.getloadavg()[0]:.1f}", flush=True)
    Gigatoken(arguments.vocabulary).encode(b"threads start once")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for group, documents in groups.items():
            megabytes = sum(map(len, documents)) / 1e6
            file = os.path.join(folder, "documents")
            write_documents(file, documents)
            rates = {}
            for turn in range(arguments.rounds):
                contestants = [("ours", lambda: time_ours(arguments.bench, arguments.vocabulary, file)),
                               ("gigatoken", lambda: time_peer(Gigatoken, arguments.vocabulary, documents))]
                if turn == 0 and group == "all":  # they take long, and have no cache to be cold
                    contestants += [("tiktoken", lambda: time_peer(Tiktoken, arguments.vocabulary, documents[::8])),
                                    ("HF tokenizers", lambda: time_peer(HuggingFace, arguments.vocabulary, documents[::64]))]
                for name, run in contestants:
                    share = sum(map(len, documents[::{"tiktoken": 8, "HF tokenizers": 64}.get(name, 1)])) / 1e6
                    cold, warm = run()
                    rates.setdefault(name, []).append((share / cold, share / warm))
                    print(f"raw {group} round {turn} {name}: cold {share / cold:.1f} warm {share / warm:.1f} MB/s", flush=True)
            rows.append((group, megabytes, rates))
    print(f"load after: {os.getloadavg()[0]:.1f}\n")
    print("| text | MB | | cold MB/s | warm MB/s | ours to it, cold | warm |\n|---|---|---|---|---|---|---|")
    for group, megabytes, rates in rows:
        median = {name: [statistics.median(rate[i] for rate in found) for i in range(2)] for name, found in rates.items()}
        for name, (cold, warm) in median.items():
            ratios = [median["ours"][i] / median[name][i] for i in range(2)]
            print(f"| {group} | {megabytes:.1f} | {name} | {cold:.1f} | {warm:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


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
    print(f"{what}: {count} documents, {total} bytes, {tokens} tokens; {len(differing)} documents differ from tiktoken's")
    for text in differing[:5]:
        print(f"  {text[:200]!r}")
    return not differing


def exact(arguments):
    print(f"machine: {describe_machine()}\npeers: {versions()}", flush=True)
    same = compare(arguments, fuzz(arguments.fuzz), "fuzzed strings")
    same &= compare(arguments, find_texts(arguments.text, arguments.megabytes * 1e6), "text")
    sys.exit(not same)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "exact"])
    parser.add_argument("--vocabulary", type=pathlib.Path, default=ROOT.parent / "shared/data/gpt2")
    parser.add_argument("--text", type=pathlib.Path, nargs="+", default=[ROOT.parent / "shared/data/text/public_sample.jsonl.zst"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=float, default=1000, help="exact: how much text at most")
    parser.add_argument("--fuzz", type=int, default=200000, help="exact: how many made-up strings")
    parser.add_argument("--bench", default=str(ROOT / "build/tokenizer_bench"), help="the benchmark program, built with -DTRIREME_BENCH=ON")
    arguments = parser.parse_args()
    {"speed": speed, "exact": exact}[arguments.what](arguments)


if __name__ == "__main__":
    main()
