"""Which processes a stack has, and where each of them finds the others."""

from pathlib import Path

from outrider.cli.stack import StackOptions, services


def test_one_of_each_with_the_orchestrator_last() -> None:
    stack = services(StackOptions("t", "d", Path("logs"), port=50051))
    assert [(service.name, service.address) for service in stack] == [
        ("target", "127.0.0.1:50052"),
        ("draft", "127.0.0.1:50053"),
        ("orchestrator", "127.0.0.1:50051"),
    ]


def test_without_a_draft_there_is_none() -> None:
    stack = services(StackOptions("t", None, Path("logs"), port=50051, drafts=3))
    assert [service.name for service in stack] == ["target", "orchestrator"]
    assert stack[-1].variables["OUTRIDER_DRAFT"] == ""


def test_more_of_a_role_move_none_of_another_and_everybody_knows_all_replicas() -> None:
    options = StackOptions("t", "d", Path("logs"), port=50051, targets=2, drafts=3, orchestrators=2)
    stack = {service.name: service for service in services(options)}
    assert list(stack)[-1] == "orchestrator"
    assert len({service.address for service in stack.values()}) == 7
    assert [stack[name].address[-5:] for name in ("orchestrator", "target", "draft")] == ["50051", "50052", "50053"]
    for name in ("orchestrator", "orchestrator-2"):
        variables = stack[name].variables
        assert variables["OUTRIDER_TARGET"] == f"{stack['target'].address},{stack['target-2'].address}"
        assert len(variables["OUTRIDER_DRAFT"].split(",")) == 3
    assert {service.module for service in stack.values()} == {"target_service", "draft_service", "orchestrator"}
    assert stack["draft-3"].variables["OUTRIDER_MODEL"] == "d"
