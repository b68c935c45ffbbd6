"""The NetworkPolicies allow exactly the calls that are made; and what judges them follows the rules of Kubernetes."""

from typing import Any

import pytest

from tests.deploy.manifests import K8S, OVERLAYS, Object, built, of_kind, pods
from tests.deploy.network_policies import End, External, Place, allowed, selects

OURS = "outrider"
ANYWHERE = External("203.0.113.9")
DNS = Place({"k8s-app": "kube-dns"}, "kube-system")
CLIENT = Place({}, "apps", {"outrider-clients": "true"})
PROMETHEUS = Place({"app": "prometheus"}, "monitoring", {"outrider-metrics": "true"})
STRANGER = Place({}, "somewhere")
INTRUDER = Place({"app": "somebody"}, OURS)
"""A pod in our namespace that is none of ours."""
SERVICES = ("orchestrator", "target", "draft")
GRPC, HEALTH, METRICS, PAGE, REDIS, OTLP = (
    {"orchestrator": 50051, "target": 50052, "draft": 50053},
    50059,
    9464,
    50080,
    6379,
    4317,
)


def ours(overlay: str) -> dict[str, Place]:
    return {pod.component: Place(pod.labels, OURS) for pod in pods(built(overlay))}


def policies(overlay: str) -> list[Object]:
    return of_kind(built(overlay), "NetworkPolicy")


def _wanted(overlay: str) -> set[tuple[str, str, int]]:
    """Who may call whom at which port, of all that could."""
    here = ours(overlay)
    wanted = {("orchestrator", "target", 50052), ("orchestrator", "draft", 50053), ("client", "orchestrator", 50051)}
    wanted |= {(name, "redis", REDIS) for name in SERVICES}
    wanted |= {("prometheus", name, METRICS) for name in SERVICES}
    if any("http" in pod.port for pod in pods(built(overlay)) if pod.component == "orchestrator"):
        wanted |= {("client", "orchestrator", PAGE)}
    if "collector" in here:
        wanted |= {(name, "collector", OTLP) for name in SERVICES}
    if "models" in here:
        wanted |= {("models", "anywhere", 443)}
    return wanted


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_exactly_the_calls_that_are_made_are_allowed(overlay: str) -> None:
    ends: dict[str, End] = {
        **ours(overlay), "client": CLIENT, "prometheus": PROMETHEUS, "stranger": STRANGER, "intruder": INTRUDER,
        "anywhere": ANYWHERE,
    }  # fmt: skip
    ports = sorted({*GRPC.values(), HEALTH, METRICS, PAGE, REDIS, OTLP, 443, 13133})
    outside = {"client", "prometheus", "stranger", "anywhere"}
    found = {
        (source, target, port)
        for source in ends
        for target in ends
        for port in ports
        if not {source, target} <= outside and allowed(policies(overlay), ends[source], ends[target], port)
    }
    assert found == _wanted(overlay)


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_all_of_ours_may_ask_for_names_and_nobody_else_of_the_namespace_may(overlay: str, protocol: str) -> None:
    for name, place in ours(overlay).items():
        assert allowed(policies(overlay), place, DNS, 53, protocol), name
    assert not allowed(policies(overlay), INTRUDER, DNS, 53, protocol)


def test_without_a_way_out_nothing_of_an_air_gapped_cluster_leaves_it() -> None:
    for name, place in ours("air-gapped").items():
        for port in (53, 80, 443, 4317, 6379):
            assert not allowed(policies("air-gapped"), place, ANYWHERE, port), name


def test_every_service_is_there() -> None:
    for overlay in OVERLAYS:
        assert {*SERVICES, "redis"} <= set(ours(overlay))


# What judges them.

A, B = Place({"app": "a"}, "one"), Place({"app": "b"}, "two", {"team": "x"})


def policy(spec: dict[str, Any], namespace: str = "one") -> Object:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"podSelector": {}, **spec}}


def test_what_no_policy_selects_may_do_all() -> None:
    assert allowed([], A, B, 1)
    assert allowed([policy({"podSelector": {"matchLabels": {"app": "z"}}, "policyTypes": ["Egress"]})], A, B, 1)
    assert allowed([policy({"policyTypes": ["Egress"]}, "three")], A, B, 1)


def test_both_ends_have_to_agree() -> None:
    out, into = policy({"policyTypes": ["Egress"], "egress": [{}]}), policy({"policyTypes": ["Ingress"]}, "two")
    assert allowed([out], A, B, 1)
    assert not allowed([out, into], A, B, 1)
    assert allowed([out, into, policy({"ingress": [{}]}, "two")], A, B, 1)


def test_a_policy_without_types_is_of_ingress_and_of_egress_only_where_it_names_some() -> None:
    assert allowed([policy({})], A, B, 1)
    assert not allowed([policy({"egress": []})], A, B, 1)
    assert not allowed([policy({}, "two")], A, B, 1)


def test_selectors_of_one_peer_must_both_match_and_a_pod_selector_alone_means_the_same_namespace() -> None:
    def to(peer: dict[str, Any]) -> bool:
        return allowed([policy({"egress": [{"to": [peer]}]})], A, B, 1)

    team, app, other = {"matchLabels": {"team": "x"}}, {"matchLabels": {"app": "b"}}, {"matchLabels": {"app": "c"}}
    assert to({"namespaceSelector": team})
    assert to({"namespaceSelector": team, "podSelector": app})
    assert not to({"namespaceSelector": team, "podSelector": other})
    assert not to({"podSelector": app})
    assert to({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "two"}}})


def test_ports_protocols_and_ranges_count() -> None:
    def at(port: int, protocol: str, rule: dict[str, Any]) -> bool:
        return allowed([policy({"egress": [{"ports": [rule]}]})], A, B, port, protocol)

    assert at(53, "TCP", {"port": 53})
    assert not at(53, "UDP", {"port": 53})
    assert not at(54, "TCP", {"port": 53})
    assert at(54, "TCP", {"port": 50, "endPort": 60})
    assert at(7, "UDP", {"protocol": "UDP"})
    with pytest.raises(ValueError, match="only numbers"):
        at(53, "TCP", {"port": "dns"})


def test_address_blocks_are_for_what_is_outside() -> None:
    def to(end: End, block: dict[str, Any]) -> bool:
        return allowed([policy({"egress": [{"to": [{"ipBlock": block}]}]})], A, end, 1)

    assert to(External("10.1.2.3"), {"cidr": "10.0.0.0/8"})
    assert not to(External("10.1.2.3"), {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]})
    assert not to(External("11.0.0.1"), {"cidr": "10.0.0.0/8"})
    assert not to(B, {"cidr": "0.0.0.0/0"})


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [("In", ["a"], True), ("In", ["b"], False), ("NotIn", ["a"], False), ("NotIn", ["b"], True),
     ("Exists", [], True), ("DoesNotExist", [], False)],
)  # fmt: skip
def test_expressions(operator: str, values: list[str], matches: bool) -> None:
    assert selects({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}, A.labels) is matches


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be In"):
        selects({"matchExpressions": [{"key": "app", "operator": "Like"}]}, A.labels)


def test_the_folder_is_the_one_that_is_shipped() -> None:
    assert (K8S / "base" / "network-policies.yaml").is_file()
