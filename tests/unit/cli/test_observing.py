"""What ``up`` adds so that people can look: no port twice, each service told where its traces and metrics go."""

from pathlib import Path
from typing import Any

import pytest

from outrider.cli.observing import METRICS_AT, PAGE, whereabouts
from outrider.cli.stack import StackOptions, services


def options(**more: Any) -> StackOptions:
    return StackOptions("target", "draft", Path("logs"), **more)


def test_nothing_is_added_unless_asked_for() -> None:
    stack = services(options())
    assert [service.name for service in stack] == ["target", "draft", "orchestrator"]
    assert not [name for service in stack for name in service.variables if name.startswith("OTEL") or name == PAGE]
    assert not list(whereabouts(stack))


def test_every_orchestrator_has_a_page_of_its_own() -> None:
    stack = services(options(orchestrators=2, page_port=50080))
    pages = {service.name: service.variables[PAGE] for service in stack if PAGE in service.variables}
    assert pages == {"orchestrator": "127.0.0.1:50080", "orchestrator-2": "127.0.0.1:50081"}


@pytest.mark.parametrize("port", [50051, 0])
def test_every_service_sends_its_traces_to_the_receiver_and_has_a_port_for_metrics(port: int) -> None:
    stack = services(options(port=port, targets=2, drafts=2, observed=True, page_port=0))
    receiver, *others = stack
    assert receiver.module == "outrider.receiver"
    assert receiver.arguments == ("--listen", receiver.address, "--file", "logs/traces.jsonl")
    assert {service.variables["OTEL_EXPORTER_OTLP_ENDPOINT"] for service in others} == {f"http://{receiver.address}"}
    ports = [service.variables[METRICS_AT] for service in others]
    assert len(set(ports)) == len(others) == 5
    assert stack[-1].name == "orchestrator"


def test_the_first_of_each_role_serves_metrics_where_the_example_of_prometheus_looks() -> None:
    stack = services(options(targets=2, observed=True))
    ports = {service.name: service.variables.get(METRICS_AT) for service in stack}
    assert (ports["orchestrator"], ports["draft"], ports["target"]) == ("9464", "9465", "9466")


def test_it_says_where_to_look() -> None:
    said = "\n".join(whereabouts(services(options(observed=True, page_port=50080))))
    assert "http://127.0.0.1:50080/ui" in said
    assert "http://127.0.0.1:9464/metrics" in said
    assert "logs/traces.jsonl" in said
