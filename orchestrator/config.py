"""Settings of the orchestrator. It does not read the environment; ``__main__`` does."""

import re
from dataclasses import dataclass

from outrider.addresses import parse_host_port, parse_listener, parse_optional
from outrider.config import ConfigError, setting
from outrider.safe_config import SafeConfig, check_safe, needs_ca

DEFAULT_TARGET = "127.0.0.1:50052"
_ADDRESS = re.compile(r"unix:.+|.+:\d+")


def parse_addresses(name: str, text: str) -> tuple[str, ...]:
    """Addresses separated by commas. Raises ConfigError that names the setting."""
    addresses = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
    if len(set(addresses)) < len(addresses) or not all(_ADDRESS.fullmatch(address) for address in addresses):
        raise ConfigError(f"{name}={text!r}: must be different addresses host:port separated by commas")
    return addresses


@dataclass(frozen=True, slots=True)
class OrchestratorConfig(SafeConfig):
    """Each field is the variable OUTRIDER_<FIELD>."""

    tokenizer: str
    """Folder with the target's tokenizer.json."""
    target: str = setting("")
    """Addresses of the target replicas, separated by commas; ``dns:///host:port`` is every address behind a name. Empty
    means 127.0.0.1:50052, or none beside a registry."""
    draft: str = setting("")
    """Addresses of the draft replicas, separated by commas. Without any, and without a registry, every round is
    target-only or a copy."""
    registry: str = setting("")
    """URL of a Redis (``redis://host:6379/0``) in which replicas announce themselves; empty for none."""
    lease_s: float = setting(5.0, least=0.5, most=300.0)
    """Seconds that a replica in use which nobody names any more is still treated like the others."""
    journal: str = setting("")
    """URL of a Redis in which answers in the making and kept sessions are journalled, so that another orchestrator can
    go on with them; empty for none."""
    resume_s: float = setting(60.0, least=1.0)
    """Seconds after its last token in which an answer that was lost can be resumed."""
    listen: str = setting("127.0.0.1:50051", parse=parse_listener)
    """Address to serve on."""
    http: str = setting("", parse=parse_optional)
    """Address host:port to serve the live page on; empty for none."""
    tls_clients: str = setting("certificate", choices=("certificate", "any"))
    """With certificates: whether callers must show one (``certificate``), or may come without (``any``): then API keys
    say who they are."""
    tls_target_name: str = setting("")
    """DNS name that a target's certificate must have; empty for the host of its address."""
    tls_draft_name: str = setting("")
    """DNS name that a draft's certificate must have; empty for the host of its address."""
    max_draft_tokens: int = setting(16, least=1, most=64)
    """Most draft tokens per round, of AUTO as well as of a request that names a number."""
    look_ahead: bool = setting(True)
    """Whether AUTO may have the draft prepare the next block while one is verified. It changes the speed only."""
    default_max_new_tokens: int = setting(256, least=1)
    """Tokens to emit when a request does not say."""
    max_streams: int = setting(1024, least=1)
    """Most calls served at once; further ones are refused with RESOURCE_EXHAUSTED."""
    session_ttl_s: float = setting(600.0, least=0.1)
    """Seconds that a kept session waits for its next turn."""
    max_sessions: int = setting(10_000, least=1)
    """Most kept sessions; a new one drops the least recently used."""
    tenants: str = setting("")
    """Path of a TOML file with the API keys and limits of tenants. Empty for none: whoever calls may name any tenant,
    and none has limits of its own."""
    max_answers: int = setting(256, least=1)
    """Most answers running at once, of all tenants together; further requests wait."""
    max_waiting: int = setting(512, least=0)
    """Most requests that wait for their turn; beyond it the tenant with the most waiting is refused its newest."""
    admission_s: float = setting(10.0, least=0.0)
    """Longest wait of a request before it is refused with RESOURCE_EXHAUSTED."""
    draft_timeout_s: float = setting(2.0, least=0.001)
    """Longest wait for a proposal; after it the round goes on without."""
    verify_timeout_s: float = setting(120.0, least=0.01)
    """Longest wait for a verdict; after it the target counts as gone."""
    target_patience_s: float = setting(60.0, least=0.0)
    """How long a running request waits for a lost target to come back."""
    client_stall_s: float = setting(60.0, least=0.1)
    """How long a client may leave its answer unread before it is given up."""
    recent_requests: int = setting(128, least=0)
    """Requests whose spans are remembered for ``outrider trace`` and the live page, in memory, by tenant."""
    recent_spans: int = setting(30_000, least=1)
    """Most spans remembered, of all requests; one takes about half a kilobyte."""
    trace_slow_first_s: float = setting(5.0, least=0.0)
    """A request whose first token takes longer is exported, with all its rounds, although it was not sampled."""
    trace_slow_token_s: float = setting(0.5, least=0.0)
    """And one whose later tokens take longer than this each."""
    trace_tokens: bool = setting(False)
    """Whether exported spans of rounds say which tokens (ids) were proposed and committed."""
    drain_s: float = setting(20.0, least=0.0)
    """Seconds that running answers get to end after SIGTERM."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Addresses and names of targets. Raises ConfigError."""
        return parse_addresses("OUTRIDER_TARGET", self.target or ("" if self.registry else DEFAULT_TARGET))

    @property
    def drafts(self) -> tuple[str, ...]:
        """Addresses and names of drafts. Raises ConfigError."""
        return parse_addresses("OUTRIDER_DRAFT", self.draft)

    @property
    def page_address(self) -> tuple[str, int] | None:
        """Host and port of the live page; None for none."""
        return parse_host_port(self.http) if self.http else None

    def __post_init__(self) -> None:
        check_safe(self)
        if self.tls_clients == "any" and self.peers:
            raise ConfigError(
                "OUTRIDER_TLS_PEERS cannot be set with OUTRIDER_TLS_CLIENTS=any: nobody is asked for a name"
            )
        for name, default in (("tls_target_name", ""), ("tls_draft_name", ""), ("tls_clients", "certificate")):
            if getattr(self, name) != default and not self.tls_ca:
                raise needs_ca(name, getattr(self, name))
