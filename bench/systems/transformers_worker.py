"""``python -m bench.systems.transformers_worker MODEL [ASSISTANT]``: answers lines of JSON on stdin with token times.

The first line on stdout says that the models are loaded; each further one holds a pair (time, tokens) for everything
that came at once. It knows one request at a time.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from bench.systems.transformers import ASSISTED, LOOKUP, PLAIN
from outrider.inference.threads import available_threads

LOOKUP_TOKENS = 5


class Clock(BaseStreamer):  # type: ignore[misc]
    """Notes which new tokens come when, seconds of the monotonic clock; the first call carries the prompt."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, list[int]]] = []
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """Some tokens, or the prompt."""
        if self._prompt_seen:
            self.steps.append((time.monotonic(), value.flatten().tolist()))
        self._prompt_seen = True

    def end(self) -> None:
        """Nothing is held back."""


def _sampling(asked: Mapping[str, Any]) -> dict[str, Any]:
    if not asked["temperature"]:
        return {"do_sample": False}
    torch.manual_seed(asked["seed"])
    return {"do_sample": True, "temperature": asked["temperature"], "top_k": 0, "top_p": 1.0}


def _speculation(mode: str, assistant: Any) -> dict[str, Any]:
    modes = {PLAIN: {}, ASSISTED: {"assistant_model": assistant}, LOOKUP: {"prompt_lookup_num_tokens": LOOKUP_TOKENS}}
    return modes[mode]


def _answer(model: Any, assistant: Any, asked: Mapping[str, Any]) -> list[tuple[float, list[int]]]:
    clock = Clock()
    with torch.inference_mode():
        model.generate(
            torch.tensor([asked["ids"]]),
            max_new_tokens=asked["new_tokens"],
            min_new_tokens=asked["new_tokens"],
            pad_token_id=0,
            streamer=clock,
            **_sampling(asked),
            **_speculation(asked["mode"], assistant),
        )
    return clock.steps


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


def _load(folder: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()


def main(model_folder: str, assistant_folder: str = "") -> None:
    """Serve until stdin ends."""
    torch.set_num_threads(available_threads())
    model, assistant = _load(model_folder), _load(assistant_folder) if assistant_folder else None
    _print({"ready": True})
    for line in sys.stdin:
        _print({"steps": _answer(model, assistant, json.loads(line))})


if __name__ == "__main__":
    main(*sys.argv[1:])
