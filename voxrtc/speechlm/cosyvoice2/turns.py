"""Text and codes in turn, step by step: what a step of a slot takes in, and whether it says anything.

Frame 0 follows the first turn's text, which is the prompt. A turn's fifteen codes are frames 0 to 14 of its `TURN`; the step
that takes in the last of them asks for more text (15), and those that take in the next turn's text but for its last token (16
to 19) say nothing either. After the last turn come what is left of the text, and the mark after which only codes follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from voxrtc.speechlm.cosyvoice2.network import Rows
from voxrtc.speechlm.cosyvoice2.running import CODES, MOST, TEXT, TURN, Script


@dataclass
class Turns:
    """Tables with a row a slot of the engine. All methods take slots [n] and how many frames each has made [n]."""

    table: Rows
    text: Tensor  # [slots, MOST] ids
    left: Tensor  # [slots] of them, those behind the last turn's
    ask: Tensor  # [slots] the frame after the last turn's codes, once the text is whole; -1 where there are no turns

    @classmethod
    def new(cls, slots: int, table: Rows, device: torch.device) -> Turns:
        """Of slots without any."""
        count = torch.zeros(slots, dtype=torch.long, device=device)
        return cls(table, torch.zeros(slots, MOST, dtype=torch.long, device=device), count, count - 1)

    def put(self, slot: int, script: Script | None) -> None:
        """Give a slot what is known of its text."""
        self.ask[slot], self.left[slot] = -1, 0
        if script:
            self.text[slot, : len(script.ids)] = torch.tensor(script.ids)
            self.left[slot] = len(script.ids) % TEXT
            self.ask[slot] = TURN * script.turns - TEXT if script.whole else TURN * MOST

    def rows(self, slots: Tensor, made: Tensor, said: Tensor) -> Tensor:
        """Rows of the table that the steps take in; `said` [n] are those of the latest codes."""
        tail, after = self._tail(slots, made)
        place = made % TURN
        turn_text = made // TURN * TEXT + torch.where(place == 0, TEXT - 1, place - CODES - 1 + TEXT)
        last_text = (self.ask[slots] + TEXT) // TURN * TEXT + after
        text = self.text[slots, torch.where(tail, last_text, turn_text).clamp(0, MOST - 1)]
        takes = torch.where(tail, after < self.left[slots], (place == 0) | (place > CODES))
        mark = tail & (after == self.left[slots])
        row = torch.where(takes, text, torch.where(mark, self.table.speak, said))
        return torch.where(self.ask[slots] < 0, said, row)

    def may_end(self, slots: Tensor, made: Tensor) -> Tensor:
        """Whether speech may be over."""
        tail, after = self._tail(slots, made)
        return (self.ask[slots] < 0) | (tail & (after > self.left[slots]))

    def frames(self, slots: Tensor, made: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        """What the frames are, of codes `said` [n] that would be; and which make no sound."""
        tail, after = self._tail(slots, made)
        place = made % TURN
        silent = (self.ask[slots] >= 0) & torch.where(tail, after < self.left[slots], place >= CODES)
        mark = torch.where(~tail & (place == CODES), self.table.fill, self.table.none)
        return torch.where(silent, mark, said), silent

    def _tail(self, slots: Tensor, made: Tensor) -> tuple[Tensor, Tensor]:
        """Who is behind the last turn, and how many steps."""
        after = made - self.ask[slots] - 1
        return (self.ask[slots] >= 0) & (after >= 0), after
