"""The text that Lark learns to read: Debian's text packages and generated sentences.

    python corpus.py --packages build/lark/debian --work build/lark      # -> sentences.json

`--packages` is the folder into which the packages of README.md were unpacked.
"""

import argparse
import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import templates

SEED = 1
EVAL_SENTENCES = Path(__file__).with_name("eval_sentences.json")
QUOTA = {  # sentences of each source, at most
    "fortunes": 12000, "wordnet": 9000, "jargon": 2500, "gcide": 2000, "reference": 500,
    "plain": 1200, "question": 1500, "chat": 3000, "counted": 2500, "reply": 1500, "words": 2500,
    "clauses": 2500,
}  # fmt: skip
MAX_CHARACTERS = 290  # about 15 s of speech


def clean(text: str) -> str:
    """One line, plain quotes and dashes, no bracketed remarks."""
    text = text.replace("’", "'").replace("‘", "'").replace("``", '"').replace("''", '"')
    text = re.sub(r"\[[^\]]*\]|[{}“”\"_*]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def is_speakable(sentence: str) -> bool:
    """Ordinary prose: no markup, code, addresses, shouting or long runs of digits."""
    if not re.fullmatch(r"[A-Z][A-Za-z0-9 ,;:'\-!?.()$%]+[.!?]", sentence):
        return False
    if len(sentence.split()) < 2 or len(sentence) > MAX_CHARACTERS:
        return False
    return not re.search(r"[A-Z]{3,}|\b[a-z]+[A-Z]|\w[._]\w|--|\(\)|\d{5,}|\.\.", sentence)


def split(text: str) -> list[str]:
    """The speakable sentences of a paragraph."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", clean(text))
    return [s for s in sentences if is_speakable(s)]


def _unzipped(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode(errors="ignore")


def _dictionary(packages: Path, name: str) -> str:
    return _unzipped(packages / f"usr/share/dictd/{name}.dict.dz")


def fortunes(packages: Path) -> list[str]:
    """Sayings, without their attributions."""
    found = []
    for path in sorted((packages / "usr/share/games/fortunes").iterdir()):
        if path.suffix or path.is_dir():
            continue
        for saying in path.read_text(errors="ignore").split("\n%\n"):
            found += split(re.sub(r"\n\s*--.*", "", saying, flags=re.DOTALL))
    return found


def wordnet(packages: Path) -> list[str]:
    """The example sentences of WordNet: quoted, without a capital or a full stop of their own."""
    text = re.sub(r"\s+", " ", _dictionary(packages, "wn"))
    examples = (q.strip() for q in re.findall(r'"([^"]{12,160})"', text))
    sentences = (q[0].upper() + q[1:] + ("" if q[-1] in ".!?" else ".") for q in examples)
    return [s for s in sentences if len(s.split()) > 3 and is_speakable(s)]


def jargon(packages: Path) -> list[str]:
    """Entries of the Jargon File: the vocabulary of those who will try this first."""
    return [s for p in re.split(r"\n\s*\n", _dictionary(packages, "jargon")) for s in split(p)]


def gcide(packages: Path) -> list[str]:
    """Definitions of a 1913 dictionary: rare words."""
    entries = re.split(r"\n\s*\n|\n\s+\d+\. ", _dictionary(packages, "gcide"))
    return [s for p in entries for s in split(p) if len(s) < 140]


def reference(packages: Path) -> list[str]:
    """The Debian Reference: technical prose."""
    text = _unzipped(packages / "usr/share/debian-reference/debian-reference.en.txt.gz")
    return [s for p in re.split(r"\n\s*\n", text) for s in split(p)]


def words(sentences: list[str], count: int, rng: random.Random) -> list[str]:
    """Words and pairs of words on their own, drawn from what the sentences use at least three times."""
    counts = Counter(w for s in sentences for w in re.findall(r"\b[a-z]{3,}\b", s))
    common = sorted(w for w, n in counts.items() if n >= 3)
    singles = [w.capitalize() for w in rng.sample(common, count * 2 // 3)]
    left, right = rng.sample(common, count // 3), rng.sample(common, count // 3)
    pairs = [f"{a.capitalize()} {b}" for a, b in zip(left, right, strict=True)]
    return [w + rng.choice((".", ".", ".", "!", "?", "")) for w in singles + pairs]


def clauses(sentences: list[str], rng: random.Random) -> list[str]:
    """Beginnings and ends of long sentences: the program cuts those that are too long for one prompt, at best there."""
    found = []
    for sentence in sentences:
        commas = [m.end() for m in re.finditer(r"[,;:] ", sentence) if 30 < m.start() < len(sentence) - 30]
        if commas:
            cut = rng.choice(commas)
            found.append(rng.choice((sentence[:cut].rstrip(), sentence[:cut].rstrip(), sentence[cut:])))
    return found


def normal(sentence: str) -> str:
    """What two sentences share that differ only in case and punctuation."""
    return " ".join(re.findall(r"[a-z0-9']+", sentence.lower()))


def held_out() -> set[str]:
    """Evaluation sentences, in `normal` form: never trained on."""
    groups = json.loads(EVAL_SENTENCES.read_text())
    return {normal(s) for group in groups.values() for s in group}


def build(packages: Path) -> list[str]:
    """All sentences, distinct and shuffled, none of them an evaluation sentence."""
    rng = random.Random(SEED)
    seen, by_source = held_out(), {}

    def take(source: str, candidates: list[str]) -> None:
        rng.shuffle(candidates)
        chosen = []
        for sentence in candidates:
            if len(chosen) < QUOTA[source] and (key := normal(sentence)) and key not in seen:
                seen.add(key)
                chosen.append(sentence)
        by_source[source] = chosen

    for source in (fortunes, wordnet, jargon, gcide, reference):
        take(source.__name__, source(packages))
    for kind in ("plain", "question", "chat", "counted", "reply"):
        take(kind, templates.sentences(kind, QUOTA[kind], rng))
    prose = [s for source in ("fortunes", "wordnet", "jargon") for s in by_source[source]]
    take("words", words(prose, QUOTA["words"], rng))
    everything = [s for chosen in by_source.values() for s in chosen]
    rng.shuffle(everything)
    take("clauses", clauses(prose, rng))
    print({source: len(chosen) for source, chosen in by_source.items()})
    return everything + by_source["clauses"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, default=Path("build/lark/debian"))
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    arguments = parser.parse_args()
    sentences = build(arguments.packages)
    arguments.work.mkdir(parents=True, exist_ok=True)
    (arguments.work / "sentences.json").write_text(json.dumps(sentences))
    print(f"{len(sentences)} sentences, {sum(len(s.split()) for s in sentences)} words")


if __name__ == "__main__":
    main()
