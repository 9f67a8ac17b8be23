"""Makes the models and tokens beside it with the sentencepiece library (0.2.2): python make_golden.py

Each model is a few kilobytes: small vocabularies, and rules of its own instead of the 240 kB of NFKC.
"""
import json
import pathlib
import random

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

FOLDER = pathlib.Path(__file__).parent
TEXT = [
    "The quick brown fox jumps over the lazy dog, and then the other dog jumps over the fox.",
    "A model learns the next token from the tokens before it; the loss says how well it does.",
    "Numbers such as 1234, 2024 and 3.14159 are written with digits, and 00000 is a long zero.",
    "Наборы данных бывают разными: это русский текст для проверки.",
    "这是一个测试。汉字很多，标点也不同。",
    "naïve café, Ünïcödé façade; tabs\tand  two spaces, ##### and ---|---|--- as in a table.",
    "for (int i = 0; i < 10; ++i) { sum += values[i]; }  // code",
] * 20
# What a rule replaces and by what, in code points: ligatures, full-width letters, a tab by a space, a mark by nothing.
RULES = [("ﬁ", "fi"), ("ﬂ", "fl"), ("Ａ", "A"), ("Ｂ", "B"), ("\t", " "), ("\u200b", ""), ("①", "1"), ("ﬃ", "ffi"), ("é", "e"), ("　", "  ")]
TRICKY = [
    "", " ", "   ", "a", " a", "a ", "  The  quick   fox ", "\n", "line\nnext line\n\nlast", "\ttab\there", "▁", "▁▁The▁fox",
    "<s>", "</s>", "<unk>", "<mask>", "a<mask>b", "<ctl>", "<0x41>", "the::model", "::", "::::", "model.loss", "#" * 25, "0" * 23,
    "ﬁne ﬂow Ａ①Ｂ ﬃ", "caf\u00e9 cafe\u0301", "zero\u200bwidth", "　wide　space", "emoji 😀 and 👩‍👩‍👧", "한국어 텍스트", "日本語のテキスト", "مرحبا",
    "Привет, мир!", "汉字和汉字", "a" * 70, "qzqzqz", "\u0000", "\ufeffmark", "ends with space ", "１２３",
]


def train(name, **options):
    path = FOLDER / name
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=str(path), minloglevel=2, num_threads=1, **options)
    path.with_suffix(".vocab").unlink()


def texts():
    found, rng = list(TRICKY), random.Random(7)
    corpus = "\n".join(TEXT[:7])
    for _ in range(25):
        parts = []
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.6:
                at = rng.randrange(len(corpus))
                parts.append(corpus[at : at + rng.randint(1, 25)])
            else:
                parts.append(rng.choice(TRICKY))
        found.append("".join(parts))
    return found


def long_text():
    """Long enough that a unigram model raises its scores, with many ways of equal score. The test makes the same one."""
    parts, state = [], 1
    for _ in range(20000):
        state = (state * 1103515245 + 12345) % 2**31
        parts.append(["#", "---|", "0", "the ", "qz"][(state >> 8) % 5] * (1 + (state >> 12) % 9) + "abe "[(state >> 20) % 4])
    return "".join(parts)


def golden_of(processor):
    rng = random.Random(3)
    draws = [[rng.randrange(processor.vocab_size()) for _ in range(8)] for _ in range(12)]
    ids = [processor.encode(text) for text in texts()]
    long_ids = processor.encode(long_text())
    checksum = 0
    for token in long_ids:
        checksum = (checksum * 31 + token) % 2**32
    return {"ids": ids, "decoded": [processor.decode(i) for i in ids], "draws": draws,
            "decoded_draws": [processor.decode(i) for i in draws],
            "long": {"count": len(long_ids), "checksum": checksum}}


def main():
    rules = FOLDER / "rules.tsv"
    code_points = lambda text: " ".join(f"{ord(c):04X}" for c in text)
    rules.write_text("".join(f"{code_points(a)}\t{code_points(b)}\n" for a, b in RULES))
    train("bpe_bytes", model_type="bpe", vocab_size=460, byte_fallback=True, normalization_rule_name="identity",
          remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.98)
    train("bpe_rules", model_type="bpe", vocab_size=260, normalization_rule_tsv=str(rules), character_coverage=0.98,
          user_defined_symbols=["<mask>", "::", "model."], control_symbols=["<ctl>"], eos_piece="<eos>", unk_surface="[?]")
    train("unigram_rules", model_type="unigram", vocab_size=260, hard_vocab_limit=False,
          normalization_rule_tsv=str(rules), character_coverage=0.98,
          user_defined_symbols=["<mask>", "::", "model."], control_symbols=["<ctl>"])
    train("unigram_bytes", model_type="unigram", vocab_size=460, hard_vocab_limit=False, byte_fallback=True,
          normalization_rule_name="identity",
          treat_whitespace_as_suffix=True, split_by_whitespace=False, character_coverage=0.98)
    rules.unlink()
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((FOLDER / "bpe_bytes.model").read_bytes())
    for i, piece in enumerate(proto.pieces):
        if piece.type == proto.SentencePiece.NORMAL and len(piece.piece) > 1 and i % 7 == 0:
            piece.type = proto.SentencePiece.UNUSED
    (FOLDER / "bpe_unused.model").write_bytes(proto.SerializeToString())
    golden = {"texts": texts()}
    for model in sorted(FOLDER.glob("*.model")):
        golden[model.stem] = golden_of(sentencepiece.SentencePieceProcessor(model_file=str(model)))
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in golden.items()]
    (FOLDER / "golden.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
