"""The pods of an overlay, and how many there are of each: what Deployments, Services and the kubelet do, in small.

It does not know requests.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from tests.certificates import Authority
from tests.deploy.manifests import Object, of_kind, pod_of, pods
from tests.deploy.manifests_files import write_secrets
from tests.deploy.network_policies import Place
from tests.e2e.filters import Spot
from tests.e2e.network import Network
from tests.e2e.pods import MOUNTS, RunningPod, start
from tests.waiting import until

NAMESPACE = "outrider"
_READY_S = 300.0
_FIRST = ("redis", "collector")
"""Others ask for them by name."""


@dataclass(slots=True)
class Cluster:
    """Owner of all pods, of the network between them, and of the authority that signs their certificates."""

    objects: Sequence[Object]
    models: Path
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="outrider-e2e-")))
    authority: Authority = field(default_factory=Authority.new)
    running: dict[str, list[RunningPod]] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    network: Network = field(init=False)
    _numbers: "count[int]" = field(default_factory=count)
    _made: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.network = Network(of_kind(self.objects, "NetworkPolicy"))

    def open(self) -> None:
        """An empty cluster. Where pods mount there must be something to mount upon."""
        self.network.open()
        for mount in map(Path, MOUNTS):
            if not mount.exists():
                mount.mkdir(parents=True)
                self._made.append(mount)

    async def start(self) -> None:
        """As many of each as the Deployments say."""
        wanted = {pod.component: int(pod.owner["spec"]["replicas"]) for pod in pods(self.objects)}
        for component in _FIRST:
            await self.scale(component, wanted.pop(component))
            self.network.call(f"outrider-{component}", self.running[component][0].spot.ip)
        for component, replicas in wanted.items():
            await self.scale(component, replicas, wait=False)
        await asyncio.gather(*(self.ready(component) for component in wanted))

    def visitor(self, name: str, namespace: str, **labels: str) -> Spot:
        """A place in another namespace, which has these labels."""
        marks = {label.replace("_", "-"): value for label, value in labels.items()}
        return self.network.add(name, Place({}, namespace, marks))

    async def scale(self, component: str, replicas: int, wait: bool = True) -> None:
        """Start or end pods of a Deployment; those that are ended are the youngest."""
        there = self.running.setdefault(component, [])
        while len(there) < replicas:
            there.append(await self._start(component))
        if wait:
            await self.ready(component)
        leaving = there[replicas:]
        del there[replicas:]
        self.codes += await asyncio.gather(*(pod.end() for pod in leaving))
        for pod in leaving:
            self.network.remove(pod.spot.name)

    async def _start(self, component: str) -> RunningPod:
        pod = pod_of(self.objects, component)
        name = f"{component}-{next(self._numbers)}"
        ports = pod.port
        spot = self.network.add(
            name, Place(pod.labels, NAMESPACE), tuple(ports.values()), [ports["health"]] if "health" in ports else []
        )
        return await start(self.objects, pod, spot, self.folder / name, self.models, self.authority)

    async def ready(self, component: str) -> None:
        """Return when every pod of it passes its readiness probe. Raises AssertionError for one that ends."""
        for pod in self.running[component]:

            async def passes(pod: RunningPod) -> bool:
                assert pod.process.returncode is None, f"{pod.spot.name} has ended:\n{pod.said[-2000:]}"
                return await pod.probe("readinessProbe")

            await until(partial(passes, pod), f"{pod.spot.name} is ready", _READY_S)

    def renew_certificates(self) -> None:
        """A new certificate and key for every pod, in the files that it reads."""
        for pod in [pod for there in self.running.values() for pod in there]:
            write_secrets(self.objects, pod.pod, pod.root, self.authority)

    async def close(self) -> None:
        """End everything as Kubernetes would, and take away what was made."""
        for component in ("orchestrator", "draft", "target", "collector", "redis"):
            if component in self.running:
                await self.scale(component, 0, wait=False)
        self.network.close()
        for mount in self._made:
            mount.rmdir()
