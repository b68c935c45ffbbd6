"""What kustomize makes of deploy/k8s, as values to ask: objects, pods, and the environment that a container gets.

It does not know what is right: the tests do.
"""

import base64
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "deploy" / "k8s"
OVERLAYS = tuple(sorted(path.name for path in (K8S / "overlays").iterdir()))
COMPONENTS = tuple(sorted(path.name for path in (K8S / "components").iterdir()))
_KUBECTL = Path(sys.executable).parent / "kubectl"
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
Object = Mapping[str, Any]


def kustomize(folder: Path) -> str:
    """The YAML of a folder. Raises AssertionError with what kustomize said."""
    done = subprocess.run([_KUBECTL, "kustomize", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    return done.stdout


@functools.cache
def built(overlay: str) -> tuple[Object, ...]:
    """The objects of an overlay."""
    return tuple(yaml.safe_load_all(kustomize(K8S / "overlays" / overlay)))


@functools.cache
def cluster() -> tuple[Object, ...]:
    """What is applied once for a whole cluster, before any overlay."""
    return tuple(yaml.safe_load_all(kustomize(K8S / "cluster")))


def made_of(folder: Path, components: Sequence[str], *lines: str) -> tuple[Object, ...]:
    """The base with these components, as an overlay in an empty folder; ``lines`` are more of its kustomization."""
    there = Path(os.path.relpath(K8S, folder))
    text = {"namespace": "outrider", "resources": [str(there / "base")]}
    listed = {"components": [str(there / "components" / name) for name in components]} if components else {}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text | listed) + "\n".join(lines))
    return tuple(yaml.safe_load_all(kustomize(folder)))


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [each for each in objects if each["kind"] == kind]


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    """The one of that kind and name. Raises AssertionError."""
    found = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    assert len(found) == 1, f"{len(found)} objects {kind}/{name}"
    return found[0]


@dataclass(frozen=True, slots=True)
class Pod:
    """What a Deployment or Job makes."""

    owner: Object
    labels: Mapping[str, str]
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def component(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        """Init containers, too."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def main(self) -> Mapping[str, Any]:
        """The one container that serves."""
        (only,) = self.spec["containers"]
        return dict(only)

    @property
    def port(self) -> dict[str, int]:
        """Ports of that one by name."""
        return {port["name"]: port["containerPort"] for port in self.main.get("ports", [])}


def pods(objects: Sequence[Object]) -> list[Pod]:
    """One for each object that makes pods."""
    found = []
    for each in objects:
        if "template" in each.get("spec", {}):
            template = each["spec"]["template"]
            found.append(Pod(each, template["metadata"]["labels"], template["spec"]))
    return found


def pod_of(objects: Sequence[Object], component: str) -> Pod:
    """The one of a component. Raises ValueError."""
    (found,) = (pod for pod in pods(objects) if pod.component == component)
    return found


def secret_data(secret: Object) -> dict[str, str]:
    """What is in a Secret, decoded."""
    data = {name: base64.b64decode(text).decode() for name, text in (secret.get("data") or {}).items()}
    return data | dict(secret.get("stringData") or {})


def _from_source(objects: Sequence[Object], source: Mapping[str, Any], fields: Mapping[str, str]) -> str | None:
    """A value that stands elsewhere; None where it is optional and missing."""
    if "fieldRef" in source:
        return fields[source["fieldRef"]["fieldPath"]]
    if "resourceFieldRef" in source:
        return fields[source["resourceFieldRef"]["resource"]]
    kind, key = next((kind, source[key]) for kind, key in _REFERENCES if key in source)
    if key.get("optional") and not any(each["metadata"]["name"] == key["name"] for each in of_kind(objects, kind)):
        return None
    found = named(objects, kind, key["name"])
    return (secret_data(found) if kind == "Secret" else dict(found["data"]))[key["key"]]


_REFERENCES = (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef"))


def _sources(objects: Sequence[Object], container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            yield from named(objects, "ConfigMap", source["configMapRef"]["name"])["data"].items()
        else:
            yield from secret_data(named(objects, "Secret", source["secretRef"]["name"])).items()


def environment(
    objects: Sequence[Object], container: Mapping[str, Any], pod_ip: str = "10.0.0.7", pod_name: str = "outrider-x-1"
) -> dict[str, str]:
    """The variables that the kubelet would set: envFrom first, then env, where $(NAME) stands for an earlier one."""
    limits = container["resources"].get("limits", {})
    fields = {"status.podIP": pod_ip, "metadata.name": pod_name, "limits.cpu": str(limits.get("cpu"))}
    own: dict[str, str] = {}
    for each in container.get("env", []):
        source = each.get("valueFrom")
        value = _from_source(objects, source, fields) if source else expanded(each.get("value", ""), own)
        if value is not None:
            own[each["name"]] = value
    return dict(_sources(objects, container)) | own


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """$(NAME) replaced as Kubernetes does: an unknown name stays as it is, $$ is a dollar sign."""
    return _VARIABLE.sub(lambda found: "$" if not found[1] else variables.get(found[1], found[0]), text)


def command(objects: Sequence[Object], container: Mapping[str, Any]) -> list[str]:
    """The words after the image's entry point."""
    variables = environment(objects, container)
    return [expanded(word, variables) for word in container.get("args", [])]


def image_name(container: Mapping[str, Any]) -> str:
    """The last part of its image's name, without registry and tag."""
    return str(container["image"]).rsplit("/", 1)[-1].split(":")[0]


def references(pod: Pod, kind: str) -> set[str]:
    """Names of the ConfigMaps or Secrets that a pod needs."""
    text = json.dumps(pod.spec)
    keys = {"ConfigMap": r"configMap(?:KeyRef|Ref)?", "Secret": r"secret(?:KeyRef|Ref)?"}[kind]
    found = re.findall(rf'"{keys}": ({{[^{{}}]*}})', text)
    wanted = [json.loads(each) for each in found]
    return {each.get("secretName") or each["name"] for each in wanted if not each.get("optional")}
