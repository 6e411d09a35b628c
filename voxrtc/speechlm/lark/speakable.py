"""Any text -> plain English sentences that the phonemizer reads right, one line a paragraph.

People paste Markdown, addresses and emoji; models write them. Everything that can be said is kept in words; what cannot
be read (other scripts) is refused, never left out. hibari's own normalisation comes after this one and reads times,
dates, units, ordinals, Roman numerals and acronyms; the rules here are those it lacks or gets wrong.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from voxrtc.speechlm.base import InvalidRequest

MAX_CHARACTERS = 10_000
MAX_WORD = 24  # letters that the network for unknown words reads
MAX_CARDINAL = 12  # digits of a number that is still said as one

# Accented letters that the phonemizer knows; of others it gets the letter without its accent.
ACCENTED = frozenset(
    "ÀÁÂÃÄÅÆÇÉÊÌÍÎÏÑÒÓÔÕÖØÚÜÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĀāĂăąĆćČčĎďĐđĒēĕĖėęěĝĞğġģīĭİıķļĽľŁłńņňŌōŏőŒœŘřŚśŞşŠšţūŭŮůŰűųŵŹźŻżŽž"
)
BASE_LETTER = re.compile(r"LATIN (?:SMALL|CAPITAL) (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .*)?")
GREEK = "\u0370-\u03ff"

PUNCTUATION = str.maketrans({
    **dict.fromkeys("‘’‚‛ʼʻ′´`", "'"),
    **dict.fromkeys("“”„‟″«»‹›「」『』", '"'),
    **dict.fromkeys("‐‒", "-"),
    **dict.fromkeys("–—―⸺⸻", "—"),
    **dict.fromkeys("[{【〈《", "("),
    **dict.fromkeys("]}】〉》", ")"),
    **dict.fromkeys("。।։", "."),
    **dict.fromkeys("、،·•‣", ","),
    **dict.fromkeys("؟⸮", "?"),
    **dict.fromkeys("؛", ";"),
    **dict.fromkeys('"¿¡†‡\\_', " "),
})  # fmt: skip
KEPT = frozenset(".,;:!?()'—-&@%+#/=<>°~^")
SYMBOLS = {
    "≈": "approximately", "≠": "is not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    "×": "times", "÷": "divided by", "±": "plus or minus", "√": "the square root of", "∞": "infinity", "→": "to",
    "−": "minus", "©": "copyright", "§": "section", "¶": "paragraph",
}  # fmt: skip
SPOKEN_MARKS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "@": "at", "?": "question mark", "&": "and",
    "=": "equals", "#": "hash", "%": "percent", "+": "plus", ":": "colon", "~": "tilde",
}  # fmt: skip
CURRENCIES = {
    "$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""), "₹": ("rupee", "paisa"),
    "₩": ("won", ""), "₽": ("ruble", "kopeck"), "₺": ("lira", ""), "₿": ("bitcoin", ""),
}  # fmt: skip
PLURALS = {"penny": "pence", "paisa": "paise", "yen": "yen", "won": "won", "lira": "lira"}
SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion", "tn": "trillion"}

METRIC = {"g": "grams", "m": "meters", "s": "seconds"}
SIGNS = "".join(CURRENCIES)
NUMBER = r"\d+(?:,\d{3})*"

TAGS = "a|b|i|u|s|em|strong|p|br|hr|div|span|code|pre|h[1-6]|ul|ol|li|sub|sup|img|table|tr|td|th|blockquote|speak|break"
MARKUP = [(re.compile(pattern, re.MULTILINE | re.IGNORECASE), by) for pattern, by in (
    (rf"</?(?:{TAGS})(?: [\w:-]+ ?= ?(?:\"[^\"\n]*\"|'[^'\n]*'))* ?/?>", " "),
    (r"^ ?(?:```|~~~).*$", ""),  # code fences
    (r"^ ?(?:[-=*_#|+:] ?){3,}$", "\n"),  # rules, and the line below a table's head
    (r"!?\[([^\[\]\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: \"[^\"\n]*\")?\)", r"\1"),  # links, images
    (r"^ ?(?:> ?)+", ""),  # quotes
    (r"^ ?(?:#{1,6} |[-*+•‣] (?:\[[ x]\] )?)", "\n"),  # headings, items
    (r"^ ?(\d{1,3})[.)] (?=\S)", r"\n\1, "),  # numbered items
    (r"^ ?\|(.*?)\|? ?$", r"\n\1"),  # a table's row
    (r"(?<=\d) ?\* ?(?=\d)", " times "),
    (r"\*+|~~+|`+|(?<!\w)_+|_+(?!\w)", ""),
    (r" ?\|+ ?", ", "),
    (r"(?<!\S)(?:[:;=]['-]?[()\[\]DP/\\]|<3)(?!\w)", ""),  # faces
)]  # fmt: skip
WRAPPED = re.compile(r"(?<=[^\n.!?:;]) ?\n ?(?=[a-z])")  # a sentence goes on in the next line

TOP_LEVEL = "com|org|net|edu|gov|io|co|ai|dev|app|info|me|tv|uk|de|fr|eu|us|ca|au|jp"
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+")
ADDRESS = re.compile(
    rf"\b(?:(?:https?|ftp)://|www\.)[^\s<>\"()]+|(?<![\w.-])(?:[a-z0-9-]+\.)+(?:{TOP_LEVEL})\b(?:/[^\s<>\"()]*)?",
    re.IGNORECASE,
)
MONEY = re.compile(
    rf"(?:\b(?P<country>US|CA|AU|HK|NZ))?(?P<sign>[{SIGNS}]) ?(?P<whole>{NUMBER})(?:\.(?P<part>\d+))?"
    r"(?: ?(?P<scale>hundred|thousand|million|billion|trillion)\b|(?P<letter>bn|tn|[kmbt])\b)?",
    re.IGNORECASE,
)
MONEY_FORMS = [(re.compile(pattern), by) for pattern, by in (
    (rf"(?<=\d) ?[-–—] ?(?=[{SIGNS}]\d)", " to "),
    (rf"([{SIGNS}])(\d[\d,.]*)[-–—](?=\d)", r"\1\2 to \1"),
    (rf"(?<![{SIGNS}\d.,])({NUMBER}(?:\.\d+)?) ?([{SIGNS}])(?!\d)", r"\2\1"),
)]  # fmt: skip
NUMBERS = [(re.compile(pattern), by) for pattern, by in (
    (r"(\d)'\s?(\d{1,2})(?:\"|'')", r"\1 foot \2"),
    (r"\b24/7\b", "24 7"),
    (r"(?<=\d) ?[–—] ?(?=\d)", "-"),  # a range
    (r"(?<![\w.,)])-(?=\.?\d)", " minus "),
    (r"(?<![\w.,])\.(?=\d)", "0."),
    (r"(?<![\w.-])(?:\+?\d{1,3}[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\w-])", lambda m: _spell(m[0])),  # a phone's
    (r"\+\d{1,3}(?:[ .-]?\(?\d{2,5}\)?){2,5}(?![\w-])", lambda m: _spell(m[0])),
    (r"\d+(?:\.\d+){2,}", lambda m: m[0].replace(".", " dot ")),  # versions, network addresses
    (rf"\d{{1,3}}(?:,\d{{3}}){{{MAX_CARDINAL // 3},}}(?!\d)", lambda m: _spell(m[0].replace(",", ""))),
    (rf"\d{{{MAX_CARDINAL + 1},}}", lambda m: _spell(m[0])),
    (r"(?<=\d),(?=\d{1,2}(?!\d)|\d{4})", ", "),  # not a group of thousands
    (r"(?<![\w.,:/-])0\d+(?![\w:/-]|[.,]\d)", lambda m: _spell(m[0])),
    (r"~ ?(?=\d)", " about "),
)]  # fmt: skip
RUN = re.compile(r"\d+|[^\W\d]+|\W+")
PAUSES = [(re.compile(pattern), by) for pattern, by in (
    (r"\s+", " "),
    (r" ?(?:--+|—+) ?| - ", ", "),
    (r"(?<!\.)\.{2,}+ ?(?=[a-z])", ", "),
    (r"\.{2,}", "."),
    (r"[!?]{2,}", lambda m: "?" if "?" in m[0] else "!"),
    (r"([^\w\s+])\1+", r"\1"),
    (r"\(\s*\)", " "),
    (r"\(([^()]*)\)(?=[:;])", r", \1"),  # hibari takes “):” for a face
    (r"\s+", " "),
    (r" (?=[,.;:!?)])", ""),
    (r"(?<=\() ", ""),
    (r"[,;:]+(?=[,;:.!?)])|(?<=[!?;:(])[,;:]+", ""),
    (r"^[ ,;:.!?)-]+|[ ,;:(&@+-]+$", ""),
)]  # fmt: skip


def speakable(text: str, known: Callable[[str], bool]) -> str:
    """Plain text of `text`, a paragraph a line, each ending in a full stop or its like. Raises `InvalidRequest`.

    `known` tells whether a lower-case word is in the dictionary.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidRequest(f"The text has {len(text):,} characters. Send at most {MAX_CHARACTERS:,} at a time.")
    text = _readable(_compatible(text))
    text = _replace(text, MARKUP)
    text = ADDRESS.sub(_address, EMAIL.sub(_address, text))
    text = _replace(MONEY.sub(_money, _replace(text, MONEY_FORMS)), NUMBERS)
    text = _symbols(WRAPPED.sub(" ", text).translate(PUNCTUATION))
    paragraphs = [_punctuate(_words(line, known)) for line in text.splitlines()]
    spoken = "\n".join(line for line in paragraphs if _has_words(line))
    if not spoken:
        raise InvalidRequest("There is nothing to say in this text: it has no words. Write a word or a sentence.")
    return spoken


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _replace(text: str, rules: Sequence[tuple[re.Pattern[str], Any]]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _compatible(text: str) -> str:
    """One code for each character: entities, ligatures, full-width and styled letters, fractions, blanks, line ends."""
    text = re.sub(r"&#?\w{2,31};", lambda match: html.unescape(match[0]), text)
    text = re.sub(r"[™®℠]", " ", text).replace("²", " squared ").replace("³", " cubed ")
    text = re.sub(r"(?<=\d)\s?(?=[¼-¾⅐-⅞])", " and ", text)
    text = re.sub(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}\b)", ",", text)  # a blank that groups thousands
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    text = re.sub(r"\r\n?|[\u2028\u2029\x85\v\f\x1c-\x1e]", "\n", text)
    return re.sub(r"\n\s*\n", "\n\n", re.sub(r"[^\S\n]+", " ", text))


def _readable(text: str) -> str:
    """Letters become those that the phonemizer knows, digits ASCII, controls blanks; other scripts are refused."""
    text = re.sub(r"(?<=\d) ?μ([gms])\b", lambda match: f" micro{METRIC[match[1]]}", text)
    text = re.sub(rf"(?<![{GREEK}])[{GREEK}](?![{GREEK}])", _greek, text)
    return re.sub(r"\S+", lambda match: "".join(_character(c, match[0]) for c in match[0]), text)


def _greek(match: re.Match[str]) -> str:
    """A Greek letter that stands alone is said by its name: “pi”."""
    name = unicodedata.name(match[0], "").split(" WITH ")[0]
    return f" {name.split()[-1].lower()} " if " LETTER " in name else match[0]


def _character(c: str, word: str) -> str:
    category = unicodedata.category(c)
    if category in ("Cc", "Cs", "Co", "Cn", "Cf"):
        return "" if category == "Cf" and c != "\u200b" else " "
    if category[0] == "L":
        return c if c.isascii() or c in ACCENTED else _letter(c, word)
    if category[0] == "N":
        return f"{unicodedata.numeric(c):.15g}" if category == "Nd" else f" {unicodedata.numeric(c):.15g} "
    return "" if category[0] == "M" else c


def _letter(c: str, word: str) -> str:
    """The nearest letter that can be read."""
    if unicodedata.category(c) == "Lm":
        return "'" if c in "ʼʻ" else ""
    name = unicodedata.name(c, "")
    plain = BASE_LETTER.fullmatch(name)
    base = plain[1] if plain else unicodedata.normalize("NFD", c)[0]
    if base.isascii():
        return base if c.isupper() else base.lower()
    script = name.split()[0].title().replace("Cjk", "Chinese") if name else "these"
    raise InvalidRequest(
        f"Lark speaks English only and can't read {script} letters, as in “{word[:40]}”. "
        "Write the text in Latin letters, or choose a model that speaks its language."
    )


def _address(match: re.Match[str]) -> str:
    """A web or mail address as one reads it out; the sentence's own punctuation behind it stays."""
    bare = match[0].rstrip(".,;:!?'*_")
    name = re.sub(r"^(?:(?:https?|ftp)://)?(?:www\.)?|/$", "", bare, flags=re.IGNORECASE)
    words = re.sub(r"[^\w\s]|_", lambda mark: f" {SPOKEN_MARKS.get(mark[0], '')} ", name)
    return f" {words} {match[0][len(bare) :]}"


def _money(match: re.Match[str]) -> str:
    """“$3.50” -> “3 dollars and 50 cents”. hibari would go on to read the sentence's other numbers as money."""
    whole, part, (unit, small) = match["whole"], match["part"], CURRENCIES[match["sign"]]
    unit = f"{match['country']} {unit}" if match["country"] else unit
    if scale := match["scale"] or SCALES.get((match["letter"] or "").lower()):
        return f" {whole}{'.' + part if part else ''} {scale} {_plural(unit)} "
    if not (part and len(part) == 2 and small):
        return f" {whole}.{part} {_plural(unit)} " if part else f" {_count(whole, unit)} "
    amounts = [_count(whole, unit)] * (whole != "0") + [_count(str(int(part)), small)] * (part != "00")
    return f" {' and '.join(amounts) or _count(whole, unit)} "


def _count(number: str, noun: str) -> str:
    return f"{number} {noun if number == '1' else _plural(noun)}"


def _plural(noun: str) -> str:
    return PLURALS.get(noun, noun + "s")


def _spell(number: str) -> str:
    """Digit by digit; the groups of a phone number, or fours of a long one, apart."""
    runs = re.findall(r"\d+", number)
    groups = [group for run in runs for group in ([run] if len(run) < 7 else re.findall(r"\d{1,4}", run))]
    return f" {'plus ' if number[0] == '+' else ''}{', '.join(' '.join(group) for group in groups)} "


def _symbols(text: str) -> str:
    """Signs become words. Emoji and ornaments are said, by name, only where there is nothing else to say."""
    silent = _has_words(text)
    return "".join(c if c.isalnum() or c.isspace() or c in KEPT else _symbol(c, silent) for c in text)


def _symbol(c: str, silent: bool) -> str:
    if c in SYMBOLS:
        return f" {SYMBOLS[c]} "
    if c in CURRENCIES:
        return f" {CURRENCIES[c][0]} "
    category = unicodedata.category(c)
    if category == "Sm" or category == "Sc" or (category == "So" and not silent):
        name = re.sub(r"^REGIONAL INDICATOR SYMBOL LETTER ", "", unicodedata.name(c, "SYMBOL"))
        return f" {name.removesuffix(' SIGN').lower() if len(name) > 1 else name} " + ("" if silent else ", ")
    return " "


def _words(line: str, known: Callable[[str], bool]) -> str:
    line = re.sub(r"\b[a-zA-Z]*([a-zA-Z])\1{2,}[a-zA-Z]*", lambda match: _unstretch(match[0], known), line)
    line = re.sub(rf"[^\W\d_]{{{MAX_WORD + 1},}}", lambda match: " ".join(re.findall(".{1,12}", match[0])), line)
    line = re.sub(r"\S{41,}", lambda match: RUN.sub(r"\g<0> ", match[0]), line)
    return re.sub(r"\b([CF])#", r"\1 sharp", line)


def _unstretch(word: str, known: Callable[[str], bool]) -> str:
    """“sooo” -> “so”, “gooood” -> “good”."""
    if word.isupper() and len(word) < 5:  # AAA, WWW
        return word
    twice = re.sub(r"(.)\1{2,}", r"\1\1", word)
    return twice if known(twice.lower()) else re.sub(r"(.)\1{2,}", r"\1", word)


def _punctuate(line: str) -> str:
    """One mark a pause, among those that Lark was taught, and an end."""
    line = _replace(line, PAUSES)
    return line if not line or re.search(r"[.!?][)']*$", line) else line + "."
