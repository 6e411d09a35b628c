"""Kyutai's own `pocket-tts` package at full size with random weights, measured from outside: see `bench.models`.

Runs in an environment that has the package: `python pocket_package.py FOLDER CONFIG`. Leaves its weights, a voice and what
it made of them in FOLDER, then measures once for each line that comes in.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from pocket_tts.models.model_state import export_model_state
from pocket_tts.models.tts_model import TTSModel
from pocket_tts.modules import text_conditioner
from pocket_tts.modules.stateful_module import increment_steps, init_states
from pocket_tts.utils.config import CONFIGS_DIR
from safetensors.torch import save_file
from torch import Tensor

VOICE, TOKENS, CHECKED, ROOM = 126, 50, 16, 400


class Package:
    """One stream of it: the package serves one at a time."""

    def __init__(self, folder: Path, config: str) -> None:
        text_conditioner.build_tokenizer = lambda *unused: None
        values = (CONFIGS_DIR / f"{config}.yaml").read_text("utf-8").splitlines()
        path = folder / "package.yaml"
        path.write_text("\n".join(line for line in values if not line.startswith("weights_path")), "utf-8")
        torch.manual_seed(0)
        self.model = TTSModel.load_model(config=path).eval()
        with torch.no_grad():
            for name, weight in self.model.flow_lm.flow_net.named_parameters():
                if name.startswith("final_layer.linear"):
                    weight.mul_(0.2)  # latents that stay small when they are fed back
        save_file({k: v.contiguous() for k, v in self.model.state_dict().items()}, folder / "model.safetensors")
        self.state = init_states(self.model.flow_lm, batch_size=1, sequence_length=VOICE)
        self._run(audio_conditioning=torch.randn(1, VOICE, self.model.flow_lm.dim))
        export_model_state(self.state, folder / "voice.safetensors")
        self.model._expand_kv_cache(self.state, VOICE + TOKENS + ROOM)
        self._run(text_tokens=torch.arange(TOKENS)[None])
        self.latent = torch.full((1, 1, self.model.flow_lm.ldim), torch.nan)
        self.codec = init_states(self.model.mimi, batch_size=1, sequence_length=ROOM * 16)

    def _run(self, **inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return self.model._run_flow_lm_and_increment_step(model_state=self.state, **inputs)[0]

    def step(self) -> None:
        """One more latent."""
        self.latent = self._run(backbone_input_latents=self.latent)

    def decode(self) -> Tensor:
        """The sound of the latest latent."""
        with torch.no_grad():
            latent = self.latent * self.model.flow_lm.emb_std + self.model.flow_lm.emb_mean
            sound = self.model.mimi.decode_from_latent(latent, self.codec)
            increment_steps(self.model.mimi, self.codec, increment=16)
        return sound[0, 0]

    def example(self) -> dict[str, Tensor]:
        """The first latents without noise, and their sound."""
        self.model.temp, temperature = 0.0, self.model.temp
        latents, sound = [], []
        for _ in range(CHECKED):
            self.step()
            latents.append(self.latent[0, 0])
            sound.append(self.decode())
        self.model.temp = temperature
        return {"latents": torch.stack(latents), "sound": torch.cat(sound)}


def seconds(work) -> float:  # type: ignore[no-untyped-def]
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    folder, config = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    package = Package(folder, config)
    save_file(package.example(), folder / "example.safetensors")
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        step = [seconds(package.step) for _ in range(count)]
        codec = [seconds(package.decode) for _ in range(count)]
        print(json.dumps({"step": step, "codec": codec}), flush=True)


if __name__ == "__main__":
    main()
