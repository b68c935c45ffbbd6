"""What components add fits what they are added to: certificates, monitoring, routes, weights, Redis elsewhere."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.k8s import prometheus_rule
from deploy.observability.dashboards import FOLDER
from outrider.v1 import orchestrator_pb2
from tests.deploy.manifests import (
    COMPONENTS,
    K8S,
    OVERLAYS,
    Object,
    built,
    environment,
    made_of,
    named,
    of_kind,
    pod_of,
    pods,
)
from tests.deploy.test_manifests import SERVICES, variables

INSTALL = K8S.parents[1] / "docs" / "kubernetes" / "install.md"
WITH_TLS = [overlay for overlay in OVERLAYS if of_kind(built(overlay), "Certificate")]


def _hours(duration: str) -> int:
    return int(duration.removesuffix("h"))


def _names(overlay: str, component: str) -> list[str]:
    spec: dict[str, Any] = named(built(overlay), "Certificate", f"outrider-{component}")["spec"]
    return list(spec["dnsNames"])


def test_two_overlays_have_certificates() -> None:
    assert WITH_TLS == ["air-gapped", "gpu"]


@pytest.mark.parametrize("overlay", WITH_TLS)
@pytest.mark.parametrize("component", SERVICES)
def test_a_pod_reads_the_certificate_that_is_made_for_it(overlay: str, component: str) -> None:
    pod, found = pod_of(built(overlay), component), variables(overlay, component)
    (volume,) = (each for each in pod.spec["volumes"] if each["name"] == "tls")
    (mount,) = (each for each in pod.main["volumeMounts"] if each["name"] == "tls")
    assert "subPath" not in mount  # it would never see a new certificate
    certificate = named(built(overlay), "Certificate", f"outrider-{component}")["spec"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    files = {"CERT": "tls.crt", "KEY": "tls.key", "CA": "ca.crt"}
    assert {key: found[f"OUTRIDER_TLS_{key}"] for key in files} == {
        key: f"{mount['mountPath']}/{file}" for key, file in files.items()
    }
    assert {"server auth", "client auth"} <= set(certificate["usages"])
    assert f"outrider-{component}.outrider.svc.cluster.local" in certificate["dnsNames"]


@pytest.mark.parametrize("overlay", WITH_TLS)
def test_only_an_orchestrator_may_call_a_replica_and_knows_it_by_name(overlay: str) -> None:
    for component in ("target", "draft"):
        allowed = variables(overlay, component)["OUTRIDER_TLS_PEERS"].split(",")
        assert set(allowed) <= set(_names(overlay, "orchestrator"))
        assert not set(allowed) & {*_names(overlay, "target"), *_names(overlay, "draft"), *_names(overlay, "client")}
        asked = variables(overlay, "orchestrator")[f"OUTRIDER_TLS_{component.upper()}_NAME"]
        assert asked in _names(overlay, component)


@pytest.mark.parametrize("overlay", WITH_TLS)
def test_certificates_are_short_and_renewed_long_before_they_end(overlay: str) -> None:
    for each in of_kind(built(overlay), "Certificate"):
        spec = each["spec"]
        assert _hours(spec["renewBefore"]) * 3 >= _hours(spec["duration"]) or spec.get("isCA")
        assert spec.get("isCA") or _hours(spec["duration"]) <= 24
        assert named(built(overlay), "Issuer", spec["issuerRef"]["name"])


@pytest.mark.parametrize("overlay", WITH_TLS)
def test_no_port_with_certificates_is_marked_as_clear(overlay: str) -> None:
    for component in SERVICES:
        ports = named(built(overlay), "Service", f"outrider-{component}")["spec"]["ports"]
        assert [p.get("appProtocol") for p in ports if p["name"] == "grpc"] == [None]


@pytest.mark.parametrize("overlay", WITH_TLS)
def test_whoever_comes_without_a_certificate_needs_a_key(overlay: str) -> None:
    found = variables(overlay, "orchestrator")
    if found.get("OUTRIDER_HTTP") or found["OUTRIDER_TLS_CLIENTS"] == "any":
        assert found["OUTRIDER_TENANTS"]


def test_rules_are_those_of_the_folder_of_rules() -> None:
    assert prometheus_rule.FILE.read_text() == prometheus_rule.rendered(), "python -m deploy.k8s.prometheus_rule"
    groups = yaml.safe_load((prometheus_rule.RULES / "rules.yaml").read_text())["groups"]
    shipped = {group["name"]: group for group in named(built("gpu"), "PrometheusRule", "outrider")["spec"]["groups"]}
    for group in groups:
        assert shipped[group["name"]] == group


def test_prometheus_scrapes_each_service_under_the_name_that_the_rules_count_on() -> None:
    for component in SERVICES:
        monitor = named(built("gpu"), "PodMonitor", f"outrider-{component}")["spec"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        assert endpoint["port"] in pod_of(built("gpu"), component).port
        assert {"targetLabel": "job", "replacement": f"outrider-{component}"} in endpoint["relabelings"]


def test_dashboards_are_shipped_as_they_are() -> None:
    maps = [m for m in of_kind(built("gpu"), "ConfigMap") if m["metadata"]["labels"].get("grafana_dashboard") == "1"]
    shipped = {name: text for each in maps for name, text in each["data"].items()}
    assert shipped == {path.name: path.read_text() for path in FOLDER.glob("*.json")}


def test_routes_lead_to_ports_of_the_orchestrator_and_share_no_host() -> None:
    ports = {p["port"]: p["name"] for p in named(built("gpu"), "Service", "outrider-orchestrator")["spec"]["ports"]}
    leads: dict[str, list[tuple[str, str]]] = {}
    hosts: list[str] = []
    for kind in ("GRPCRoute", "HTTPRoute"):
        spec = named(built("gpu"), kind, "outrider")["spec"]
        (rule,), hosts = spec["rules"], [*hosts, *spec["hostnames"]]
        leads[kind] = [(backend["name"], ports[backend["port"]]) for backend in rule["backendRefs"]]
    assert leads == {"GRPCRoute": [("outrider-orchestrator", "grpc")], "HTTPRoute": [("outrider-orchestrator", "http")]}
    assert len(set(hosts)) == 2
    assert named(built("gpu"), "HTTPRoute", "outrider")["spec"]["rules"][0]["timeouts"]["request"] == "0s"


def test_nothing_is_routed_but_the_methods_that_callers_have() -> None:
    (rule,) = named(built("gpu"), "GRPCRoute", "outrider")["spec"]["rules"]
    assert rule["matches"] == [{"method": {"service": orchestrator_pb2.DESCRIPTOR.package + ".OrchestratorService"}}]
    methods = orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"].methods_by_name
    said = re.search(r"`outrider.v1.OrchestratorService` \(([^)]+)\)", INSTALL.read_text())
    assert said
    assert set(re.findall(r"`(\w+)`", said[1])) == set(methods)


def test_the_gateway_asks_for_a_name_that_the_orchestrator_has() -> None:
    spec = named(built("gpu"), "BackendTLSPolicy", "outrider-orchestrator")["spec"]
    assert spec["validation"]["hostname"] in _names("gpu", "orchestrator")
    assert variables("gpu", "orchestrator")["OUTRIDER_TLS_CLIENTS"] == "any"


def _mounts(objects: tuple[Object, ...], component: str) -> list[str]:
    return [m["mountPath"] for m in pod_of(objects, component).main["volumeMounts"] if m["name"] == "models"]


def test_weights_from_images_are_where_the_settings_look() -> None:
    objects = built("air-gapped")
    for component, setting in (("target", "MODEL"), ("draft", "MODEL"), ("orchestrator", "TOKENIZER")):
        assert _mounts(objects, component) == [variables("air-gapped", component)[f"OUTRIDER_{setting}"]]


def test_a_download_goes_where_the_services_look() -> None:
    objects = built("gpu")
    job = pod_of(objects, "models")
    folders = {word.split("=")[1] for c in job.containers for word in c["args"] if word.startswith("--local-dir=")}
    assert folders == {variables("gpu", name)["OUTRIDER_MODEL"] for name in ("target", "draft")}
    assert variables("gpu", "orchestrator")["OUTRIDER_TOKENIZER"] in folders
    for component in SERVICES:
        (volume,) = (v for v in pod_of(objects, component).spec["volumes"] if v["name"] == "models")
        assert volume["persistentVolumeClaim"] == {"claimName": "outrider-models", "readOnly": True}


def test_with_a_redis_elsewhere_none_is_started_and_its_address_is_yours(tmp_path: Path) -> None:
    url = "rediss://:secret@redis.example.com:6380/0"
    own = [
        {
            "name": "outrider-redis",
            "behavior": "merge",
            "literals": [f"OUTRIDER_REGISTRY={url}", f"OUTRIDER_JOURNAL={url}"],
        }
    ]
    objects = made_of(tmp_path, ["external-redis"], yaml.safe_dump({"secretGenerator": own}))
    assert "redis" not in {pod.component for pod in pods(objects)}
    assert not any(each["metadata"]["name"] == "outrider-redis" for each in objects)
    for component in SERVICES:
        assert environment(objects, pod_of(objects, component).main)["OUTRIDER_REGISTRY"] == url


def test_the_collector_tells_where_it_sends(tmp_path: Path) -> None:
    own = [{"name": "outrider-collector-upstream", "literals": ["UPSTREAM_ENDPOINT=tempo.example.com:443"]}]
    objects = made_of(tmp_path, ["collector", "collector-upstream"], yaml.safe_dump({"secretGenerator": own}))
    found = environment(objects, pod_of(objects, "collector").main)
    assert found == {"TRACES_TO": "otlp", "UPSTREAM_ENDPOINT": "tempo.example.com:443"}
    (config,) = (m for m in of_kind(objects, "ConfigMap") if "collector.yaml" in m["data"])
    text = config["data"]["collector.yaml"]
    parsed = yaml.safe_load(text)
    assert parsed["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] == "0.0.0.0:4317"
    assert all("${env:" + name in text for name in (*found, "UPSTREAM_AUTHORIZATION"))
    assert {"debug", "otlp"} == set(parsed["exporters"])


def test_the_page_of_installing_names_each_component_and_overlay() -> None:
    text = INSTALL.read_text()
    assert set(COMPONENTS) <= set(re.findall(r"`([a-z0-9-]+)`", text))
    for overlay in OVERLAYS:
        assert f"overlays/{overlay}" in text
