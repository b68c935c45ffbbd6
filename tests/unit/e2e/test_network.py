"""What is let through into a namespace and out of it is what NetworkPolicies allow, and the kubelet's probes."""

import pytest

from tests.deploy.network_policies import Place
from tests.e2e.network import NODE_IP, Network, Spot

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
def network() -> Network:
    places = {name: Place({"is": name}, "a") for name in ("server", "caller", "other")}
    spots = {
        name: Spot(name, f"10.0.0.{number}", place, ports=(5, 6), health=(6,))
        for number, (name, place) in enumerate(places.items())
    }
    return Network(POLICIES, spots=spots)


def accepted(network: Network, name: str, direction: str) -> list[str]:
    """Rules of a chain that name an address."""
    chain = network.rules(network.spots[name]).split("chain ")[{"input": 1, "output": 2}[direction]]
    return [line.strip() for line in chain.splitlines() if line.strip().startswith("ip ")]


def test_only_the_caller_reaches_the_server_and_only_its_port(network: Network) -> None:
    probe = f"ip saddr {NODE_IP} tcp dport 6 accept"
    assert accepted(network, "server", "input") == ["ip saddr 10.0.0.1 tcp dport 5 accept", probe]
    assert accepted(network, "caller", "output") == ["ip daddr 10.0.0.0 tcp dport 5 accept"]
    assert accepted(network, "server", "output") == []
    assert accepted(network, "caller", "input") == accepted(network, "other", "input") == [probe]
    assert accepted(network, "other", "output") == []


def test_everything_else_is_dropped(network: Network) -> None:
    assert network.rules(network.spots["other"]).count("policy drop;") == 2
