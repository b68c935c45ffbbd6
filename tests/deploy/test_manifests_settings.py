"""The variables of each container are ones that its program reads, with values that it takes; and every setting of the
README's table can be given."""

import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest
from opentelemetry.sdk import environment_variables

from orchestrator.tenants_file import read_tenants
from outrider import trace_settings
from outrider.config import PREFIX, load, parse_budget
from outrider.inference.memory import FULL_SESSIONS, SHARE, kv_bytes
from tests.deploy.manifests import OVERLAYS, ROOT, built, environment, named, of_kind, pod_of, pods, secret_data
from tests.deploy.test_manifests import EACH, SERVICES, variables
from tests.deploy.test_manifests_pods import CONFIGS

ELSEWHERE = {"OUTRIDER_LOG_LEVEL", "OUTRIDER_LOG_FORMAT"}
"""Settings that logs.py reads, of every service."""
OTHERS = {"POD_IP", "POD_NAME", "HF_HUB_OFFLINE", "GOMP_SPINCOUNT"}
"""Variables of the manifests themselves, of Hugging Face's library and of OpenMP."""
BY_MANIFEST = {
    "orchestrator": {"OUTRIDER_REGISTRY", "OUTRIDER_JOURNAL"},
    "target": {"OUTRIDER_ADVERTISE", "OUTRIDER_REGISTRY", "OUTRIDER_THREADS"},
    "draft": {"OUTRIDER_ADVERTISE", "OUTRIDER_REGISTRY", "OUTRIDER_THREADS"},
}
"""Settings that come from the pod or from a Secret, and so not from the ConfigMap."""


def _known(component: str) -> set[str]:
    return {PREFIX + field.name.upper() for field in dataclasses.fields(CONFIGS[component])} | ELSEWHERE


@cache
def _otel_names() -> set[str]:
    """Standard variables that the code names, and those that the SDK reads by itself."""
    sources = "\n".join(path.read_text() for path in (ROOT / "outrider").glob("*.py"))
    return set(re.findall(r"OTEL_[A-Z_]+", sources)) | {n for n in vars(environment_variables) if n.startswith("OTEL_")}


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_every_variable_is_one_that_is_read(overlay: str, component: str) -> None:
    found = set(variables(overlay, component))
    assert {name for name in found if name.startswith(PREFIX)} <= _known(component)
    assert {name for name in found if name.startswith("OTEL_")} <= _otel_names()
    assert {name for name in found if not name.startswith((PREFIX, "OTEL_"))} <= OTHERS


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_every_value_is_one_that_the_program_takes(overlay: str, component: str) -> None:
    found = variables(overlay, component)
    config = load(CONFIGS[component], found)
    assert config.drain_s == 20
    trace_settings.sampler(found)
    trace_settings.span_exporter(found)
    assert found["OTEL_METRICS_EXPORTER"] == "prometheus"
    trace_settings.refuse_http(found, "METRICS")


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_every_file_that_is_named_is_in_a_volume(overlay: str, component: str) -> None:
    mounts = [Path(mount["mountPath"]) for mount in pod_of(built(overlay), component).main["volumeMounts"]]
    paths = [Path(value) for value in variables(overlay, component).values() if value.startswith("/")]
    assert paths
    for path in paths:
        assert any(path.is_relative_to(mount) for mount in mounts), path


def _rows() -> list[tuple[str, str]]:
    """Settings of the README's table, with the service that reads them."""
    table = (ROOT / "README.md").read_text().split("## Configuration")[1].split("## Errors")[0]
    rows = [re.split(r"\s*\|\s*", line)[1:3] for line in table.splitlines() if line.startswith("| `OUTRIDER_")]
    return [(name, row[1]) for row in rows for name in re.findall(r"OUTRIDER_\w+", row[0])]


@pytest.mark.parametrize("component", SERVICES)
def test_every_setting_of_the_readme_can_be_given_by_configmap_secret_or_is_given_by_the_pod(component: str) -> None:
    settings = {name for name, services in _rows() if services == "all" or component in services.split(", ")}
    assert settings <= _known(component)
    assert len(settings) > 10
    for overlay in OVERLAYS:
        main = pod_of(built(overlay), component).main
        assert any("configMapRef" in source for source in main["envFrom"])
        fixed = {each["name"] for each in main["env"] if each["name"].startswith(PREFIX)}
        assert fixed == BY_MANIFEST[component]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_urls_of_redis_are_in_a_secret_and_no_configmap_has_any(overlay: str) -> None:
    secret = next(each for each in of_kind(built(overlay), "Secret") if "redis" in each["metadata"]["name"])
    assert set(secret_data(secret)) == {"OUTRIDER_REGISTRY", "OUTRIDER_JOURNAL"}
    assert not any("redis://" in str(each["data"]) for each in of_kind(built(overlay), "ConfigMap"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_change_of_settings_rolls_the_pods(overlay: str) -> None:
    for component in SERVICES:
        source = pod_of(built(overlay), component).main["envFrom"][0]["configMapRef"]["name"]
        assert re.fullmatch(rf"outrider-{component}-[0-9a-z]{{10}}", source)
        named(built(overlay), "ConfigMap", source)


def test_the_page_of_installing_names_the_settings_that_no_configmap_has() -> None:
    text = (ROOT / "docs" / "kubernetes" / "install.md").read_text()
    (said,) = re.findall(r"(\w+) settings\s+do not come from the ConfigMap: ([^.]*)\.", text)
    names = set().union(*BY_MANIFEST.values())
    assert set(re.findall(r"OUTRIDER_\w+", said[1])) == names
    assert {2: "Two", 3: "Three", 4: "Four", 5: "Five"}[len(names)] == said[0]


def test_the_cache_on_gpus_is_what_the_page_of_sizes_says_and_auto_is_what_it_says_there() -> None:
    text = (ROOT / "docs" / "kubernetes" / "sizing.md").read_text()
    rows = dict(re.findall(r"^\| (target|draft), Qwen\S+ \|.+\| `(\w+)`[^|]*\|$", text, re.MULTILINE))
    assert rows == {name: variables("gpu", name)["OUTRIDER_KV_BYTES"] for name in ("target", "draft")}
    assert f"`OUTRIDER_KV_BYTES=auto` takes {SHARE} of what is free" in text
    assert f"at most what {FULL_SESSIONS} sessions" in text
    card, weights, spare = (int(number) for number in re.findall(r"\((\d+) − (\d+) − (\d+)\): 61", text)[0])
    assert parse_budget(rows["target"]) == (card - weights - spare) << 30
    assert f"{SHARE} × {card - weights} = {kv_bytes(card - weights << 30, 1 << 40) >> 30} GiB" in text


@pytest.mark.parametrize("overlay", ["gpu", "air-gapped"])
def test_the_tenants_that_are_shipped_let_nobody_in(overlay: str, tmp_path: Path) -> None:
    secret = next(each for each in of_kind(built(overlay), "Secret") if "tenants" in each["metadata"]["name"])
    (tmp_path / "tenants.toml").write_text(secret_data(secret)["tenants.toml"])
    assert read_tenants(str(tmp_path / "tenants.toml")).keys == {}
    path = Path(variables(overlay, "orchestrator")["OUTRIDER_TENANTS"])
    (mount,) = (m for m in pod_of(built(overlay), "orchestrator").main["volumeMounts"] if m["name"] == "tenants")
    assert path == Path(mount["mountPath"]) / "tenants.toml"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_but_the_one_that_downloads_may_ask_the_hub(overlay: str) -> None:
    for pod in pods(built(overlay)):
        for container in pod.containers:
            if container["image"].split("/")[-1].startswith("outrider-replica"):
                wanted = "0" if pod.component == "models" else "1"
                assert environment(built(overlay), container)["HF_HUB_OFFLINE"] == wanted
