"""What KEDA takes as a ScaledObject with Prometheus triggers, as far as it is used here; everything else is refused.

After config/crd/bases/keda.sh_scaledobjects.yaml and the Prometheus scaler of KEDA 2.18. It does not know our rules.
"""

from tests.deploy.manifests_schemas import TEXT, Schema, one_of, shape, some

_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}
_POLICY = shape(
    {
        "type": one_of("Pods", "Percent"),
        "value": {"type": "integer", "minimum": 1},
        "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
    }
)
_DIRECTION = shape(
    {"policies": some(_POLICY)},
    selectPolicy=one_of("Max", "Min", "Disabled"),
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
)
_CONFIG = shape({"behavior": shape({"scaleUp": _DIRECTION, "scaleDown": _DIRECTION})}, name=TEXT)
_FALLBACK = shape(
    {"failureThreshold": _COUNT, "replicas": _COUNT},
    behavior=one_of("static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"),
)
_PROMETHEUS = shape(
    {"serverAddress": {"type": "string", "pattern": "^https?://"}, "query": TEXT, "threshold": _NUMBER},
    ignoreNullValues=one_of("true", "false"),
    activationThreshold=_NUMBER,
)
_TRIGGER = shape(
    {"type": one_of("prometheus"), "metadata": _PROMETHEUS}, name=TEXT, metricType=one_of("Value", "AverageValue")
)
SCALED_OBJECT = shape(
    {"scaleTargetRef": shape({"name": TEXT}, kind=TEXT, apiVersion=TEXT), "triggers": some(_TRIGGER)},
    minReplicaCount=_COUNT,
    maxReplicaCount={"type": "integer", "minimum": 1},
    pollingInterval={"type": "integer", "minimum": 1},
    cooldownPeriod=_COUNT,
    fallback=_FALLBACK,
    advanced=shape({"horizontalPodAutoscalerConfig": _CONFIG}),
)
"""Of its ``spec``."""
