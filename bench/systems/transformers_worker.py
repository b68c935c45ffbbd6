"""``python -m bench.systems.transformers_worker MODEL``: answers lines of JSON on stdin with token times on stdout.

The first line on stdout says that the model is loaded. It knows one request at a time.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from outrider.inference.threads import available_threads


class Clock(BaseStreamer):  # type: ignore[misc]
    """Notes when each new token comes, seconds of the monotonic clock; the first call carries the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """One token, or the prompt."""
        if self._prompt_seen:
            self.times.append(time.monotonic())
        self._prompt_seen = True

    def end(self) -> None:
        """Nothing is held back."""


def _answer(model: Any, ids: Sequence[int], new_tokens: int) -> list[float]:
    clock = Clock()
    with torch.inference_mode():
        model.generate(
            torch.tensor([list(ids)]),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
            streamer=clock,
        )
    return clock.times


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


def main(model_folder: str) -> None:
    """Serve until stdin ends."""
    torch.set_num_threads(available_threads())
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).eval()
    _print({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        _print({"times": _answer(model, asked["ids"], asked["new_tokens"])})


if __name__ == "__main__":
    main(sys.argv[1])
