"""What the Secrets of a pod hold, as files under a folder that stands for its root."""

from collections.abc import Sequence
from pathlib import Path

from tests.certificates import Authority
from tests.deploy.manifests import Object, Pod, named, of_kind, secret_data


def write_secrets(objects: Sequence[Object], pod: Pod, root: Path, authority: Authority) -> None:
    """Certificates for the names that their Certificate has, new ones each time, and what else is in Secrets."""
    mounts = {mount["name"]: mount["mountPath"] for mount in pod.main["volumeMounts"]}
    for volume in pod.spec["volumes"]:
        if "secret" in volume:
            folder = root / mounts[volume["name"]].removeprefix("/")
            _write(objects, volume["secret"]["secretName"], folder, authority)


def _write(objects: Sequence[Object], name: str, folder: Path, authority: Authority) -> None:
    for certificate in of_kind(objects, "Certificate"):
        if certificate["spec"]["secretName"] == name:
            authority.write(folder, *certificate["spec"]["dnsNames"])
            return
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in secret_data(named(objects, "Secret", name)).items():
        (folder / file).write_text(text)
