"""What NetworkPolicies allow, by the rules of networking.k8s.io/v1: a pod that a policy selects may do only what some
policy that selects it allows; both ends have to agree.

It knows no names of ours. What the kubelet asks from the pod's own node is always allowed, and is no question here.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A pod by its labels and those of its namespace."""

    labels: Mapping[str, str]
    namespace: str
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class External:
    """Somebody outside of the cluster."""

    address: str


End = Place | External


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    if operator == "In":
        return bool(labels.get(key) in values)
    if operator == "NotIn":
        return bool(labels.get(key) not in values)
    if operator in ("Exists", "DoesNotExist"):
        return bool((key in labels) == (operator == "Exists"))
    raise ValueError(f"operator {operator!r}: must be In, NotIn, Exists or DoesNotExist")


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an empty one matches all. Raises ValueError."""
    equal = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return equal and all(_expression(each, labels) for each in selector.get("matchExpressions", []))


def _peer(peer: Mapping[str, Any], policy_namespace: str, end: End) -> bool:
    if "ipBlock" in peer:
        return isinstance(end, External) and _in_block(peer["ipBlock"], end.address)
    if isinstance(end, External):
        return False
    if "namespaceSelector" in peer:
        names = {"kubernetes.io/metadata.name": end.namespace, **end.namespace_labels}
        here = selects(peer["namespaceSelector"], names)
    else:
        here = end.namespace == policy_namespace
    return here and selects(peer.get("podSelector", {}), end.labels)


def _in_block(block: Mapping[str, Any], address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return ip in ipaddress.ip_network(block["cidr"]) and not any(
        ip in ipaddress.ip_network(hole) for hole in block.get("except", [])
    )


def _port(rule: Mapping[str, Any], port: int, protocol: str) -> bool:
    if rule.get("protocol", "TCP") != protocol:
        return False
    wanted = rule.get("port", port)
    if not isinstance(wanted, int):
        raise ValueError(f"port {wanted!r}: only numbers can be judged")
    return bool(wanted <= port <= rule.get("endPort", wanted))


def _types(policy: Policy) -> Sequence[str]:
    default = ["Ingress", "Egress"] if "egress" in policy["spec"] else ["Ingress"]
    return list(policy["spec"].get("policyTypes", default))


def _side(policies: Sequence[Policy], direction: str, of: End, other: End, port: int, protocol: str) -> bool:
    """Whether one end may. ``direction``: Ingress or Egress, as seen from it."""
    if isinstance(of, External):
        return True
    selecting = [
        each
        for each in policies
        if each["metadata"]["namespace"] == of.namespace
        and direction in _types(each)
        and selects(each["spec"]["podSelector"], of.labels)
    ]
    peers = "from" if direction == "Ingress" else "to"
    return not selecting or any(
        (not rule.get(peers) or any(_peer(peer, of.namespace, other) for peer in rule[peers]))
        and (not rule.get("ports") or any(_port(each, port, protocol) for each in rule["ports"]))
        for policy in selecting
        for rule in policy["spec"].get(direction.lower(), [])
    )


def allowed(policies: Sequence[Policy], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether ``source`` may open a connection to that port of ``target``. Raises ValueError for named ports."""
    return _side(policies, "Egress", source, target, port, protocol) and _side(
        policies, "Ingress", target, source, port, protocol
    )
