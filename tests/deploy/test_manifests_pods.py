"""Every pod keeps the restricted profile, says what it needs, ends in time, and runs what the images have."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from orchestrator.__main__ import _LEAVE_S
from orchestrator.config import OrchestratorConfig
from outrider.config import load
from outrider.replica_config import DraftConfig, ReplicaConfig
from tests.deploy.manifests import (
    OVERLAYS,
    ROOT,
    Pod,
    built,
    command,
    environment,
    image_name,
    named,
    of_kind,
    pod_of,
    pods,
)
from tests.deploy.test_manifests import EACH, PODS

CONFIGS: dict[str, Any] = {"target": ReplicaConfig, "draft": DraftConfig, "orchestrator": OrchestratorConfig}
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SLACK_S = 10
THEIRS = {"redis", "opentelemetry-collector"}
"""Images that are not built here."""


def _pod(overlay: str, name: str) -> Pod:
    return next(pod for pod in pods(built(overlay)) if pod.name == name)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_namespace_enforces_the_restricted_profile(overlay: str) -> None:
    assert (
        named(built(overlay), "Namespace", "outrider")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "restricted"
    )


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_a_pod_keeps_the_restricted_profile(overlay: str, name: str) -> None:
    pod = _pod(overlay, name)
    context = pod.spec["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"], context["runAsGroup"]) == (True, 65532, 65532)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec)
    kinds = {kind for volume in pod.spec.get("volumes", []) for kind in volume if kind != "name"}
    assert kinds <= {"emptyDir", "configMap", "secret", "persistentVolumeClaim", "image"}
    for container in pod.containers:
        own = container["securityContext"]
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert "hostPort" not in str(container.get("ports"))


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_nobody_gets_a_token_of_the_cluster_or_variables_of_its_services(overlay: str, name: str) -> None:
    pod = _pod(overlay, name)
    account = named(built(overlay), "ServiceAccount", name)
    assert (pod.spec["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (False, False)
    assert pod.spec["enableServiceLinks"] is False  # OUTRIDER_TARGET_PORT and such would look like settings


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_every_container_says_what_it_needs_and_gets_no_more_memory(overlay: str, name: str) -> None:
    for container in _pod(overlay, name).containers:
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(requests) & set(limits)
        assert requests["memory"] == limits["memory"]


def _cores(quantity: str) -> float:
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def _gib(quantity: str) -> float:
    return float(quantity[:-2]) / {"Gi": 1, "Mi": 1024}[quantity[-2:]]


def _asked(resource: str, size: Callable[[str], float]) -> float:
    """What the scheduler counts for the overlay of one machine: containers, or an init container that wants more."""
    total = 0.0
    for pod in pods(built("local")):
        first = [size(each["resources"]["requests"][resource]) for each in pod.spec.get("initContainers", [])]
        served = size(pod.main["resources"]["requests"][resource])
        total += pod.owner["spec"]["replicas"] * max([served, *first])
    return total


def test_the_page_of_installing_says_what_the_overlay_of_one_machine_asks_for() -> None:
    said = f"all of it asks for {_asked('cpu', _cores):.1f} cores and {_asked('memory', _gib):.1f} GiB"
    assert said in (ROOT / "docs" / "kubernetes" / "install.md").read_text()


@pytest.mark.parametrize(("overlay", "component"), [each for each in EACH if each[1] != "orchestrator"])
def test_a_pass_has_as_many_threads_as_cores(overlay: str, component: str) -> None:
    main = pod_of(built(overlay), component).main
    assert environment(built(overlay), main)["OUTRIDER_THREADS"] == str(int(main["resources"]["limits"]["cpu"]))


@pytest.mark.parametrize(("overlay", "component"), EACH)
def test_the_grace_period_covers_the_pause_the_drain_and_some_slack(overlay: str, component: str) -> None:
    pod = pod_of(built(overlay), component)
    config = load(CONFIGS[component], environment(built(overlay), pod.main))
    leaving = _LEAVE_S if component == "orchestrator" else 0
    pause = pod.main["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pause >= 5
    assert pod.spec["terminationGracePeriodSeconds"] >= pause + config.drain_s + leaving + SLACK_S


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_images_and_commands_are_those_of_the_dockerfile(overlay: str, name: str) -> None:
    stages = re.findall(r"^FROM .+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["python", "-m"\]$', DOCKERFILE, re.MULTILINE)
    assert re.search(r"^USER 65532", DOCKERFILE, re.MULTILINE)
    for container in _pod(overlay, name).containers:
        assert "command" not in container
        if image_name(container) in THEIRS:
            continue
        assert image_name(container).removeprefix("outrider-") in stages
        module = command(built(overlay), container)[0]
        assert find_spec(module) is not None
        assert (module == "orchestrator") == (image_name(container) == "outrider-orchestrator")


@pytest.mark.parametrize(("overlay", "name"), PODS)
def test_what_is_written_goes_to_a_volume(overlay: str, name: str) -> None:
    for container in _pod(overlay, name).containers:
        if image_name(container) in THEIRS:
            continue
        writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
        assert "/tmp" in writable


@pytest.mark.parametrize("overlay", ["gpu", "air-gapped"])
def test_images_have_a_version(overlay: str) -> None:
    for pod in pods(built(overlay)):
        for container in pod.containers:
            assert re.search(r":[^/:]+$", container["image"]), container["image"]
            assert not container["image"].endswith(":latest")


def test_an_air_gapped_cluster_pulls_from_one_registry_with_its_own_secret() -> None:
    objects = built("air-gapped")
    found = [container["image"] for pod in pods(objects) for container in pod.containers]
    found += [v["image"]["reference"] for pod in pods(objects) for v in pod.spec["volumes"] if "image" in v]
    assert len(found) == 7
    assert {image.split("/")[0] for image in found} == {"registry.internal.example"}
    assert all(each["imagePullSecrets"] == [{"name": "registry"}] for each in of_kind(objects, "ServiceAccount"))


def test_on_gpus_each_model_has_one_of_a_kind_that_is_named() -> None:
    wanted = {"draft": {"NVIDIA-L4"}, "target": {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"}}
    for component, products in wanted.items():
        pod = pod_of(built("gpu"), component)
        assert pod.main["resources"]["limits"]["nvidia.com/gpu"] == "1"
        affinity = pod.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (expression,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
        assert (expression["key"], set(expression["values"])) == ("nvidia.com/gpu.product", products)
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod.spec["tolerations"]
        assert environment(built("gpu"), pod.main)["OUTRIDER_DEVICE"] == "cuda"
