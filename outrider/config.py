"""Configuration as frozen dataclasses, read from a mapping that the caller passes in.

Each field is one variable, OUTRIDER_<FIELD>. It does not read the environment itself: ``__main__`` and the
command line do.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from outrider.pass_times import PassTimes

T = TypeVar("T")
PREFIX = "OUTRIDER_"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class ConfigError(ValueError):
    """A variable has a value that is not allowed; the message names both."""


def parse_bytes(text: str) -> int:
    """Number of bytes from "1073741824", "512MiB" or "1G"."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError("a size such as 512MiB or 2GiB")
    return int(match[1]) * _UNITS[match[2].upper()]


def parse_budget(text: str) -> int:
    """Like ``parse_bytes``; 0 for "auto"."""
    if text.strip().lower() == "auto":
        return 0
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ValueError(f"auto or {error}") from None


def _parse_bool(text: str) -> bool:
    try:
        return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
    except KeyError:
        raise ValueError("true or false") from None


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError  # it would be inside any bounds
    return value


def _number(kind: Callable[[str], Any], name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(name) from None

    return parse


_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: _number(int, "a whole number"),
    float: _number(_parse_float, "a number"),
    bool: _parse_bool,
}


def setting(default: Any = dataclasses.MISSING, *, parse: Callable[[str], Any] | None = None, **bounds: Any) -> Any:
    """A field with bounds: ``least``, ``most`` or ``choices``, checked for values that are given; ``engine`` is the
    only one that the field means something to."""
    return dataclasses.field(default=default, metadata={"parse": parse, **bounds})


def _check(variable: str, value: Any, bounds: Mapping[str, Any]) -> None:
    least, most, choices = bounds.get("least"), bounds.get("most"), bounds.get("choices")
    if choices is not None and value not in choices:
        raise ConfigError(f"{variable}={value!r}: must be one of {', '.join(choices)}")
    if least is not None and value < least:
        raise ConfigError(f"{variable}={value!r}: must be at least {least}")
    if most is not None and value > most:
        raise ConfigError(f"{variable}={value!r}: must be at most {most}")


def load(kind: type[T], environment: Mapping[str, str]) -> T:
    """Build a configuration from variables. Raises ConfigError; unset variables keep their defaults."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        variable = PREFIX + field.name.upper()
        text = environment.get(variable)
        if text is None:
            if field.default is dataclasses.MISSING:
                raise ConfigError(f"{variable} is not set and has no default")
            continue
        parse = field.metadata.get("parse") or _PARSERS[field.type]
        try:
            values[field.name] = parse(text)
        except ValueError as error:
            raise ConfigError(f"{variable}={text!r}: must be {error}") from None
        _check(variable, values[field.name], field.metadata)
    return kind(**values)


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """Settings that a draft and a target replica share."""

    model: str
    """Path of a model folder, or a Hugging Face id."""
    listen: str = setting("127.0.0.1:50052")
    """Address to serve on."""
    engine: str = setting("model", choices=("model", "synthetic"))
    """``synthetic`` loads no weights: passes take a set time and choices follow a rule (``inference/synthetic.py``)."""
    dtype: str = setting("bfloat16", choices=("bfloat16", "float32", "float16"), engine="model")
    """Data type of weights and cache."""
    device: str = setting("cpu", engine="model")
    """Torch device."""
    kv_bytes: int = setting(0, parse=parse_budget)
    """Size of the KV cache. 0 (``auto``) takes a share of what is free once the weights are loaded."""
    session_ttl_s: float = setting(900.0, least=0.1)
    """Seconds after which an idle session's cache is dropped."""
    max_draft_tokens: int = setting(16, least=1, most=64)
    """Most draft tokens in a round."""
    max_rows: int = setting(256, least=64, most=8192)
    """Most rows of a forward pass; prompts are cut into chunks of it."""
    chunk_rows: int = setting(0, least=0, most=8192)
    """Prompt rows that join a pass while other sessions are in the middle of an answer. 0 measures how many keep
    such a pass within four times one without them."""
    threads: int = setting(0, least=0, most=1024, engine="model")
    """Threads of a forward pass. 0 takes the cores that the cgroup grants."""
    compile: str = setting("auto", choices=("off", "auto", "on"), engine="model")
    """The compiled pass: ``auto`` uses it as soon as its machine code is there and never waits for that,
    ``on`` builds it before serving and refuses a model that has none, ``off`` runs transformers' modules. On other
    devices, with OUTRIDER_ROW_INVARIANT on or off: CUDA graphs, recorded while serving; ``on`` tries one before."""
    row_invariant: str = setting("auto", choices=("off", "auto", "on"), engine="model")
    """Whether a row's bits may depend on the rows beside it. ``on`` refuses to start where they do; ``off`` takes what
    is fastest; ``auto`` takes a path that is meant to be invariant, and reports what the start-up check finds. On a CPU
    in bfloat16 or float32 all three are the same path."""
    max_waiting: int = setting(64, least=0)
    """Most new sessions that wait for room in the KV cache; further ones are refused with RESOURCE_EXHAUSTED."""
    queue_s: float = setting(30.0, least=0.0)
    """Longest that a new session waits for room, and that a running one waits before older ones give way."""
    max_streams: int = setting(1024, least=1)
    """Most calls served at once; further ones are refused with RESOURCE_EXHAUSTED."""
    drain_s: float = setting(20.0, least=0.0)
    """Seconds that running streams get to end after SIGTERM."""
    registry: str = setting("")
    """URL of a Redis (``redis://host:6379/0``) in which this replica announces itself; empty for none."""
    advertise: str = setting("")
    """Address that it announces. Empty takes OUTRIDER_LISTEN, where that names a host."""
    lease_s: float = setting(5.0, least=0.5, most=300.0)
    """Seconds after which an announcement that is not renewed is void."""
    trust_remote_code: bool = setting(False, engine="model")
    """Whether code that a model's repository ships may run."""
    synthetic_pass_ms: PassTimes = setting(  # noqa: RUF009 - a field like the others
        PassTimes(), parse=PassTimes.parse, engine="synthetic"
    )
    """Milliseconds of a synthetic pass: a number, or points of rows and milliseconds with lines between them."""

    def __post_init__(self) -> None:
        if self.max_draft_tokens >= self.max_rows:  # a block is verified in one pass: its tokens and one more
            raise ConfigError(
                f"{PREFIX}MAX_DRAFT_TOKENS={self.max_draft_tokens}: must be below {PREFIX}MAX_ROWS={self.max_rows}"
            )
        for field in dataclasses.fields(self):
            engine, value = field.metadata.get("engine", self.engine), getattr(self, field.name)
            if engine != self.engine and value != field.default:
                raise ConfigError(f"{PREFIX}{field.name.upper()}={str(value)!r}: needs {PREFIX}ENGINE={engine}")


@dataclasses.dataclass(frozen=True, slots=True)
class DraftConfig(ReplicaConfig):
    """Settings of a draft replica."""

    draft_vocab: str = setting("auto", engine="model")
    """Path of a .npy file of token ids that the draft's head is cut to, which makes guesses cheaper and leaves the text
    the same. ``auto`` takes draft_vocab.npy of the model's folder where there is one, ``none`` keeps all."""
    synthetic_acceptance: float = setting(0.8, least=0.0, most=1.0, engine="synthetic")
    """Chance that the choice of a synthetic draft is the target's, at each position by itself."""
    synthetic_second: float = setting(0.7, least=0.0, most=1.0, engine="synthetic")
    """Where that choice is wrong, the chance that the next likeliest token is the target's; where that is not either,
    the same chance again for the one after it, and so on."""
