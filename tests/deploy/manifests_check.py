"""Builds every overlay, and what a cluster has once, into a folder and holds each object against the schemas of the
oldest and newest Kubernetes.

``python -m tests.deploy.manifests_check FOLDER``; it ends with 1 where something is wrong.
"""

import sys
from pathlib import Path

import yaml

from tests.deploy.manifests import K8S, OVERLAYS, kustomize
from tests.deploy.manifests_schemas import KUBERNETES, OTHERS, check


def _wrong(text: str) -> list[str]:
    """What the schemas say against the objects of an overlay."""
    found = []
    for thing in yaml.safe_load_all(text):
        for version in KUBERNETES:
            try:
                check(thing, version)
            except ValueError as error:
                found.append(str(error))
    return found


def main(folder: Path) -> int:
    """Write FOLDER/<overlay>.yaml and FOLDER/cluster.yaml and say what is wrong. Returns the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for source in (K8S / "cluster", *(K8S / "overlays" / overlay for overlay in OVERLAYS)):
        text, made = kustomize(source), folder / f"{source.name}.yaml"
        made.write_text(text)
        objects = list(yaml.safe_load_all(text))
        wrong = _wrong(text)
        failed = failed or bool(wrong)
        others = sum((each["apiVersion"], each["kind"]) in OTHERS for each in objects)
        words = f"{len(objects)} objects, {others} of them of other projects, Kubernetes {' and '.join(KUBERNETES)}"
        print(f"{made}: {words}: {'; '.join(wrong) or 'all hold'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
