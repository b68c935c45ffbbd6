"""Walks every import, function-level ones included, and holds the rules of the layout.

A rule that fails here is a decision to take, not a list to extend in passing.
"""

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("outrider", "draft_service", "target_service", "orchestrator")
SERVICES = ("draft_service", "target_service", "orchestrator")
GENERATED = "outrider.v1"

MODEL_LIBRARIES = ("torch", "transformers", "numba", "numpy", "safetensors", "huggingface_hub")
MAY_USE_MODELS = ("outrider.inference", "outrider.choice", "outrider.noise", "draft_service", "target_service")

MAY_USE_MESSAGES = (
    "outrider.wire",
    "outrider.client.messages",
    "outrider.client.asking",
    "outrider.client.client",
    "outrider.client.line",
    "outrider.cli",
    "draft_service.service",
    "draft_service.__main__",
    "target_service.service",
    "target_service.__main__",
    "orchestrator.service",
    "orchestrator.looking",
    "orchestrator.web",
    "orchestrator.clients",
    "orchestrator.draft_stream",
    "orchestrator.target_stream",
    "orchestrator.request",
    "orchestrator.replies",
    "orchestrator.reception",
    "orchestrator.journal",
    "orchestrator.journal_messages",
    "orchestrator.__main__",
)
MAY_USE_GRPC = (
    "outrider.server",
    "outrider.interceptor",
    "outrider.health",
    "outrider.credentials",
    "outrider.status",
    "outrider.client.line",
    "outrider.cli",
    "orchestrator.clients",
    "orchestrator.draft_stream",
    "orchestrator.target_stream",
    "orchestrator.round_stream",  # the transport under them
    "orchestrator.member",
    "orchestrator.line",
)
MAY_READ_ENVIRONMENT = (*(f"{service}.__main__" for service in SERVICES), "outrider.cli")


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a module is one of these or inside one of them."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


@cache
def modules() -> dict[str, Path]:
    """Our modules by dotted name; generated ones are left out."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not within(name, (GENERATED,)):
                found[name] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(), str(modules()[name]))


@cache
def imports(name: str) -> frozenset[str]:
    """Every name that a module imports, anywhere in it; ``from a import b`` gives a.b."""
    found: set[str] = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} uses a relative import"
            assert node.module
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def ours(name: str) -> Iterator[str]:
    """Our modules that a module imports."""
    for imported in imports(name):
        if imported in modules():
            yield imported
        elif imported.rpartition(".")[0] in modules():
            yield imported.rpartition(".")[0]


def reachable(name: str) -> set[str]:
    """A module and everything of ours that it imports, directly or not."""
    seen, todo = set(), [name]
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo.extend(ours(module))
    return seen


def users_of(*libraries: str) -> set[str]:
    """Our modules that import one of these themselves."""
    return {name for name in modules() if any(within(imported, libraries) for imported in imports(name))}


def outside(names: set[str], allowed: tuple[str, ...]) -> list[str]:
    return sorted(name for name in names if not within(name, allowed))


def test_the_walk_sees_the_project() -> None:
    assert len(modules()) > 50
    assert "orchestrator.answer" in set(ours("orchestrator.session"))
    assert within("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", ("opentelemetry.exporter",))
    assert "outrider.exporting" in imports("outrider.trace_settings"), "function-level imports count"


def test_imports_have_no_cycles() -> None:
    graph = {name: set(ours(name)) - {name} for name in modules()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_model_libraries_stay_with_the_models() -> None:
    assert outside(users_of(*MODEL_LIBRARIES), MAY_USE_MODELS) == []


def test_nothing_that_the_orchestrator_imports_needs_torch() -> None:
    """Its image has no torch."""
    needed = set().union(*(reachable(name) for name in modules() if within(name, ("orchestrator",))))
    assert needed & users_of(*MODEL_LIBRARIES) == set()


def test_the_shared_library_knows_no_service() -> None:
    users = {name for name in users_of(*SERVICES) if within(name, ("outrider",))}
    assert users == set()


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_knows_no_other_service(service: str) -> None:
    others = tuple(other for other in SERVICES if other != service)
    assert {name for name in users_of(*others) if within(name, (service,))} == set()


def test_nothing_but_the_command_line_imports_the_command_line() -> None:
    assert outside(users_of("outrider.cli"), ("outrider.cli",)) == []


def test_the_acceptance_loop_knows_neither_grpc_nor_protobuf_nor_torch() -> None:
    foreign = users_of("grpc", "grpc_status", "google", GENERATED, *MODEL_LIBRARIES)
    assert reachable("orchestrator.session") & foreign == set()


def test_protobuf_messages_stop_at_the_border() -> None:
    """They are known where messages become values: services, clients, the request reader and the wire."""
    assert outside(users_of(GENERATED), MAY_USE_MESSAGES) == []


def test_grpc_is_known_to_servers_clients_and_statuses_only() -> None:
    assert outside(users_of("grpc"), MAY_USE_GRPC) == []


def test_the_choice_rule_knows_errors_noise_and_parameters_only() -> None:
    assert reachable("outrider.choice") == {
        "outrider.choice",
        "outrider.errors",
        "outrider.hashing",
        "outrider.noise",
        "outrider.sampling",
    }


def test_the_engine_knows_no_asyncio() -> None:
    """One thread owns it; the batcher is the only bridge."""
    below = reachable("outrider.inference.engine")
    assert below & users_of("asyncio", "threading", "grpc") == set()


def reads_environment(name: str) -> bool:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"):
            return True
    return bool(imports(name) & {"os.environ", "os.environb", "os.getenv"})


def test_the_environment_is_read_at_the_entry_points_only() -> None:
    assert outside({name for name in modules() if reads_environment(name)}, MAY_READ_ENVIRONMENT) == []


def calls_of(name: str) -> Iterator[str]:
    """What a module calls, as it is written."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_nothing_that_is_read_can_run_code() -> None:
    """Weights are safetensors: no pickle, in any of the forms in which libraries load it."""
    picklers = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    assert users_of(*picklers) == set()
    loaders = {"torch.load", "yaml.load", "yaml.unsafe_load", "eval", "exec", "numpy.lib.format.read_array"}
    assert {(name, call) for name in modules() for call in calls_of(name) if call in loaders} == set()
    allowing = [name for name, path in modules().items() if "allow_pickle=True" in path.read_text()]
    assert allowing == []


def test_every_module_opens_with_what_it_does() -> None:
    silent = [name for name in modules() if not ast.get_docstring(tree(name))]
    others = {path: path.read_text() for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")}
    silent += [str(path) for path, text in others.items() if text.strip() and not ast.get_docstring(ast.parse(text))]
    assert silent == []


def test_every_import_of_ours_exists() -> None:
    """A name imported from our packages is a module or defined in one."""
    for name in modules():
        for imported in imports(name):
            if within(imported, PACKAGES) and not within(imported, (GENERATED,)):
                assert imported in modules() or imported.rpartition(".")[0] in modules(), (name, imported)
