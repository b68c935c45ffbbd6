"""What can be known of the images without building them: deploy/Dockerfile, .dockerignore and pyproject.toml."""

import importlib.util
import os
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from deploy.image_requirements import BUILD, requirements
from deploy.image_torch import complaint, kind
from orchestrator.config import OrchestratorConfig
from outrider.cli.main import app
from outrider.config import load
from outrider.replica_config import DraftConfig, ReplicaConfig
from tests.deploy.dockerfile import ROOT, STAGES, copied, environment, is_left_out, last, line_of, words

IMAGES = ("orchestrator", "replica")
MODEL_LIBRARIES = {"torch", "transformers", "numba", "llvmlite", "numpy", "safetensors", "accelerate", "gguf", "triton"}
TEXT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(TEXT)
STARTED = {
    "orchestrator": ("orchestrator",),
    "replica": ("target_service", "draft_service", "outrider.inference.prepare"),
}


def _all_needed(lines: list[str], extras: frozenset[str] = frozenset()) -> set[str]:
    """Names of what pip would install, as far as it is installed here."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in lines]
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if name in found:
            continue
        found.add(name)
        try:
            below = [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            continue
        chosen = [{"extra": extra} for extra in ("", *each.extras)]
        waiting += [one for one in below if one.marker is None or any(map(one.marker.evaluate, chosen))]
    return found


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_ends_as_a_user_without_rights(image: str) -> None:
    assert last(image, "USER") == "65532:65532"
    assert [stage.name for stage in line_of(image)] == ["runtime", image]


@pytest.mark.parametrize("image", IMAGES)
def test_nothing_is_installed_after_the_user_has_changed(image: str) -> None:
    assert not STAGES[image].all("RUN")


def test_the_base_has_a_tag_and_all_stages_start_from_it() -> None:
    (base,) = (rest for rest in STAGES[""].all("ARG") if rest.startswith("BASE="))
    assert ":" in base
    assert not base.endswith(":latest")
    assert {line_of(name)[0].base for name in STAGES if name} == {"${BASE}"}


def test_the_orchestrator_installs_no_model_library() -> None:
    needed = _all_needed(requirements(TEXT, []))
    assert {"grpcio", "tokenizers", "markupsafe"} <= needed  # so the walk goes on below what the project names
    assert not needed & MODEL_LIBRARIES
    assert all("replica.txt" not in rest for stage in line_of("build-orchestrator") for rest in stage.all("RUN")[1:])


def test_the_replica_installs_them() -> None:
    assert {"torch", "transformers", "numba", "safetensors"} <= _all_needed(requirements(TEXT, ["models", "prepare"]))


def test_requirements_are_those_of_pyproject() -> None:
    assert requirements(TEXT, [BUILD]) == PROJECT["build-system"]["requires"]
    with pytest.raises(KeyError, match="nothing"):
        requirements(TEXT, ["nothing"])


@pytest.mark.parametrize("name", ["hatchling", "setuptools", "torch", "grpcio", "transformers", "numba"])
def test_what_images_install_has_a_fixed_version(name: str) -> None:
    assert any(line.startswith(f"{name}==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    assert environment("build")["PIP_CONSTRAINT"] == "/src/constraints.txt"


@pytest.mark.parametrize("image", IMAGES)
def test_each_module_that_an_image_starts_is_in_it(image: str) -> None:
    assert words(last(image, "ENTRYPOINT")) == ["python", "-m"]
    assert words(last(image, "CMD"))[0] in STARTED[image]
    for module in STARTED[image]:
        assert importlib.util.find_spec(module) is not None
        assert module.split(".")[0] in copied(f"build-{image}")


def test_the_replica_has_every_package_of_the_project() -> None:
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(copied("build-replica"))


@pytest.mark.parametrize("path", sorted({path for image in IMAGES for path in copied(f"build-{image}")}))
def test_what_is_copied_exists_and_is_not_left_out(path: str) -> None:
    assert (ROOT / path).exists()
    assert not is_left_out(path)
    if (ROOT / path).is_dir():
        assert not is_left_out(f"{path}/__init__.py")
        assert is_left_out(f"{path}/__pycache__/x.pyc")


@pytest.mark.parametrize(
    "path", [".git/config", ".venv/bin/python", "build/key.pem", "tests/tiny.py", ".env", "deploy/k8s/secret.yaml"]
)
def test_all_else_is_left_out(path: str) -> None:
    assert is_left_out(path)


@pytest.mark.parametrize("image", IMAGES)
def test_what_is_written_goes_where_a_read_only_root_allows_it(image: str) -> None:
    variables = environment(image)
    caches = {name for name in variables if name.endswith(("_CACHE_DIR", "_CACHE_HOME", "_CACHE_PATH"))}
    assert all(variables[name].startswith("/tmp") for name in (*caches, "HOME"))
    assert last(image, "WORKDIR") == "/tmp"
    if image == "replica":
        assert {"NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"} <= caches


@pytest.mark.parametrize(
    ("image", "kind_of_config"),
    [("orchestrator", OrchestratorConfig), ("replica", ReplicaConfig), ("replica", DraftConfig)],
)
def test_the_environment_of_an_image_is_a_valid_configuration(image: str, kind_of_config: type) -> None:
    variables = {**environment(image), "OUTRIDER_MODEL": "/m", "OUTRIDER_TOKENIZER": "/m"}
    config: Any = load(kind_of_config, variables)
    ports = last(image, "EXPOSE").split()
    assert config.listen.startswith("0.0.0.0:")
    assert {config.listen.split(":")[1], config.health.split(":")[1]} <= set(ports)


@pytest.mark.parametrize(
    ("image", "started", "service"),
    [
        ("orchestrator", "orchestrator", "OrchestratorService"),
        ("replica", "target_service", "TargetService"),
        ("replica", "draft_service", "DraftService"),
    ],
)
def test_the_health_check_asks_the_health_port_for_the_service_that_was_started(
    image: str, started: str, service: str, tmp_path: Path
) -> None:
    """``outrider`` is a stand-in that prints its arguments, and /proc/1 a file."""
    (tmp_path / "outrider").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "outrider").chmod(0o755)
    (tmp_path / "cmdline").write_bytes(f"python\0-m\0{started}\0".encode())
    command = words(last(image, "HEALTHCHECK"))[-1].replace("/proc/1/cmdline", str(tmp_path / "cmdline"))
    variables = {"OUTRIDER_HEALTH": "0.0.0.0:50059", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(["sh", "-c", command], env=variables, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["health", "--address", "127.0.0.1:50059", "--service", f"outrider.v1.{service}"]


def test_the_command_of_the_health_check_exists() -> None:
    asked = ["health", "--address", "127.0.0.1:1", "--service", "outrider.v1.TargetService"]
    assert CliRunner().invoke(app, asked).exit_code == 1


def test_the_version_of_the_label_is_the_projects() -> None:
    assert f'org.opencontainers.image.version="{PROJECT["project"]["version"]}"' in STAGES["runtime"].all("LABEL")[0]


def test_no_address_of_an_index_is_in_the_dockerfile() -> None:
    assert "://" not in (ROOT / "deploy" / "Dockerfile").read_text()


def test_torch_of_another_kind_than_asked_for_is_named() -> None:
    assert kind(None) == "cpu"
    assert kind("13.0") == "cu130"
    assert complaint("cpu", "cpu") == complaint("", "cu130") == ""
    assert "TORCH=cpu" in complaint("cpu", "cu130")
