#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packages tokenizers, tiktoken and sentencepiece on one thread, alternating
with tokenizer_benchmark: `ratio` is the time of the package relative to ours,
the median of the pairs, and `best_ratio` that of the fastest runs of each.
With --random, compares ids for random texts of many scripts instead.

  tokenizers_python.py --input=text.txt
  tokenizers_python.py --random=5000
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time
import unicodedata

import measure

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/fixtures/tokenizer_cases"
FILES = ("gpt2.json", "llama3.json", "bert.json", "llama2.json", "other.json",
         "t5.model", "llama2_model.model")
BYTE_LEVEL = ("gpt2.json", "llama3.json")  # which tiktoken can read


class HuggingFace:
    program = "tokenizers"

    def __init__(self, path):
        tokenizers = __import__("tokenizers")
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))

    def encode(self, text):
        self.tokenizer.encode_special_tokens = True
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_special(self, text):
        self.tokenizer.encode_special_tokens = False
        return self.tokenizer.encode(text).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class SentencePiece:
    program = "sentencepiece"

    def __init__(self, path):
        self.model = __import__("sentencepiece").SentencePieceProcessor(
            model_file=str(path))

    def encode(self, text):
        return self.model.encode(text)

    def encode_special(self, text):
        return None

    def decode(self, ids):
        return self.model.decode(ids)


class TikToken:
    """The vocabulary of a byte-level tokenizer.json by tiktoken; its merges are
    in the order of their results' ids."""
    program = "tiktoken"

    def __init__(self, path):
        tiktoken = __import__("tiktoken")
        state = json.loads(pathlib.Path(path).read_text())
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        byte_of = {chr(byte): byte for byte in printable}
        byte_of.update({chr(256 + i): byte for i, byte in enumerate(others)})
        special = {token["content"] for token in state["added_tokens"]}
        ranks = {bytes(byte_of[c] for c in token): rank
                 for token, rank in state["model"]["vocab"].items()
                 if token not in special}
        steps = state["pre_tokenizer"].get("pretokenizers")
        pattern = (steps[0]["pattern"]["Regex"] if steps else
                   r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+|"
                   r" ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
        self.encoding = tiktoken.Encoding("fixture", pat_str=pattern,
                                          mergeable_ranks=ranks,
                                          special_tokens={})

    def encode(self, text):
        return self.encoding.encode_ordinary(text)


def peer(path):
    return (SentencePiece if path.suffix == ".model" else HuggingFace)(path)


# Characters on which implementations differ most easily.
AWKWARD = ("'’\"ſSsTtKKııİiß \t\n\r\x0b\x0c\x00\x01\x1c\x1f\x7f\x85\xa0\xad"
           "\u1680\u180e\u2003\u200b\u200c\u200d\u2028\u2029\u202f\u2060\u3000"
           "\ufeff\ufffd\ufe0f\u0301\u0323\u0345\u093c\u0e33\u1100\u1161\u11a8"
           "▁ĠĊ##<>[]|_-ΣςσÅÅ①½²٣५Ⅷⓐ𝟘🅐👍🏽🇩🇪")
WORDS = ("the", " and", "'s", "'LL", "<s>", "</s>", "[CLS]", "<|endoftext|>",
         "light", "Word", " light ", "<0x41>", "  ", "\n\n", "\r\n", "123",
         "God", " said", "##ing", "<unk>", "a\u0301", "你好", "ﬁ")


def assigned():
    """Code points of Unicode 14 at most, which all libraries know."""
    return [chr(code) for code in range(0x110000)
            if not 0xD800 <= code < 0xE000 and
            unicodedata.category(chr(code)) != "Cn"]


def known(characters):
    """Those of `characters` of which the package tokenizers, whose steps for
    BERT have the data of Unicode 8, says what Unicode 14 does."""
    from tokenizers import normalizers, pre_tokenizers
    punctuation = pre_tokenizers.Punctuation()
    accents = normalizers.StripAccents()
    forms = {"NFD": normalizers.NFD(), "NFKC": normalizers.NFKC()}
    bert = normalizers.BertNormalizer(clean_text=False,
                                      handle_chinese_chars=False,
                                      strip_accents=True, lowercase=False)

    def agrees(c):
        category = unicodedata.category(c)
        if ord(c) < 128:
            return True
        text = f"a{c}\u0301\u0323{c}"
        return ((len(punctuation.pre_tokenize_str(f"a{c}")) == 2) ==
                category.startswith("P") and
                (accents.normalize_str(c) == "") == category.startswith("M") and
                bert.normalize_str(c) ==
                "".join(d for d in unicodedata.normalize("NFD", c)
                        if unicodedata.category(d) != "Mn") and
                all(form.normalize_str(text) ==
                    unicodedata.normalize(name, text)
                    for name, form in forms.items()))

    return [c for c in characters if agrees(c)]


def random_text(rng, characters):
    kind = rng.randrange(4)
    block = rng.randrange(len(characters))
    parts = []
    for _ in range(rng.choice((1, 3, 10, 40))):
        where = rng.randrange(4)
        if where == 0:
            parts.append(rng.choice(AWKWARD))
        elif where == 1 and kind != 1:
            parts.append(rng.choice(WORDS))
        elif where == 2 and kind != 2:
            parts.append(chr(rng.randrange(32, 127)))
        elif kind == 3:
            parts.append(rng.choice(characters))
        else:
            near = min(len(characters) - 1, block + rng.randrange(60))
            parts.append(characters[near])
    return "".join(parts)


def ours(flags, path, texts):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "texts.json")
        file.write_text(json.dumps(texts))
        lines = subprocess.run(
            [flags.mtf, f"--tokenizer={path}", f"--texts={file}"], check=True,
            capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        ids, special, decoded = line.split("|")
        yield ([int(i) for i in ids.split()], [int(i) for i in special.split()],
               bytes.fromhex(decoded).decode("utf-8", "replace"))


def compare(flags, path):
    rng = random.Random(flags.seed)
    characters = assigned()
    if path.name in ("bert.json", "other.json"):
        characters = known(characters)
    texts = [random_text(rng, characters) for _ in range(flags.random)]
    package = peer(path)
    tiktoken = TikToken(path) if path.name in BYTE_LEVEL else None
    different = 0
    for text, (ids, special, decoded) in zip(texts, ours(flags, path, texts)):
        expected = package.encode(text)
        expected_special = package.encode_special(text)
        wanted = [("ids", expected, ids),
                  ("decoded", package.decode(expected), decoded)]
        if expected_special is not None:
            wanted.append(("special", expected_special, special))
        if tiktoken is not None:
            wanted.append(("tiktoken", tiktoken.encode(text), ids))
        for what, theirs, mine in wanted:
            if theirs != mine:
                different += 1
                if different <= flags.show:
                    print(f"{path.name}: {what} of {text!r} ({ascii(text)})\n"
                          f"  {theirs!r}\n  {mine!r}")
                break
    measure.emit(f"tokenizer/{path.name}/random", package.program,
                 texts=len(texts), different=different,
                 characters=len(characters),
                 versions={package.program: version(package.program)})
    return different


def version(package):
    return __import__(package).__version__


def milliseconds_of(run):
    begin = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begin)


def measure_speed(flags, path):
    text = pathlib.Path(flags.input).read_text()
    packages = [peer(path)]
    if path.name in BYTE_LEVEL:
        packages.append(TikToken(path))
    for package in packages:
        times, mine = [], []
        package.encode(text)
        for _ in range(flags.repeats):
            milliseconds = milliseconds_of(lambda: package.encode(text))
            line = subprocess.run(
                [flags.mtf, f"--tokenizer={path}", f"--input={flags.input}",
                 "--repeats=3"], check=True, capture_output=True,
                text=True).stdout
            times.append(milliseconds)
            mine.append(json.loads(line)["milliseconds"])
        median = statistics.median(times)
        measure.emit(f"tokenizer/{path.name}", package.program, device="cpu",
                     unit="MB/s", value=1e-3 * len(text.encode()) / median,
                     milliseconds=median, repeats=flags.repeats,
                     ratio=statistics.median(
                         theirs / own for theirs, own in zip(times, mine)),
                     best_ratio=min(times) / min(mine),
                     versions={package.program: version(package.program)})


def main():
    flags = argparse.ArgumentParser(prog="tokenizers_python.py",
                                    description=__doc__)
    flags.add_argument("--mtf",
                       default=str(ROOT / "build/release/bin/"
                                          "tokenizer_benchmark"))
    flags.add_argument("--only", default=",".join(FILES),
                       help="names of files of tests/fixtures/tokenizer_cases, "
                       "or paths")
    flags.add_argument("--input", default="", help="text to measure with")
    flags.add_argument("--random", type=int, default=0,
                       help="compare so many random texts")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--show", type=int, default=3, help="differences shown")
    flags.add_argument("--repeats", type=measure.positive, default=5)
    flags.add_argument("--device", choices=("cpu",), default="cpu")
    flags = flags.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in ("tokenizers", "sentencepiece", "tiktoken"):
        measure.import_or_skip("tokenizer", name, lambda: __import__(name))
    different = 0
    for name in flags.only.split(","):
        path = FIXTURES / name
        if flags.random > 0:
            different += compare(flags, path)
        else:
            measure_speed(flags, path)
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
