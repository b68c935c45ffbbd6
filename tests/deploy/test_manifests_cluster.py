"""Two installations in two namespaces of one cluster share nothing but what is applied by itself, once, before them."""

import pytest

from tests.deploy.manifests import OVERLAYS, Object, built, cluster, named, of_kind, pod_of
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
