"""Settings of the orchestrator. It does not read the environment; ``__main__`` does."""

from dataclasses import dataclass

from outrider.config import setting


@dataclass(frozen=True, slots=True)
class OrchestratorConfig:
    """Each field is the variable OUTRIDER_<FIELD>."""

    tokenizer: str
    """Folder with the target's tokenizer.json."""
    target: str = setting("127.0.0.1:50052")
    """Addresses of the target replicas, separated by commas."""
    draft: str = setting("")
    """Addresses of the draft replicas, separated by commas. Empty means none: every round is target-only or a copy."""
    listen: str = setting("127.0.0.1:50051")
    """Address to serve on."""
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
    draft_timeout_s: float = setting(2.0, least=0.001)
    """Longest wait for a proposal; after it the round goes on without."""
    verify_timeout_s: float = setting(120.0, least=0.01)
    """Longest wait for a verdict; after it the target counts as gone."""
    target_patience_s: float = setting(60.0, least=0.0)
    """How long a running request waits for a lost target to come back."""
    drain_s: float = setting(20.0, least=0.0)
    """Seconds that running answers get to end after SIGTERM."""
