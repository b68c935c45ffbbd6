"""Every overlay, and the base with each component, builds and holds against strict schemas of the oldest and newest
Kubernetes that is supported."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import COMPONENTS, OVERLAYS, Object, built, made_of, named
from tests.deploy.manifests_schemas import KUBERNETES, check

NEEDS: dict[str, tuple[str, ...]] = {
    "collector-upstream": ("collector",),
    "gateway": ("page",),
    "gateway-tls": ("mtls",),
    "models-download": ("models-claim",),
}
"""What a component builds upon."""


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_holds_against_the_schemas(overlay: str, version: str) -> None:
    for each in built(overlay):
        check(each, version)


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_base_with_one_component_builds_and_holds(component: str, tmp_path: Path) -> None:
    for each in made_of(tmp_path, [*NEEDS.get(component, ()), component]):
        check(each, KUBERNETES[-1])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_object_is_there_twice_and_all_are_in_one_namespace(overlay: str) -> None:
    keys = [(each["kind"], each["metadata"]["name"]) for each in built(overlay)]
    assert len(set(keys)) == len(keys)
    spaces = {each["metadata"].get("namespace") for each in built(overlay) if each["kind"] != "Namespace"}
    assert spaces == {"outrider"}


def _changed(kind: str, name: str, *path: Any) -> Object:
    thing: Any = copy.deepcopy(named(built("gpu"), kind, name))
    place = thing
    for step in path:
        place = place[step]
    place["noSuchField"] = 1
    return dict(thing)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("Deployment", "outrider-target", ("spec", "template", "spec", "containers", 0)),
        ("Service", "outrider-target", ("spec",)),
        ("NetworkPolicy", "outrider-target", ("spec",)),
        ("Certificate", "outrider-target", ("spec",)),
        ("PodMonitor", "outrider-target", ("spec", "podMetricsEndpoints", 0)),
        ("GRPCRoute", "outrider", ("spec", "rules", 0)),
    ],
)
def test_a_field_that_is_not_known_would_be_found(kind: str, name: str, path: tuple[Any, ...], version: str) -> None:
    check(named(built("gpu"), kind, name), version)
    with pytest.raises(ValueError, match=f"{kind}/{name}.*noSuchField"):
        check(_changed(kind, name, *path), version)


def test_a_kind_that_no_schema_knows_would_be_found() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    with pytest.raises(ValueError, match="no schema"):
        check(thing, KUBERNETES[0])
