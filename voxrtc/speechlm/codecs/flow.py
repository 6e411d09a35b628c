"""Flow matching's solver: noise -> what a network says it flows to (Lipman et al., arXiv 2210.02747).

Euler's steps on the cosine schedule of CosyVoice (arXiv 2407.05407, section 2.3), with classifier-free guidance (2207.12598):
the network is asked twice at each step, with its conditions and without, in one batch. What the network is, and what it
remembers of a stream at each step, is not the solver's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Solver:
    """`guidance` is how far the velocity is moved away from the one without conditions."""

    steps: int = 10
    guidance: float = 0.7

    @property
    def times(self) -> Tensor:
        """When the steps begin, and 1 [steps + 1]: short ones first, since noise decides early what comes of it."""
        return 1 - torch.cos(torch.linspace(0, 1, self.steps + 1) * (0.5 * math.pi))

    def __call__(self, noise: Tensor, velocity: Callable[[Tensor, int], Tensor]) -> Tensor:
        """`noise` [n, …] -> a sample of the same shape.

        `velocity(x, step)` of `x` [2n, …], twice the same n, gives velocities [2n, …]: with conditions, then without.
        """
        x, times = noise, self.times.tolist()
        for step in range(self.steps):
            guided, free = velocity(torch.cat((x, x)), step).chunk(2)
            x = x + (times[step + 1] - times[step]) * ((1 + self.guidance) * guided - self.guidance * free)
        return x
