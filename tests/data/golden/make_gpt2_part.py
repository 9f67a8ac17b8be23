#!/usr/bin/env python3
"""Writes the part of GPT-2's vocabulary that the golden token ids in this folder need, and Megatron's files of json_edge/.

  make_gpt2_part.py GPT2_FOLDER     the folder has vocab.json, merges.txt and r50k_base.tiktoken; scripts/fetch_goldens brings them

A token is made by one merge of two shorter tokens. The part has the tokens of the goldens, those they are made of, and the 256 single
bytes, with the ids that they have in the whole, so that every golden text has the same ids. Only the standard library is needed.
"""
import itertools
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
END_OF_TEXT = 50256


def golden_ids():
    for name in ('gpt2/golden.jsonl', 'gpt2/golden_special.jsonl', 'json_edge/expected.jsonl'):
        for line in (HERE / name).read_text(encoding='utf-8').splitlines():
            yield from json.loads(line)['ids']


def needed_ids(vocabulary, merges):
    parents = {256 + index: [vocabulary[word] for word in merge.split(' ')] for index, merge in enumerate(merges)}
    needed, left = set(range(256)) | {END_OF_TEXT}, list(golden_ids())
    while left:
        token = left.pop()
        if token not in needed:
            needed.add(token)
            left += parents[token]
    return needed


def write_part(folder):
    vocabulary = json.loads((folder / 'vocab.json').read_text(encoding='utf-8'))
    version, *merges = (folder / 'merges.txt').read_text(encoding='utf-8').rstrip('\n').split('\n')
    needed = needed_ids(vocabulary, merges)
    part = {word: token for word, token in vocabulary.items() if token in needed}
    output = HERE / 'gpt2'
    (output / 'vocab.json').write_text(json.dumps(part, separators=(',', ':')) + '\n', encoding='utf-8')
    kept = [merge for index, merge in enumerate(merges) if 256 + index in needed]
    (output / 'merges.txt').write_text('\n'.join([version, *kept]) + '\n', encoding='utf-8')
    ranks = (folder / 'r50k_base.tiktoken').read_text().splitlines()
    (output / 'r50k_base.tiktoken').write_text('\n'.join(line for line in ranks if int(line.split()[1]) in needed) + '\n')


def write_megatron():
    """The two files of Megatron's IndexedDataset, by their definition. A line of input.jsonl is a document of one sequence, which
    ends with the end token; a document without text has no sequence."""
    documents = [json.loads(line)['ids'] for line in (HERE / 'json_edge/expected.jsonl').read_text(encoding='utf-8').splitlines()]
    sequences = [document + [END_OF_TEXT] for document in documents if document]
    tokens = list(itertools.chain.from_iterable(sequences))
    (HERE / 'json_edge/megatron.bin').write_bytes(struct.pack(f'<{len(tokens)}H', *tokens))
    lengths = [len(sequence) for sequence in sequences]
    offsets = [2 * sum(lengths[:index]) for index in range(len(lengths))]
    boundaries = [0, *itertools.accumulate(1 if document else 0 for document in documents)]
    header = b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 8, len(sequences), len(boundaries))  # version 1; 8: uint16
    body = struct.pack(f'<{len(lengths)}i', *lengths) + struct.pack(f'<{len(offsets)}q', *offsets)
    (HERE / 'json_edge/megatron.idx').write_bytes(header + body + struct.pack(f'<{len(boundaries)}q', *boundaries))


if __name__ == '__main__':
    write_part(Path(sys.argv[1]))
    write_megatron()
