"""Strict schemas of what the overlays hold: those of Kubernetes itself, and small ones for the kinds of others.

The small ones know what is used here and refuse everything else; a kind without any is refused, too.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import kubernetes_validate
from kubernetes_validate import utils

from tests.deploy.manifests import Object

KUBERNETES = ("1.34", "1.37")
"""The oldest and the newest version that is supported."""
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_DURATION: Schema = {"type": "string", "pattern": r"^(\d+(h|ms|m|s))+$"}


def shape(needed: Mapping[str, Schema], **optional: Schema) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object", "additionalProperties": False, "required": list(needed), "properties": {**needed, **optional},
    }  # fmt: skip


def some(each: Schema) -> dict[str, Any]:
    """A list of at least one."""
    return {"type": "array", "items": each, "minItems": 1}


def one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_SELECTOR = shape({"matchLabels": _STRINGS})
_KEY = shape(
    {"algorithm": one_of("RSA", "ECDSA", "Ed25519")}, size={"type": "integer"}, rotationPolicy=one_of("Never", "Always")
)
_ISSUER = shape({"name": TEXT, "kind": one_of("Issuer", "ClusterIssuer")}, group=one_of("cert-manager.io"))
_USAGE = one_of("digital signature", "key encipherment", "server auth", "client auth")
_CERTIFICATE = shape(
    {"secretName": TEXT, "issuerRef": _ISSUER}, isCA={"type": "boolean"}, commonName=TEXT, duration=_DURATION,
    renewBefore=_DURATION, privateKey=_KEY, usages=some(_USAGE), dnsNames=some(TEXT), uris=some(TEXT),
)  # fmt: skip
_PARENT = shape({"name": TEXT}, namespace=TEXT, sectionName=TEXT)
_BACKEND = shape({"name": TEXT, "port": _PORT})
_GRPC_MATCH = shape({"method": shape({"service": TEXT}, method=TEXT, type=one_of("Exact", "RegularExpression"))})
_PATH_MATCH = shape({"path": shape({"type": one_of("Exact", "PathPrefix"), "value": TEXT})})
_TIMEOUTS = shape({}, request=_DURATION, backendRequest=_DURATION)


def _route(match: Schema, **more: Schema) -> dict[str, Any]:
    rule = shape({"backendRefs": some(_BACKEND)}, matches=some(match), **more)
    return shape({"parentRefs": some(_PARENT), "rules": some(rule)}, hostnames=some(TEXT))


_CA = shape({"group": one_of(""), "kind": one_of("ConfigMap"), "name": TEXT})
_BACKEND_TLS = shape(
    {
        "targetRefs": some(shape({"group": one_of(""), "kind": one_of("Service"), "name": TEXT}, sectionName=TEXT)),
        "validation": shape({"hostname": TEXT, "caCertificateRefs": some(_CA)}),
    }
)
_RELABELING = shape({"targetLabel": TEXT, "replacement": TEXT})
_ENDPOINT = shape({"port": TEXT}, interval=_DURATION, relabelings=some(_RELABELING))
_ALERT = shape({"alert": TEXT, "expr": TEXT}, **{"for": _DURATION, "labels": _STRINGS, "annotations": _STRINGS})
_RECORD = shape({"record": TEXT, "expr": TEXT}, labels=_STRINGS)
_GROUP = shape({"name": TEXT, "rules": some({"oneOf": [_ALERT, _RECORD]})}, interval=_DURATION)
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TRIGGER = shape(
    {"type": one_of("prometheus"), "metadata": _STRINGS}, name=TEXT, metricType=one_of("AverageValue", "Value"),
    authenticationRef=shape({"name": TEXT}, kind=TEXT), useCachedMetrics={"type": "boolean"},
)  # fmt: skip
_SCALED = shape(
    {"scaleTargetRef": shape({"name": TEXT}, apiVersion=TEXT, kind=TEXT), "triggers": some(_TRIGGER)},
    pollingInterval=_COUNT, cooldownPeriod=_COUNT, initialCooldownPeriod=_COUNT, idleReplicaCount=_COUNT,
    minReplicaCount=_COUNT, maxReplicaCount=_COUNT, fallback={"type": "object"}, advanced={"type": "object"},
)  # fmt: skip
OTHERS: Mapping[tuple[str, str], Schema] = {
    ("cert-manager.io/v1", "Issuer"): shape({}, selfSigned=shape({}), ca=shape({"secretName": TEXT})),
    ("cert-manager.io/v1", "Certificate"): _CERTIFICATE,
    ("gateway.networking.k8s.io/v1", "GRPCRoute"): _route(_GRPC_MATCH),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): _route(_PATH_MATCH, timeouts=_TIMEOUTS),
    ("gateway.networking.k8s.io/v1", "BackendTLSPolicy"): _BACKEND_TLS,
    ("monitoring.coreos.com/v1", "PodMonitor"): shape({"selector": _SELECTOR, "podMetricsEndpoints": some(_ENDPOINT)}),
    ("monitoring.coreos.com/v1", "PrometheusRule"): shape({"groups": some(_GROUP)}),
    ("keda.sh/v1alpha1", "ScaledObject"): _SCALED,
}
_METADATA = shape({"name": TEXT}, namespace=TEXT, labels=_STRINGS, annotations=_STRINGS)


utils.schema_contents = functools.cache(utils.schema_contents)
"""It would read a megabyte anew for each object."""


def check(thing: Object, version: str) -> None:
    """Hold an object against its schema. Raises ValueError that names it and what is wrong."""
    _check(json.dumps(thing, sort_keys=True), version)


@functools.cache
def _check(text: str, version: str) -> None:
    thing = json.loads(text)
    name = f"{thing['kind']}/{thing['metadata']['name']}"
    own = OTHERS.get((thing["apiVersion"], thing["kind"]))
    try:
        if own is None:
            kubernetes_validate.validate(thing, version, strict=True)
        else:
            words = {"apiVersion": TEXT, "kind": TEXT, "metadata": _METADATA, "spec": own}
            jsonschema.validate(thing, shape(words))
    except kubernetes_validate.SchemaNotFoundError:
        raise ValueError(f"{name}: no schema of {thing['apiVersion']} in Kubernetes {version} or here") from None
    except jsonschema.ValidationError as error:
        where = ".".join(map(str, error.absolute_path))
        raise ValueError(f"{name}, Kubernetes {version}: {where}: {error.message}") from None
