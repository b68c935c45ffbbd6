"""The packet filter of a place in the network: it lets through what NetworkPolicies allow. It does not know ``nft``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.deploy.network_policies import Place, Policy, allowed

PREFIX = "outrider-e2e-"
"""Of the names of namespaces."""
_RULES = """\
flush ruleset
table inet pods {{
  chain input {{
    type filter hook input priority 0; policy drop;
    iif lo accept
    ct state established,related accept
{ingress}
  }}
  chain output {{
    type filter hook output priority 0; policy drop;
    oif lo accept
    ct state established,related accept
{egress}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Spot:
    """One namespace: its address, what it is to NetworkPolicies, the ports that are open there, and those among them
    that its node asks for health."""

    name: str
    ip: str
    place: Place
    ports: tuple[int, ...] = ()
    health: tuple[int, ...] = ()

    @property
    def namespace(self) -> str:
        return PREFIX + self.name

    def words(self, *command: str) -> tuple[str, ...]:
        """A command as it is run there. It gets a mount namespace of its own."""
        return ("ip", "netns", "exec", self.namespace, *command)


def rules(spot: Spot, spots: Iterable[Spot], policies: Sequence[Policy], node_ip: str) -> str:
    """The filter of one among all ``spots``, for ``nft``. Its node may ask it for health."""
    others = [other for other in spots if other != spot]
    ingress = [
        f"    ip saddr {other.ip} tcp dport {port} accept"
        for other in others
        for port in spot.ports
        if allowed(policies, other.place, spot.place, port)
    ]
    ingress += [f"    ip saddr {node_ip} tcp dport {port} accept" for port in spot.health]
    egress = [
        f"    ip daddr {other.ip} tcp dport {port} accept"
        for other in others
        for port in other.ports
        if allowed(policies, spot.place, other.place, port)
    ]
    return _RULES.format(ingress="\n".join(ingress), egress="\n".join(egress))
