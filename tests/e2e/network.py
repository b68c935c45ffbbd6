"""Network namespaces on one bridge, each behind its packet filter.

Needs root, ``ip`` and ``nft``. It knows places and ports, and not what runs there.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.network_policies import Place, Policy
from tests.e2e.filters import PREFIX, Spot, rules

BRIDGE = "outrider0"
_SUBNET = "10.203.0"
NODE_IP = f"{_SUBNET}.1"
_FIRST = 10
_HOSTS = Path("/etc/netns")


def _do(*words: str, text: str | None = None) -> None:
    """Run a command. Raises AssertionError with what it said."""
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"


def missing() -> str:
    """What this machine lacks, in words; empty when it can."""
    lacking = [tool for tool in ("ip", "nft") if shutil.which(tool) is None]
    if lacking:
        return f"{' and '.join(lacking)} not found; on Debian: apt-get install iproute2 nftables"
    probe = subprocess.run(["ip", "netns", "add", f"{PREFIX}probe"], capture_output=True)
    subprocess.run(["ip", "netns", "del", f"{PREFIX}probe"], capture_output=True)
    return "" if probe.returncode == 0 else "network namespaces need root"


@dataclass(slots=True)
class Network:
    """Owner of the bridge and of the namespaces on it."""

    policies: Sequence[Policy]
    names: Mapping[str, str] = field(default_factory=dict)
    spots: dict[str, Spot] = field(default_factory=dict)
    _made: int = 0

    def open(self) -> None:
        """Create the bridge, with the node's address on it; what an earlier run has left goes first."""
        self.close()
        _do("ip", "link", "add", BRIDGE, "type", "bridge")
        _do("ip", "address", "add", f"{NODE_IP}/24", "dev", BRIDGE)
        _do("ip", "link", "set", BRIDGE, "up")

    def next_ip(self) -> str:
        """The address of the next namespace."""
        return f"{_SUBNET}.{_FIRST + self._made}"

    def add(self, name: str, place: Place, ports: Sequence[int] = (), health: Sequence[int] = ()) -> Spot:
        """One more namespace, filtered like the others."""
        spot = Spot(name, self.next_ip(), place, tuple(ports), tuple(health))
        self._made += 1
        cable = f"or{self._made}"
        _do("ip", "netns", "add", spot.namespace)
        _do("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", spot.namespace)
        _do("ip", "link", "set", cable, "master", BRIDGE, "up")
        for words in (("address", "add", f"{spot.ip}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            _do("ip", "-n", spot.namespace, *words)
        _do("ip", "-n", spot.namespace, "link", "set", "lo", "up")
        self.spots[name] = spot
        self.tell()
        return spot

    def remove(self, name: str) -> None:
        """A namespace goes, with its cable."""
        _do("ip", "netns", "del", self.spots.pop(name).namespace)
        self.tell()

    def call(self, name: str, ip: str) -> None:
        """Who a host name stands for, everywhere."""
        self.names = {**self.names, name: ip}
        self.tell()

    def tell(self) -> None:
        """Names and filters of every namespace, as things are now."""
        lines = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in self.names.items())]
        for spot in self.spots.values():
            folder = _HOSTS / spot.namespace
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text("\n".join(lines) + "\n")
            _do(*spot.words("nft", "-f", "-"), text=rules(spot, self.spots.values(), self.policies, NODE_IP))

    def close(self) -> None:
        """Everything goes, of an earlier run too."""
        found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()
        for namespace in [word for word in found if word.startswith(PREFIX)]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
        for folder in _HOSTS.glob(f"{PREFIX}*") if _HOSTS.exists() else ():
            shutil.rmtree(folder)
        self.spots.clear()
