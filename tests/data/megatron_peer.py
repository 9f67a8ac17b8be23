"""Makes datasets, sample indices and samples with megatron-core (PyPI) itself, for megatron_peer_slow_test.cpp to compare with.

usage: megatron_peer.py FOLDER
"""

import json
import sys
from collections import OrderedDict
from pathlib import Path

import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron.core.datasets.utils import get_blend_from_list

folder = Path(sys.argv[1])
SEQUENCE = 16
# Megatron asks its process group even where there is one process.
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)


class Tokenizer:
    """What NeMo's tokenizer shows of itself."""

    eod = 0
    vocab_size = 60000
    unique_identifiers = OrderedDict(
        {"class": "nemo.collections.common.tokenizers.huggingface.auto_tokenizer.AutoTokenizer"}
    )


def write(name, documents, first, dtype):
    builder = IndexedDatasetBuilder(str(folder / f"{name}.bin"), dtype=dtype)
    for d in range(documents):
        tokens = [first + (d * 31 + i) % 5000 for i in range(d * 7 % 40)]
        builder.add_document(torch.tensor(tokens, dtype=torch.int64), [len(tokens)] if tokens else [])
    builder.finalize(str(folder / f"{name}.idx"))


for name, documents, first, dtype in [
    ("a", 300, 0, numpy.uint16),
    ("b", 200, 10000, numpy.uint16),
    ("c", 90, 20000, numpy.uint16),
    ("wide", 50, 7, numpy.int32),
]:
    write(name, documents, first, dtype)

merged = IndexedDatasetBuilder(str(folder / "merged.bin"), dtype=numpy.uint16)
for name in "ab":
    merged.add_index(str(folder / name))
merged.finalize(str(folder / "merged.idx"))

a, b, c = (str(folder / name) for name in "abc")
# name, data_prefix or {train, validation, test}, splits_string, samples of train and validation, further settings
CASES = [
    ("single", [a], "90,10,0", [100, 5], {}),
    ("epochs", [a], "97,3,0", [1000, 40], {}),
    ("weighted", [".3", a, "0.7", b], "80,20,0", [500, 60], {}),
    ("thirty", [x for i in range(10) for p in (a, b, c) for x in ("0.0333", p)], "80,20,0", [400, 30], {}),
    ("one_weight", ["1.0", a], "80,20,0", [200, 20], {}),
    ("unweighted", [a, b, c], "70,30,0", [300, 50], {}),
    ("own", {"train": [".2", a, ".8", b], "validation": [c]}, None, [300, 70], {}),
    ("partial", [b], "60,40,0", [90, 30], {"drop_last_partial_validation_sequence": False}),
    ("no_extra", [b], "60,40,0", [90, 30], {"add_extra_token_to_sequence": False}),
]

result = []
for name, prefix, split, sizes, further in CASES:
    if isinstance(prefix, list):
        blend = {"blend": get_blend_from_list(prefix), "split": split}
    else:
        blend = {"blend_per_split": [get_blend_from_list(prefix["train"]), get_blend_from_list(prefix["validation"]), None]}
    config = GPTDatasetConfig(
        random_seed=1234,
        sequence_length=SEQUENCE,
        path_to_cache=str(folder / f"cache_{name}"),
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        **blend,
        **further,
    )
    datasets = BlendedMegatronDatasetBuilder(GPTDataset, [*sizes, 0], lambda: True, config).build()
    case = {"name": name, "data_prefix": prefix, "splits_string": split, "sizes": sizes, "splits": []}
    case["validation_drop_last"] = further.get("drop_last_partial_validation_sequence", True)
    case["no_extra"] = not further.get("add_extra_token_to_sequence", True)
    for dataset in datasets[:2]:
        samples = []
        for i in range(len(dataset)):
            item = dataset[i]
            targets = torch.where(item["loss_mask"] > 0, item["labels"], -1)
            samples.append([item["tokens"].tolist(), targets.tolist()])
        case["splits"].append(samples)
    result.append(case)
(folder / "expected.json").write_text(json.dumps(result))
