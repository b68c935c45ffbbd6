"""deploy/compose.yaml and deploy/Dockerfile say what the code really reads and runs."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml

from orchestrator.config import OrchestratorConfig
from outrider.config import PREFIX, load
from outrider.replica_config import ReplicaConfig

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
CONFIGS: dict[str, Any] = {"target": ReplicaConfig, "draft": ReplicaConfig, "orchestrator": OrchestratorConfig}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_variable_is_one_that_the_service_reads(name: str) -> None:
    fields = {PREFIX + field.name.upper() for field in dataclasses.fields(CONFIGS[name])}
    variables = {v for v in COMPOSE["services"][name]["environment"] if v.startswith(PREFIX)}
    assert variables <= fields


@pytest.mark.parametrize("name", CONFIGS)
def test_the_environment_is_a_valid_configuration(name: str) -> None:
    load(CONFIGS[name], COMPOSE["services"][name]["environment"])


@pytest.mark.parametrize("name", [name for name, service in COMPOSE["services"].items() if "build" in service])
def test_every_command_is_a_module_of_the_project(name: str) -> None:
    service = COMPOSE["services"][name]
    module = service.get("command", ["orchestrator"])[0]
    assert importlib.util.find_spec(module) is not None


def test_addresses_name_services_of_the_file() -> None:
    environment = COMPOSE["services"]["orchestrator"]["environment"]
    for variable in ("OUTRIDER_TARGET", "OUTRIDER_DRAFT"):
        host, port = environment[variable].removeprefix("dns:///").split(":")
        assert COMPOSE["services"][host]["environment"]["OUTRIDER_LISTEN"].endswith(f":{port}")
    assert urlparse(environment["OUTRIDER_JOURNAL"]).hostname in COMPOSE["services"]


def test_stages_named_by_the_compose_file_exist_in_the_dockerfile() -> None:
    stages = {line.split()[-1] for line in (ROOT / "deploy" / "Dockerfile").read_text().splitlines() if " AS " in line}
    wanted = {s["build"]["target"] for s in COMPOSE["services"].values() if "build" in s}
    assert wanted <= stages


@pytest.mark.parametrize("name", CONFIGS)
def test_the_grace_period_is_longer_than_the_drain(name: str) -> None:
    config = load(CONFIGS[name], COMPOSE["services"][name]["environment"])
    assert int(COMPOSE["services"][name]["stop_grace_period"].rstrip("s")) > config.drain_s
