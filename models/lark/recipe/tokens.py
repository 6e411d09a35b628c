"""Teacher features -> training data: phoneme ids, and per frame the seven codes, the pointer and the frames elapsed.

python tokens.py --work build/lark        # features.npz, codebooks.safetensors -> tokens.pt
"""

import argparse
from pathlib import Path

import codebooks
import numpy as np
import teacher
import torch
from torch import Tensor

LEAD = 3  # frames (75 ms)


class Utterance:
    """One sentence of L phonemes and F frames, in the narrowest integers that hold it."""

    def __init__(self, ids: Tensor, codes: Tensor, pointer: Tensor, elapsed: Tensor):
        self.ids = ids  # [L] int16
        self.codes = codes  # [F, 7] int16: advance, four units, pitch, energy
        self.pointer = pointer  # [F] int16: which phoneme the frame belongs to
        self.elapsed = elapsed  # [F] int16: frames since that phoneme began

    def __len__(self) -> int:
        return len(self.codes)

    def fields(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.ids, self.codes, self.pointer, self.elapsed


def join(utterances: list[Utterance]) -> Utterance:
    """Sentences spoken one after the other, as hibari speaks them: each with its own pads, pointers running on."""
    offset, pointers = 0, []
    for u in utterances:
        pointers.append(u.pointer + offset)
        offset += len(u.ids)
    ids, codes, _, elapsed = (torch.cat(parts) for parts in zip(*(u.fields() for u in utterances), strict=True))
    return Utterance(ids, codes, torch.cat(pointers), elapsed)


def utterance(features: teacher.Features, units: Tensor, prosody: Tensor) -> Utterance:
    """Lay units [L, 4] out over the phonemes' durations; a phoneme's last frame carries `advance`."""
    durations = torch.from_numpy(features.durations.astype(np.int64))
    pointer = torch.repeat_interleave(torch.arange(len(durations)), durations)
    elapsed = torch.arange(len(pointer)) - (durations.cumsum(0) - durations)[pointer]
    advance = elapsed == durations[pointer] - 1
    codes = torch.cat([advance[:, None], units[pointer], prosody], 1)
    ids = torch.from_numpy(features.ids.astype(np.int16))
    return without_lead(Utterance(ids, codes.short(), pointer.short(), elapsed.short()))


def without_lead(u: Utterance) -> Utterance:
    """The utterance without most of the silence before it: of its first pad, the last LEAD frames stay.

    The teacher waits 350 ms before it speaks, which a listener would wait too. Left out of the data, since a model that
    is cut short at inference only loses its first sound. (Measured: "Snow fell" became "No fell".)
    """
    cut = max(0, int((u.pointer == 0).sum()) - LEAD)
    elapsed = torch.where(u.pointer == 0, u.elapsed - cut, u.elapsed)
    return Utterance(u.ids, u.codes[cut:], u.pointer[cut:], elapsed[cut:])


def tokenise(features: list[teacher.Features], books: dict[str, Tensor], batch: int = 500) -> list[Utterance]:
    """All sentences, encoded `batch` at a time."""
    done = []
    for at in range(0, len(features), batch):
        part = features[at : at + batch]
        text, pitch, energy = (
            torch.from_numpy(np.concatenate([getattr(f, name) for f in part]).astype(np.float32))
            for name in ("text", "pitch", "energy")
        )
        units = codebooks.encode_units(text, books).split([len(f.ids) for f in part])
        prosody = codebooks.encode_prosody(pitch, energy, books).split([int(f.durations.sum()) for f in part])
        done += [utterance(*row) for row in zip(part, units, prosody, strict=True)]
    return done


def save(utterances: list[Utterance], path: Path) -> None:
    torch.save([u.fields() for u in utterances], path)


def load(path: Path) -> list[Utterance]:
    return [Utterance(*fields) for fields in torch.load(path, weights_only=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("build/lark"))
    work = parser.parse_args().work
    utterances = tokenise(teacher.load(work / "features.npz"), codebooks.load(work))
    save(utterances, work / "tokens.pt")
    print(f"{len(utterances)} utterances, {sum(map(len, utterances))} frames")


if __name__ == "__main__":
    main()
