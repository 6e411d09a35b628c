"""Repetition-aware sampling (VALL-E 2, arXiv 2406.05370, section 3.2.1): out of a rut by chance.

A code is drawn from the likeliest ones; if it is among the latest, another is drawn, from all of them. So speech does not get
caught in a silence or a vowel, and is not driven out of one by a penalty either.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from voxrtc.speechlm.base import Sampler

WINDOW = 10  # codes; one of the same among them is enough, as the paper's share of 0.1 has it


def choose(scores: Tensor, recent: Tensor, sampler: Sampler) -> Tensor:
    """Scores [n, size] -> codes [n]; `recent` [n, WINDOW] are those before (-1: none)."""
    code = sampler(scores, 0, recent)
    number, random = _number(sampler)
    repeated = (recent == code[:, None]).any(1) & random
    return torch.where(repeated, _draw(scores.float(), number), code)


def _number(sampler: Sampler) -> tuple[Tensor, Tensor]:
    """A number in 0..1 for each stream, and whether it leaves anything to chance [n].

    The sampler's Gaussian numbers have a variance that is not ours to know; the angle of two of them is uniform whatever it is.
    The first two of four hang on the number that drew the code.
    """
    _, _, x, y = sampler.normal(4).unbind(1)
    return torch.atan2(y, x) / (2 * math.pi) + 0.5, (x != 0) | (y != 0)


def _draw(scores: Tensor, number: Tensor) -> Tensor:
    """By `number` [n] a code of all that can be."""
    cumulative = scores.double().softmax(-1).cumsum(-1)
    return torch.searchsorted(cumulative, number.double()[:, None] * cumulative[:, -1:])[:, 0].clamp(max=scores.shape[1] - 1)
