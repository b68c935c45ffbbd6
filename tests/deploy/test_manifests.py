"""The objects of each overlay fit together: selectors, references, ports, names."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.deploy.manifests import (
    OVERLAYS,
    Object,
    Pod,
    built,
    cluster,
    environment,
    named,
    of_kind,
    pod_of,
    pods,
    references,
)
from tests.deploy.network_policies import selects

SERVICES = ("orchestrator", "target", "draft")
OWN_PORTS = {"orchestrator": 50051, "target": 50052, "draft": 50053}
EACH = [(overlay, component) for overlay in OVERLAYS for component in SERVICES]
PODS = [(overlay, pod.name) for overlay in OVERLAYS for pod in pods(built(overlay))]


def variables(overlay: str, component: str) -> dict[str, str]:
    return environment(built(overlay), pod_of(built(overlay), component).main)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_ports_of_a_container_are_those_that_its_settings_open(overlay: str, component: str) -> None:
    found, pod = variables(overlay, component), pod_of(built(overlay), component)
    opened = {
        "grpc": _port(found["OUTRIDER_LISTEN"]),
        "health": _port(found["OUTRIDER_HEALTH"]),
        "metrics": int(found["OTEL_EXPORTER_PROMETHEUS_PORT"]),
    }
    if found.get("OUTRIDER_HTTP"):
        opened["http"] = _port(found["OUTRIDER_HTTP"])
    assert pod.port == opened
    assert opened["grpc"] == OWN_PORTS[component]
    hosts = [found[name].rpartition(":")[0] for name in found if name in ("OUTRIDER_LISTEN", "OUTRIDER_HEALTH")]
    assert {*hosts, found["OTEL_EXPORTER_PROMETHEUS_HOST"]} == {"0.0.0.0"}


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_probes_ask_the_health_port_for_names_that_there_are(overlay: str, component: str) -> None:
    main = pod_of(built(overlay), component).main
    service = f"outrider.v1.{component.capitalize()}Service"
    asked = {
        probe: main[probe]["grpc"].get("service", "") for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert asked == {"startupProbe": "", "readinessProbe": service, "livenessProbe": ""}
    assert {main[probe]["grpc"]["port"] for probe in asked} == {50059}


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_a_model_has_ten_minutes_to_load_and_a_process_that_hangs_two(overlay: str, component: str) -> None:
    main = pod_of(built(overlay), component).main
    start, live = main["startupProbe"], main["livenessProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 600
    deadline = named(built(overlay), "Deployment", f"outrider-{component}")["spec"]["progressDeadlineSeconds"]
    assert deadline >= start["periodSeconds"] * start["failureThreshold"] + 300
    assert live["periodSeconds"] * live["failureThreshold"] >= 120


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_service_leads_to_pods_that_have_its_ports(overlay: str) -> None:
    for service in of_kind(built(overlay), "Service"):
        chosen = [
            pod for pod in pods(built(overlay)) if selects({"matchLabels": service["spec"]["selector"]}, pod.labels)
        ]
        assert [pod.name for pod in chosen] == [service["metadata"]["name"]]
        for port in service["spec"]["ports"]:
            assert chosen[0].port[port["targetPort"]] == port["port"]


def _selectors(overlay: str) -> list[tuple[Object, Any]]:
    kinds = ("Deployment", "PodDisruptionBudget", "PodMonitor")
    return [(each, each["spec"]["selector"]) for kind in kinds for each in of_kind(built(overlay), kind)]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_choose_the_pods_of_that_name_and_no_others(overlay: str) -> None:
    for each, selector in _selectors(overlay):
        assert [p.name for p in pods(built(overlay)) if selects(selector, p.labels)] == [each["metadata"]["name"]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_deployment_has_a_disruption_budget_that_lets_broken_pods_go(overlay: str) -> None:
    budgets = {each["metadata"]["name"]: each["spec"] for each in of_kind(built(overlay), "PodDisruptionBudget")}
    assert set(budgets) == {each["metadata"]["name"] for each in of_kind(built(overlay), "Deployment")}
    for spec in budgets.values():
        assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_network_policy_selects_pods_that_there_are(overlay: str) -> None:
    for policy in of_kind(built(overlay), "NetworkPolicy"):
        assert any(selects(policy["spec"]["podSelector"], pod.labels) for pod in pods(built(overlay)))


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_pods_spread_over_nodes_and_zones_within_one_version(overlay: str, component: str) -> None:
    pod = pod_of(built(overlay), component)
    constraints = pod.spec["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in constraints] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    for each in constraints:
        assert each["matchLabelKeys"] == ["pod-template-hash"]
        assert selects(each["labelSelector"], pod.labels)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_urls_of_redis_and_of_the_collector_lead_to_services(overlay: str) -> None:
    for component in SERVICES:
        found = variables(overlay, component)
        urls = [
            found[name]
            for name in ("OUTRIDER_REGISTRY", "OUTRIDER_JOURNAL", "OTEL_EXPORTER_OTLP_ENDPOINT")
            if name in found
        ]
        assert urls
        for url in map(urlsplit, urls):
            service = named(built(overlay), "Service", str(url.hostname))
            assert url.port in [port["port"] for port in service["spec"]["ports"]]


@pytest.mark.parametrize(("overlay", "component"), [each for each in EACH if each[1] != "orchestrator"])
def test_a_replica_announces_its_pod_and_its_port(overlay: str, component: str) -> None:
    assert variables(overlay, component)["OUTRIDER_ADVERTISE"] == f"10.0.0.7:{OWN_PORTS[component]}"


def _made_elsewhere(overlay: str) -> set[str]:
    """Secrets that cert-manager makes."""
    return {each["spec"]["secretName"] for each in of_kind(built(overlay), "Certificate")}


def _pod(overlay: str, name: str) -> Pod:
    return next(pod for pod in pods(built(overlay)) if pod.name == name)


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_what_a_pod_refers_to_is_there(overlay: str, name: str) -> None:
    objects, pod = built(overlay), _pod(overlay, name)
    names = {kind: {each["metadata"]["name"] for each in of_kind(objects, kind)} for kind in ("ConfigMap", "Secret")}
    assert references(pod, "ConfigMap") <= names["ConfigMap"]
    assert references(pod, "Secret") <= names["Secret"] | _made_elsewhere(overlay)
    assert pod.spec["serviceAccountName"] == name
    named(objects, "ServiceAccount", name)
    if "priorityClassName" in pod.spec:
        named(cluster(), "PriorityClass", pod.spec["priorityClassName"])
    for volume in pod.spec.get("volumes", []):
        if "persistentVolumeClaim" in volume:
            named(objects, "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_every_mount_has_its_volume_and_every_volume_is_mounted(overlay: str, name: str) -> None:
    pod = _pod(overlay, name)
    mounted = {mount["name"] for container in pod.containers for mount in container.get("volumeMounts", [])}
    assert mounted == {volume["name"] for volume in pod.spec.get("volumes", [])}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_targets_and_drafts_need_no_room_for_a_rollout_and_orchestrators_are_never_fewer(overlay: str) -> None:
    updates = {
        name: named(built(overlay), "Deployment", f"outrider-{name}")["spec"]["strategy"]["rollingUpdate"]
        for name in SERVICES
    }
    replica = {"maxSurge": 0, "maxUnavailable": 1}
    assert updates == {"orchestrator": {"maxSurge": 1, "maxUnavailable": 0}, "target": replica, "draft": replica}
