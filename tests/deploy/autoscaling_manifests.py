"""What the built manifests of ``keda`` and ``hpa`` say, as values for the simulator.

A ScaledObject becomes what KEDA makes of it: an autoscaler of external metrics whose bounds and behaviour are copied.
It does not know what is right: the tests do.
"""

import re
from collections.abc import Mapping
from typing import Any

from tests.deploy.autoscaling import Direction, Metric, Policy, Scaling
from tests.deploy.manifests import Object

_QUERY = re.compile(r"([\w:]+)\{namespace=\"outrider\"\}")
_ADAPTER = re.compile(r"outrider_(\w+)_(p95|ratio)")


def _milli(quantity: str) -> int:
    """Thousandths of "100m" or "0.1"."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(float(quantity) * 1000)


def _direction(spec: Mapping[str, Any]) -> Direction:
    policies = tuple(Policy(each["type"], each["value"], each["periodSeconds"]) for each in spec["policies"])
    return Direction(spec["stabilizationWindowSeconds"], policies, spec.get("selectPolicy", "Max"))


def _trigger(trigger: Mapping[str, Any]) -> Metric:
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "Value")
    found = _QUERY.fullmatch(trigger["metadata"]["query"])
    assert found, trigger["metadata"]["query"]
    return Metric(found[1], _milli(trigger["metadata"]["threshold"]))


def of_scaled_object(scaled: Object) -> Scaling:
    """Of a ScaledObject."""
    spec = scaled["spec"]
    behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    return Scaling(
        spec["scaleTargetRef"]["name"], spec["minReplicaCount"], spec["maxReplicaCount"],
        tuple(map(_trigger, spec["triggers"])), _direction(behaviour["scaleUp"]), _direction(behaviour["scaleDown"]),
    )  # fmt: skip


def rule_of(metric: str) -> str:
    """The recording rule behind a name that prometheus-adapter tells."""
    found = _ADAPTER.fullmatch(metric)
    assert found, metric
    return f"outrider:{found[1]}:{found[2]}"


def _external(metric: Mapping[str, Any]) -> Metric:
    external = metric["external"]
    assert (metric["type"], external["target"]["type"]) == ("External", "Value")
    return Metric(rule_of(external["metric"]["name"]), _milli(external["target"]["value"]))


def of_autoscaler(autoscaler: Object) -> Scaling:
    """Of a HorizontalPodAutoscaler."""
    spec = autoscaler["spec"]
    return Scaling(
        spec["scaleTargetRef"]["name"], spec["minReplicas"], spec["maxReplicas"],
        tuple(map(_external, spec["metrics"])),
        _direction(spec["behavior"]["scaleUp"]), _direction(spec["behavior"]["scaleDown"]),
    )  # fmt: skip
