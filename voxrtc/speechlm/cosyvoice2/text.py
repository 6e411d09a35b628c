"""CosyVoice 2's text: Qwen2's tokens, and marks of its own that a text may hold, like [laughter].

The repository has no `tokenizer.json`; vocabulary and merges lie in the folder of the language model that training began with,
and the marks are numbered after them in the order of the reference (`cosyvoice/tokenizer/tokenizer.py`).
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from voxrtc.speechlm.weights import WeightsError, read_json

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
END_OF_PROMPT = "<|endofprompt|>"
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", END_OF_PROMPT)  # nobody may write these
SOUNDS = (  # these everybody may
    "[breath]", "<strong>", "</strong>", "[noise]", "[laughter]", "[cough]", "[clucking]", "[accent]", "[quick_breath]",
    "<laughter>", "</laughter>", "[hissing]", "[sigh]", "[vocalized-noise]", "[lipsmack]", "[mn]",
)  # fmt: skip


class Writer:
    """Writes text as token ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # A listener's text is text, whatever it looks like: nobody may write the prompt's own marks into it.
        tokenizer.encode_special_tokens = True
        self._end_of_prompt = tokenizer.token_to_id(END_OF_PROMPT)

    @classmethod
    def load(cls, folder: Path) -> Writer:
        """With `vocab.json` and `merges.txt` of a folder. Raises `WeightsError`."""
        vocabulary, path = read_json(folder / "vocab.json"), folder / "merges.txt"
        try:
            merges = [
                tuple(line.split(" ")) for line in path.read_text("utf-8").splitlines() if line and line[:9] != "#version:"
            ]
            tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        except FileNotFoundError as missing:
            raise WeightsError(f"{path} is missing. Check the model's folder.") from missing
        except Exception as broken:  # the library raises nothing more precise
            raise WeightsError(f"{path} does not go with vocab.json ({broken}). Fetch both again.") from broken
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
        tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in SOUNDS])
        return cls(tokenizer)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self._tokenizer.get_vocab_size()

    def ids(self, text: str) -> list[int]:
        """Of a text by itself."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def ids_and_ends(self, text: str) -> tuple[list[int], list[int]]:
        """The same, and for each where in the text it ends."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return encoded.ids, [end for _, end in encoded.offsets]

    def instruction(self, text: str) -> list[int]:
        """Of words that say how to speak, before the text that is spoken; none of none."""
        return [*self.ids(text), self._end_of_prompt] if text else []
