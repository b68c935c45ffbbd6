"""``outrider doctor``: what is reachable, which models serve, whether they fit together."""

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from outrider.cli.connecting import connect, look
from outrider.errors import OutriderError
from outrider.home import DRAFT_NAME, TARGET_NAME, models_folder
from outrider.v1 import orchestrator_pb2 as pb

_PACKAGES = ("grpcio", "protobuf", "tokenizers", "torch", "transformers", "numba")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``ok`` None is information only."""

    topic: str
    ok: bool | None
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"topic": self.topic, "ok": self.ok, "detail": self.detail}


def _installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


def local_findings(environment: Mapping[str, str]) -> list[Finding]:
    """What this machine has."""
    folder = models_folder(environment)
    here = [name for name in (TARGET_NAME, DRAFT_NAME) if (folder / name).is_dir()]
    pair = f"prepared in {folder}" if len(here) == 2 else "not prepared; run `outrider models prepare`"
    return [
        Finding("python", sys.version_info >= (3, 11), platform.python_version()),
        Finding("packages", None, ", ".join(_installed(package) for package in _PACKAGES)),
        Finding("default pair", None, pair),
    ]


def _replica(name: str, status: pb.ReplicaStatus) -> Finding:
    state = pb.ReplicaState.Name(status.state).removeprefix("REPLICA_STATE_").lower()
    if status.state == pb.REPLICA_STATE_ABSENT:
        return Finding(name, None, "none is configured; every round is target-only")
    if status.state != pb.REPLICA_STATE_READY:
        return Finding(name, False, f"{status.address} is {state}: {status.reason}")
    info = status.info
    numbers = f"{info.vocab_size} tokens, {info.max_positions} positions, KV for {info.kv_capacity_tokens} tokens"
    return Finding(name, True, f"{status.address} {info.model_id} in {info.numerics.dtype}, {numbers}")


def _invariance(name: str, status: pb.ReplicaStatus) -> Finding:
    ok = status.info.row_invariant
    detail = status.info.numerics.path if ok else "passes of different sizes differ: equal text is not guaranteed"
    return Finding(f"{name} bits", ok, detail)


def _tokenizers(info: pb.GetInfoResponse) -> Finding:
    if info.draft.state == pb.REPLICA_STATE_REFUSED:
        return Finding("pair", False, info.draft.reason)
    same = info.target.info.tokenizer_fingerprint == info.draft.info.tokenizer_fingerprint
    words = "match" if same else "DIFFER"
    return Finding("pair", same, f"tokenizers {words} (fingerprint {info.target.info.tokenizer_fingerprint[:12]})")


async def remote_findings(address: str, api_key: str, environment: Mapping[str, str]) -> list[Finding]:
    """What the orchestrator at an address says."""
    try:
        async with connect(address, api_key, environment) as client:
            info = await look(client)
    except OutriderError as error:
        return [Finding("orchestrator", False, error.message)]
    findings = [
        Finding("orchestrator", True, f"{address}, {info.active_requests} running, {info.sessions} kept sessions"),
        _replica("target", info.target),
        _replica("draft", info.draft),
    ]
    if info.target.state == pb.REPLICA_STATE_READY:
        findings.append(_invariance("target", info.target))
        if info.draft.HasField("info"):
            findings.append(_tokenizers(info))
    return findings
