"""Each container's command, started as a process with exactly the manifest's environment, passes its own probes; with
certificates, too."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from outrider.client import Ask, Client
from outrider.errors import Unauthenticated
from tests.certificates import Authority
from tests.deploy.manifests import OVERLAYS, built, command, environment, of_kind, pod_of
from tests.deploy.manifests_processes import Machine, machine
from tests.integration.processes import Service
from tests.integration.processes import environment as clean
from tests.waiting import until

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
READY_S = 90.0
ON_CPU = [overlay for overlay in OVERLAYS if "nvidia.com/gpu" not in str(built(overlay))]
CERTIFICATES = "air-gapped"


def _link_models(here: Machine, target: Path, draft: Path) -> None:
    """Put small models where the settings look for those of the overlay."""
    wanted = (("target", "MODEL", target), ("draft", "MODEL", draft), ("orchestrator", "TOKENIZER", target))
    for component, setting, folder in wanted:
        link = Path(here.environment(component)[f"OUTRIDER_{setting}"])
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)


async def _passes(here: Machine, component: str, probes: tuple[str, ...] = PROBES) -> None:
    for probe in probes:
        await until(partial(here.probe, component, probe), f"{component} passes its {probe}", READY_S)


async def _end(services: list[Service]) -> None:
    for service in services:
        await service.terminate()
    for service in services:
        code, said = await service.ended()
        assert code == 0, said


@pytest.mark.parametrize("overlay", ON_CPU)
async def test_every_container_starts_as_it_is_told_to_and_passes_its_probes(
    overlay: str, tmp_path: Path, llama: Path, good_draft: Path
) -> None:
    async with machine(built(overlay), tmp_path) as here:
        _link_models(here, llama, good_draft)
        authority = Authority.new()
        for component in ("orchestrator", "target", "draft"):
            here.files(component, authority)
        await here.start_redis()
        await _passes(here, "redis", ("readinessProbe", "livenessProbe"))
        orchestrator = await here.start("orchestrator")
        replicas = [await here.start("target"), await here.start("draft")]
        await asyncio.gather(*(_passes(here, component) for component in ("target", "draft", "orchestrator")))
        if overlay == CERTIFICATES:
            await _wants_a_key(orchestrator, authority, tmp_path)
        else:
            await _answers(orchestrator)
        await _end([orchestrator, *replicas])


async def test_an_orchestrator_without_a_target_is_not_ready_and_that_is_no_reason_to_kill_it(
    tmp_path: Path, llama: Path, good_draft: Path
) -> None:
    async with machine(built("local"), tmp_path) as here:
        _link_models(here, llama, good_draft)
        service = await here.start("orchestrator")
        await until(partial(_said, service, "listens on"), "it listens", READY_S)
        assert not await here.probe("orchestrator", "readinessProbe")
        for probe in ("startupProbe", "livenessProbe"):
            await until(partial(here.probe, "orchestrator", probe), f"it passes its {probe}", 5.0)


async def _said(service: Service, words: str) -> bool:
    return words in service.said


async def _answers(orchestrator: Service) -> None:
    async with Client(orchestrator.address, timeout_s=30) as client:
        answer = await client.answer(Ask(prompt="the quick brown fox", max_new_tokens=8))
    assert answer.finished.usage.completion_tokens == 8


async def _wants_a_key(orchestrator: Service, authority: Authority, folder: Path) -> None:
    """A client with the certificate that the overlay makes for it, calling the Service by its name, has no key yet."""
    (names,) = (
        each["spec"]["dnsNames"]
        for each in of_kind(built(CERTIFICATES), "Certificate")
        if each["metadata"]["name"] == "outrider-client"
    )
    paths = authority.write(folder / "client", *names)
    async with Client(
        orchestrator.address, timeout_s=30, tls=paths, tls_name="outrider-orchestrator.outrider.svc"
    ) as client:
        with pytest.raises(Unauthenticated):
            await client.answer(Ask(prompt="the quick brown fox", max_new_tokens=8))


def test_one_of_them_has_certificates() -> None:
    assert CERTIFICATES in ON_CPU
    assert environment(built(CERTIFICATES), pod_of(built(CERTIFICATES), "target").main)["OUTRIDER_TLS_CERT"]


async def _run(words: list[str], variables: dict[str, str]) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *words,
        env=clean(variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), READY_S)
    return process.returncode, said.decode()


async def test_the_default_pair_is_made_where_the_services_look(
    default_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    pod = pod_of(built("local"), "target")
    (container,) = pod.spec["initContainers"]
    module, folder = command(built("local"), container)
    models = tmp_path / "models"
    models.mkdir()
    for made in default_pair:
        (models / made.name).symlink_to(made)
    code, said = await _run([module, str(models)], environment(built("local"), container))
    assert code == 0, said
    wanted = {
        environment(built("local"), pod_of(built("local"), name).main)["OUTRIDER_MODEL"] for name in ("target", "draft")
    }
    assert wanted == {f"{folder}/{made.name}" for made in default_pair}


async def test_downloads_are_asked_for_as_the_hub_s_command_wants(tmp_path: Path) -> None:
    """Without a way out it ends with the hub's error, and not with one of a wrong option."""
    job = pod_of(built("gpu"), "models")
    for container in job.containers:
        words = [word.replace("/var/lib", str(tmp_path)) for word in command(built("gpu"), container)]
        variables = environment(built("gpu"), container) | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
        code, said = await _run(words, variables)
        assert code == 1, said
        assert "offline" in said.lower()
