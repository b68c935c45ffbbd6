"""Settings of a draft or target replica. It does not read the environment; ``__main__`` does."""

import dataclasses

from outrider.addresses import parse_listener
from outrider.config import PREFIX, ConfigError, parse_budget, setting
from outrider.pass_times import PassTimes
from outrider.safe_config import SafeConfig, check_safe


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaConfig(SafeConfig):
    """Settings that a draft and a target replica share."""

    model: str
    """Path of a model folder, or a Hugging Face id."""
    listen: str = setting("127.0.0.1:50052", parse=parse_listener)
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
        check_safe(self)
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
