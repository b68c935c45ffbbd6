"""Who gets in and who does not: attempts from several namespaces with several certificates, and how each must end.

It does not know what else goes on.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.certificates import Authority
from tests.deploy.manifests import ROOT
from tests.e2e.cluster import Cluster
from tests.e2e.filters import Spot


async def knock(spot: Spot, address: str, *words: str) -> str:
    """The word that an attempt from a namespace ends with."""
    told = spot.words(sys.executable, "-m", "tests.e2e.knocking", address, *words)
    process = await asyncio.create_subprocess_exec(
        *told, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await process.communicate()
    return said.decode().strip()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who knocks where, with which words, and what that must end with."""

    who: str
    spot: Spot
    address: str
    words: tuple[str, ...]
    must: str
    got: str = ""

    @property
    def right(self) -> bool:
        return self.got == self.must

    def __str__(self) -> str:
        verdict = " (as it must)" if self.right else f"; MUST BE {self.must}"
        return f"{self.who}: {self.got}{verdict}"

    async def made(self) -> "Attempt":
        """The same, with what it ended with."""
        return replace(self, got=await knock(self.spot, self.address, *self.words))


@dataclass(frozen=True, slots=True)
class Visitors:
    """Places outside of the namespace: of clients, of Prometheus, and of anybody."""

    clients: Spot
    prometheus: Spot
    stranger: Spot


def certificates(cluster: Cluster) -> dict[str, str]:
    """Folders of certificates that are right, of another authority, and too old."""
    own, folder = cluster.authority, cluster.folder
    own.write(folder / "client", "outrider-client")
    own.write(folder / "old", "outrider-client", expired=True)
    Authority.new().write(folder / "foreign", "outrider-client", trusted=own.pem)
    return {name: str(folder / name) for name in ("client", "old", "foreign")}


def _certificate_of(cluster: Cluster, component: str) -> str:
    return str(Path(cluster.running[component][0].root) / "etc/outrider/tls")


def attempts(cluster: Cluster, visitors: Visitors, key: str) -> Sequence[Attempt]:
    """Every door, from every side."""
    folders = certificates(cluster)
    there = {component: pods[0].spot for component, pods in cluster.running.items()}
    orchestrator, target, draft, redis = (there[name] for name in ("orchestrator", "target", "draft", "redis"))
    front, verify = f"{orchestrator.ip}:50051", f"{target.ip}:50052"
    as_client = ("--role", "orchestrator", "--tls", folders["client"])

    def tls(folder: str, role: str = "target") -> tuple[str, ...]:
        return ("--role", role, "--tls", folder)

    return (
        Attempt("a client with certificate and key", visitors.clients, front, (*as_client, "--key", key), "OK"),
        Attempt("a client without a key", visitors.clients, front, as_client, "UNAUTHENTICATED"),
        Attempt("a client in the clear", visitors.clients, front, ("--role", "orchestrator"), "UNAVAILABLE"),
        Attempt(
            "a certificate of another authority",
            visitors.clients,
            front,
            tls(folders["foreign"], "orchestrator"),
            "UNAVAILABLE",
        ),
        Attempt("an expired certificate", visitors.clients, front, tls(folders["old"], "orchestrator"), "UNAVAILABLE"),
        Attempt("a client at a target", visitors.clients, verify, (), "CLOSED"),
        Attempt("a client at Redis", visitors.clients, f"{redis.ip}:6379", (), "CLOSED"),
        Attempt("a stranger at the orchestrator", visitors.stranger, front, (), "CLOSED"),
        Attempt("a draft at a target", draft, verify, (), "CLOSED"),
        Attempt("a target at a draft", target, f"{draft.ip}:50053", (), "CLOSED"),
        Attempt("a draft at Redis", draft, f"{redis.ip}:6379", (), "OPEN"),
        Attempt("Prometheus at a target's metrics", visitors.prometheus, f"{target.ip}:9464", (), "OPEN"),
        Attempt("a client at a target's metrics", visitors.clients, f"{target.ip}:9464", (), "CLOSED"),
        Attempt("a draft at another's health port", draft, f"{target.ip}:50059", (), "CLOSED"),
        Attempt(
            "from an orchestrator's place, with its certificate",
            orchestrator,
            verify,
            tls(_certificate_of(cluster, "orchestrator")),
            "OK",
        ),
        Attempt(
            "from an orchestrator's place, with a draft's certificate",
            orchestrator,
            verify,
            tls(_certificate_of(cluster, "draft")),
            "PERMISSION_DENIED",
        ),
        Attempt(
            "from an orchestrator's place, with a client's certificate",
            orchestrator,
            f"{draft.ip}:50053",
            tls(folders["client"], "draft"),
            "PERMISSION_DENIED",
        ),
        Attempt(
            "from an orchestrator's place, in the clear", orchestrator, verify, ("--role", "target"), "UNAVAILABLE"
        ),
    )
