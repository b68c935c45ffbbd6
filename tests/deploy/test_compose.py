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


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_every_container_has_a_read_only_root_and_no_rights(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["tmpfs"] == (["/data"] if name == "redis" else ["/tmp"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", CONFIGS)
def test_the_health_check_is_the_images_and_what_it_asks_is_not_moved(name: str) -> None:
    assert "healthcheck" not in COMPOSE["services"][name]
    assert "OUTRIDER_HEALTH" not in COMPOSE["services"][name]["environment"]


def test_what_waits_for_a_healthy_service_waits_for_one_with_a_health_check() -> None:
    for service in COMPOSE["services"].values():
        for other, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] != "service_healthy" or other in CONFIGS
