"""Prompts of the benchmarks: classes of traffic, each with a few texts and one answer length.

It knows texts and lengths; it does not know which system answers or how many sessions there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.traffic_texts import CODE, COPY, DOMAIN, LONG, SHORT
from outrider.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """Prompts of one kind, and the length of every answer to them in tokens."""

    name: str
    texts: tuple[str, ...]
    new_tokens: int
    temperature: float = 0.0

    def text(self, choice: int, number: int) -> str:
        """One of the texts. It opens with a number: a cache of prompts must not meet the same one twice."""
        return f"Note {number:05d}. {self.texts[choice % len(self.texts)]}"


CLASSES = (
    TrafficClass("short query", SHORT, 32),
    TrafficClass("long answer", LONG, 128),
    TrafficClass("code", CODE, 64),
    TrafficClass("domain", DOMAIN, 64),
)


COPYING = TrafficClass("copying", COPY, 96)
"""Answers that repeat most of the prompt."""


def warmer(traffic: TrafficClass, temperature: float) -> TrafficClass:
    """The same prompts at another temperature, which the name then holds."""
    return replace(traffic, name=f"{traffic.name}, {temperature:g}", temperature=temperature)


def shortened(classes: Sequence[TrafficClass], divisor: int) -> tuple[TrafficClass, ...]:
    """The same prompts with answers of a fraction of the length, for a quick look."""
    return tuple(replace(traffic, new_tokens=traffic.new_tokens // divisor) for traffic in classes)


def prompt_ids(tokenizer: Tokenizer, traffic: TrafficClass, choice: int, number: int) -> tuple[int, ...]:
    """Ids of a prompt as a chat message, so that every system gets the same."""
    return tuple(tokenizer.render_chat([{"role": "user", "content": traffic.text(choice, number)}]))
