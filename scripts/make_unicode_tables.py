#!/usr/bin/env python3
"""Writes the Unicode 16.0 tables of the tokenizers: src/data/tokenizer/unicode_ranges.inc and unicode_compositions.inc.

    pip install unicodedata2==16.0.0
    scripts/make_unicode_tables.py [--check CLASSES]

Unicode 16.0 is what tiktoken and Hugging Face tokenizers split words by; a newer table would split differently. The normalizer of
Hugging Face tokenizers is older, of Unicode 9.0: what came after it neither combines nor composes there. CLASSES is a file of
lines `first last L|N|S` (hexadecimal) that the result must agree with."""
import argparse
import pathlib
import sys

import unicodedata2 as unicode

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src" / "data" / "tokenizer"
CODE_POINTS = range(0x110000)
WHITE_SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
CLASSES = {"Lu": "upper", "Lt": "upper", "Ll": "lower", "Lm": "caseless", "Lo": "caseless", "Mn": "mark", "Mc": "mark", "Me": "mark",
           "Nd": "number", "Nl": "number", "No": "number"}

# Code points with a combining class or a decomposition that Unicode 9.0 does not have.
AFTER_9 = [
    (0x7FD, 0x7FD), (0x897, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C), (0xEBA, 0xEBA),
    (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x105C9, 0x105C9), (0x105E4, 0x105E4),
    (0x10D24, 0x10D27), (0x10D69, 0x10D6D), (0x10EAB, 0x10EAC), (0x10EFD, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85),
    (0x11070, 0x11070), (0x1133B, 0x1133B), (0x11383, 0x11383), (0x11385, 0x11385), (0x1138E, 0x1138E), (0x11391, 0x11391),
    (0x113C5, 0x113C5), (0x113C7, 0x113C8), (0x113CE, 0x113D0), (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x11938, 0x11938),
    (0x1193D, 0x1193E), (0x11943, 0x11943), (0x119E0, 0x119E0), (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99),
    (0x11D42, 0x11D42), (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x11F41, 0x11F42), (0x16121, 0x16128), (0x1612F, 0x1612F),
    (0x16D68, 0x16D6A), (0x16FF0, 0x16FF1), (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE), (0x1E2EC, 0x1E2EF),
    (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF),
]


def is_in_nfc(code_point):
    return not any(first <= code_point <= last for first, last in AFTER_9)


def class_of(code_point):
    if code_point in WHITE_SPACE:
        return "space"
    return CLASSES.get(unicode.category(chr(code_point)), "other")


def ranges():
    """(first, last, class) of every run of code points that are not "other"."""
    found = []
    for code_point in CODE_POINTS:
        kind = class_of(code_point)
        if kind == "other":
            continue
        if found and found[-1][1] == code_point - 1 and found[-1][2] == kind:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point, kind])
    return found


def compositions():
    """(composed, first, second, may be composed again) of every canonical decomposition that is not algorithmic."""
    found = []
    for code_point in CODE_POINTS:
        decomposition = unicode.decomposition(chr(code_point))
        if not is_in_nfc(code_point) or not decomposition or decomposition.startswith("<") or 0xAC00 <= code_point <= 0xD7A3:
            continue
        parts = [int(part, 16) for part in decomposition.split()] + [0]
        composes = unicode.normalize("NFC", chr(code_point)) == chr(code_point)
        found.append((code_point, parts[0], parts[1], int(composes)))
    return found


def combining_classes():
    return [(c, unicode.combining(chr(c))) for c in CODE_POINTS if unicode.combining(chr(c)) != 0 and is_in_nfc(c)]


def write(name, what, version, groups):
    lines = [f"// {what} Unicode {version}; written by scripts/make_unicode_tables.py."]
    for items in groups:
        line = ""
        for item in items:
            if len(line) + len(item) > 128:
                lines.append(line.rstrip())
                line = ""
            line += item + " "
        lines.append(line.rstrip())
    (FOLDER / name).write_text("\n".join(lines) + "\n")


def check(found, path):
    letters = {"upper": "L", "lower": "L", "caseless": "L", "number": "N", "space": "S", "mark": None}
    ours = {c: letters[kind] for first, last, kind in found for c in range(first, last + 1) if letters[kind]}
    theirs = {}
    for line in open(path):
        if not line.startswith("#"):
            first, last, kind = line.split()
            theirs.update((c, kind) for c in range(int(first, 16), int(last, 16) + 1))
    if ours != theirs:
        sys.exit(f"{len(ours.items() ^ theirs.items())} differences to {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="CLASSES")
    arguments = parser.parse_args()
    if unicode.unidata_version != "16.0.0":
        sys.exit(f"unicodedata2 has Unicode {unicode.unidata_version}, not 16.0.0")
    found = ranges()
    if arguments.check:
        check(found, arguments.check)
    write("unicode_ranges.inc", "RANGE(first, last, class) of all code points that are not \"other\":", "16.0.0",
          [[f"RANGE(0x{first:X}, 0x{last:X}, {kind})" for first, last, kind in found]])
    write("unicode_compositions.inc", "COMPOSITION(composed, first, second, recomposes) and COMBINING(code point, class):", "9.0.0",
          [[f"COMPOSITION(0x{c:X}, 0x{a:X}, 0x{b:X}, {again})" for c, a, b, again in compositions()],
           [f"COMBINING(0x{c:X}, {k})" for c, k in combining_classes()]])


if __name__ == "__main__":
    main()
