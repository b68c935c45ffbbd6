"""What is let through into a namespace and out of it is what NetworkPolicies allow, and the kubelet's probes."""

import pytest

from tests.deploy.network_policies import Place
from tests.e2e.filters import Spot, rules

NODE_IP = "10.0.0.99"

POLICIES = (
    {
        "metadata": {"name": "deny", "namespace": "a"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    },
    {
        "metadata": {"name": "serve", "namespace": "a"},
        "spec": {
            "podSelector": {"matchLabels": {"is": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"is": "caller"}}}], "ports": [{"port": 5}]}],
        },
    },
    {
        "metadata": {"name": "call", "namespace": "a"},
        "spec": {
            "podSelector": {"matchLabels": {"is": "caller"}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"podSelector": {"matchLabels": {"is": "server"}}}], "ports": [{"port": 5}]}],
        },
    },
)


@pytest.fixture
def spots() -> dict[str, Spot]:
    places = {name: Place({"is": name}, "a") for name in ("server", "caller", "other")}
    return {
        name: Spot(name, f"10.0.0.{number}", place, ports=(5, 6), health=(6,))
        for number, (name, place) in enumerate(places.items())
    }


def accepted(spots: dict[str, Spot], name: str, direction: str) -> list[str]:
    """Rules of a chain that name an address."""
    chain = rules(spots[name], spots.values(), POLICIES, NODE_IP).split("chain ")[{"input": 1, "output": 2}[direction]]
    return [line.strip() for line in chain.splitlines() if line.strip().startswith("ip ")]


def test_only_the_caller_reaches_the_server_and_only_its_port(spots: dict[str, Spot]) -> None:
    probe = f"ip saddr {NODE_IP} tcp dport 6 accept"
    assert accepted(spots, "server", "input") == ["ip saddr 10.0.0.1 tcp dport 5 accept", probe]
    assert accepted(spots, "caller", "output") == ["ip daddr 10.0.0.0 tcp dport 5 accept"]
    assert accepted(spots, "server", "output") == []
    assert accepted(spots, "caller", "input") == accepted(spots, "other", "input") == [probe]
    assert accepted(spots, "other", "output") == []


def test_everything_else_is_dropped(spots: dict[str, Spot]) -> None:
    assert rules(spots["other"], spots.values(), POLICIES, NODE_IP).count("policy drop;") == 2
