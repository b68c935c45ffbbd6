"""Two installations in two namespaces of one cluster share nothing but what is applied by itself, once, before them."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import K8S, OVERLAYS, ROOT, Object, built, cluster, kustomize, named, of_kind, pod_of
from tests.deploy.manifests_schemas import KUBERNETES, check
from tests.deploy.test_manifests import SERVICES

WITH_CLASSES = ["air-gapped", "gpu"]


def _classes(overlay: str) -> dict[str, str | None]:
    """The class of each service's pods."""
    return {name: pod_of(built(overlay), name).spec.get("priorityClassName") for name in (*SERVICES, "redis")}


@pytest.mark.parametrize("version", KUBERNETES)
def test_what_a_cluster_has_once_holds_against_the_schemas(version: str) -> None:
    for each in cluster():
        check(each, version)


def test_what_a_cluster_has_once_are_two_classes_of_no_namespace() -> None:
    assert [(each["kind"], each["metadata"].get("namespace")) for each in cluster()] == [("PriorityClass", None)] * 2


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_has_nothing_outside_of_its_namespace_so_that_its_end_is_nobody_elses(overlay: str) -> None:
    outside = [each for each in built(overlay) if "namespace" not in each["metadata"]]
    assert [(each["kind"], each["metadata"]["name"]) for each in outside] == [("Namespace", "outrider")]
    (space,) = {each["metadata"]["namespace"] for each in built(overlay) if "namespace" in each["metadata"]}
    assert space == "outrider"


def test_the_overlay_for_one_machine_needs_nothing_that_is_applied_before() -> None:
    assert set(_classes("local").values()) == {None}


@pytest.mark.parametrize("overlay", WITH_CLASSES)
def test_a_draft_gives_way_to_all_others(overlay: str) -> None:
    found: dict[str, Object] = {each["metadata"]["name"]: each for each in of_kind(cluster(), "PriorityClass")}
    value = {name: found[str(chosen)]["value"] for name, chosen in _classes(overlay).items()}
    assert value["draft"] < min(value[name] for name in ("orchestrator", "target", "redis"))
    assert named(cluster(), "PriorityClass", "outrider-draft")["preemptionPolicy"] == "Never"


def _elsewhere(overlay: str, folder: Path, namespace: str) -> tuple[Object, ...]:
    """An overlay's copy whose line ``namespace:`` is another."""
    shutil.copytree(K8S / "overlays" / overlay, folder, dirs_exist_ok=True)
    text = (folder / "kustomization.yaml").read_text().replace("../../", f"{os.path.relpath(K8S, folder)}/")
    (folder / "kustomization.yaml").write_text(text.replace("\nnamespace: outrider\n", f"\nnamespace: {namespace}\n"))
    return tuple(yaml.safe_load_all(kustomize(folder)))


def _queries(objects: tuple[Object, ...]) -> list[str]:
    return [each["metadata"]["query"] for o in of_kind(objects, "ScaledObject") for each in o["spec"]["triggers"]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_another_namespace_is_one_line_and_all_that_names_it_follows(overlay: str, tmp_path: Path) -> None:
    here, there = built(overlay), _elsewhere(overlay, tmp_path, "outrider-next")
    assert json.dumps(there) != json.dumps(here)
    named(there, "Namespace", "outrider-next")
    assert {each["metadata"].get("namespace") for each in there} == {None, "outrider-next"}
    specs = [json.dumps(each["spec"]) for each in there if "spec" in each]
    assert not [spec for spec in specs if re.search(r'\.outrider(\.svc|")|namespace=\\"outrider\\"', spec)]


@pytest.mark.parametrize("namespace", ["outrider", "outrider-next"])
def test_autoscaling_asks_for_its_own_namespace_and_certificates_have_its_name(namespace: str, tmp_path: Path) -> None:
    objects = _elsewhere("gpu", tmp_path, namespace)
    assert len(_queries(objects)) == 4
    assert all(f'{{namespace="{namespace}"}}' in query for query in _queries(objects))
    for component in SERVICES:
        name = f"outrider-{component}"
        places = ["", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local"]
        assert named(objects, "Certificate", name)["spec"]["dnsNames"] == [name + place for place in places]


_OWN = """patches:
  - target: {kind: ScaledObject, name: outrider-target}
    patch: |-
      - op: add
        path: /spec/triggers/-
        value: {type: prometheus, metadata: {serverAddress: http://p, query: 'sum(foo{job="x"})', threshold: "1"}}
  - target: {kind: Certificate, name: outrider-orchestrator}
    patch: |-
      - {op: add, path: /spec/dnsNames/-, value: llm.example.com}
"""


def test_what_an_overlay_appends_of_its_own_is_left_alone(tmp_path: Path) -> None:
    _elsewhere("gpu", tmp_path, "outrider-next")
    file = tmp_path / "kustomization.yaml"
    file.write_text(file.read_text().replace("patches:\n", _OWN, 1))
    objects = tuple(yaml.safe_load_all(kustomize(tmp_path)))
    assert 'sum(foo{job="x"})' in _queries(objects)
    assert named(objects, "Certificate", "outrider-orchestrator")["spec"]["dnsNames"][-1] == "llm.example.com"


def _patched(folder: Path, word: str) -> tuple[Object, ...]:
    """The overlay for GPUs with the one patch of the page of installing that has this word."""
    text = (ROOT / "docs" / "kubernetes" / "install.md").read_text()
    (patch,) = (found for found in re.findall(r"```yaml\n(patches:.*?)```", text, re.DOTALL) if word in found)
    overlay = os.path.relpath(K8S / "overlays" / "gpu", folder)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [overlay]}) + patch)
    return tuple(yaml.safe_load_all(kustomize(folder)))


def test_a_second_installation_may_leave_the_rules_to_the_first(tmp_path: Path) -> None:
    """By the patch of the page of installing."""
    assert len(of_kind(built("gpu"), "PrometheusRule")) == 1
    assert not of_kind(_patched(tmp_path, "PrometheusRule"), "PrometheusRule")


def test_a_target_gets_half_an_hour_to_load_by_the_patch_of_the_page_of_installing(tmp_path: Path) -> None:
    target = named(_patched(tmp_path, "startupProbe"), "Deployment", "outrider-target")["spec"]
    probe = target["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 1800
    assert target["progressDeadlineSeconds"] >= 1800 + 300
