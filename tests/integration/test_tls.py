"""Mutual TLS between real processes: who gets in, who does not, and certificates that change while answers run."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from outrider.channel import CLIENT_OPTIONS
from outrider.client import Ask, Client, Delta, TlsPaths
from outrider.credentials import Dialer, server_credentials
from outrider.errors import OutriderError, Unauthenticated, Unavailable
from outrider.sampling import SamplingParams
from outrider.server import Server
from outrider.tls import TlsFiles
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import target_pb2, target_pb2_grpc
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from tests.certificates import Authority, slow_clock, variables
from tests.integration.processes import Service, free_address, health, running
from tests.stack import make_request
from tests.waiting import until

SYNTHETIC = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_SYNTHETIC_PASS_MS": "5", "OUTRIDER_KV_BYTES": "8MiB"}
ROLES = ("orchestrator", "target", "draft")


@dataclass(slots=True)
class Secured:
    """One process of each kind, each with a certificate of its own, and its health in the clear."""

    folder: Path
    authority: Authority = field(default_factory=Authority.new)
    services: dict[str, Service] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)

    def certify(self, authority: Authority, trusted: bytes = b"") -> None:
        """A new certificate for each process, in the place of the one that it has."""
        for role in ROLES:
            authority.write(self.folder / role, f"outrider-{role}", trusted=trusted)

    async def start(self, stack: contextlib.AsyncExitStack, role: str, given: dict[str, str]) -> None:
        """A process, which may not serve yet."""
        self.checks[role] = free_address()
        paths = self.authority.write(self.folder / role, f"outrider-{role}")
        safe = variables(paths) | {"OUTRIDER_HEALTH": self.checks[role]}
        module = role if role == "orchestrator" else f"{role}_service"
        self.services[role] = await stack.enter_async_context(running(module, safe | given))

    async def healthy(self, role: str) -> bool:
        """As Kubernetes asks."""
        async with grpc.aio.insecure_channel(self.checks[role]) as channel:
            assert await health(channel) in ("SERVING", "UNAVAILABLE"), "a process that only waits for others lives"
            return await health(channel, service=f"outrider.v1.{role.title()}Service") == "SERVING"

    def client(self, tls: TlsPaths | None, **options: Any) -> Client:
        """Of its orchestrator."""
        options.setdefault("tls_name", "outrider-orchestrator")
        return Client(self.services["orchestrator"].address, tls=tls, patience_s=0.0, **options)

    def dial(self, role: str, tls: TlsPaths) -> grpc.aio.Channel:
        """A channel to one of its processes."""
        return Dialer(TlsFiles(tls), f"outrider-{role}").open(self.services[role].address, CLIENT_OPTIONS)


@contextlib.asynccontextmanager
async def secured(folder: Path, model: str, **orchestrator: str) -> AsyncIterator[Secured]:
    """All of them, once they serve."""
    made = Secured(folder)
    async with contextlib.AsyncExitStack() as stack:
        for role in ("target", "draft"):
            given = {"OUTRIDER_MODEL": model, "OUTRIDER_TLS_PEERS": "outrider-orchestrator", **SYNTHETIC}
            await made.start(stack, role, given)
        given = {
            "OUTRIDER_TOKENIZER": model,
            "OUTRIDER_TARGET": made.services["target"].address,
            "OUTRIDER_DRAFT": made.services["draft"].address,
            "OUTRIDER_TLS_TARGET_NAME": "outrider-target",
            "OUTRIDER_TLS_DRAFT_NAME": "outrider-draft",
        }
        await made.start(stack, "orchestrator", given | orchestrator)
        for role in ROLES:
            await until(lambda role=role: made.healthy(role), f"the {role} serves", 90.0)  # type: ignore[misc]
        yield made


ASK = Ask(token_ids=(1, 2, 3), max_new_tokens=60, sampling=SamplingParams(0.8), seed=1, ignore_eos=True, draft_tokens=4)


async def drafts_are_in_use(client: Client) -> None:
    """Return when the orchestrator has found its draft."""

    async def found() -> bool:
        return [draft.state for draft in (await client.info()).drafts] == [pb.REPLICA_STATE_READY]

    await until(found, "the draft is in use")


async def refused(client: Client) -> OutriderError:
    """The error that an ask ends with."""
    async with client:
        with pytest.raises(OutriderError) as caught:
            await client.answer(ASK)
    return caught.value


async def test_only_those_with_the_right_certificates_get_in(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.client.client.TlsFiles", partial(TlsFiles, clock=slow_clock))
    async with secured(tmp_path, str(llama)) as made:
        mine = made.authority.write(tmp_path / "client", "somebody")
        async with made.client(mine) as client:
            await drafts_are_in_use(client)
            answer = await client.answer(ASK)
            assert len(answer.token_ids) == 60
            assert answer.finished.speculation.proposed > 0, "the draft is reached too"

        strange = Authority.new().write(tmp_path / "strange", "somebody")
        half = TlsPaths(mine.ca, *(getattr(strange, name) for name in ("cert", "key")))
        old = made.authority.write(tmp_path / "old", "somebody", expired=True)
        hangs_up, not_it = "hangs up", "shows a certificate that"
        cases = ((None, hangs_up), (half, hangs_up), (old, hangs_up), (TlsPaths(mine.ca), hangs_up), (strange, not_it))
        for wrong, words in cases:
            error = await refused(made.client(wrong))
            assert isinstance(error, Unavailable)
            assert words in error.message, wrong
        error = await refused(made.client(mine, tls_name="outrider-target"))
        assert not_it in error.message, "another's name"

        async with made.dial("target", mine) as channel:
            stub: Any = target_pb2_grpc.TargetServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetReplicaInfo(target_pb2.TargetServiceGetReplicaInfoRequest(), timeout=10)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "the certificate is of somebody" in str(caught.value.details())
            others = (
                HealthStub(channel).Watch(HealthCheckRequest()),
                HealthStub(channel).Check(HealthCheckRequest()),
                ServerReflectionStub(channel).ServerReflectionInfo(),
            )
            assert [await call.code() for call in others] == [grpc.StatusCode.PERMISSION_DENIED] * 3


async def test_certificates_change_in_the_middle_of_answers(llama: Any, tmp_path: Path) -> None:
    """Every process gets a certificate of a new authority; both are trusted for a while, as in a rotation. No process
    is restarted, and no answer breaks."""
    async with secured(tmp_path, str(llama)) as made:
        client_paths = made.authority.write(tmp_path / "client", "somebody")
        async with made.client(client_paths) as client:
            await drafts_are_in_use(client)
            before = (await client.answer(ASK)).token_ids
            fresh = Authority.new()
            both = made.authority.pem + fresh.pem
            events = client.stream(ASK)
            begun = [await anext(events)]
            made.certify(made.authority, trusted=both)
            made.authority.write(tmp_path / "client", "somebody", trusted=both)
            made.certify(fresh, trusted=both)
            heard = begun + [event async for event in events]
            assert tuple(token for event in heard if isinstance(event, Delta) for token in event.token_ids) == before

            async def shown() -> bool:
                return all(shows(fresh, made.services[role].address) for role in ROLES)

            await until(shown, "every process shows its new certificate")
            fresh.write(tmp_path / "client", "somebody")
            made.certify(fresh)
            again = await client.answer(ASK)
            assert again.token_ids == before
            assert again.finished.speculation.proposed > 0


def shows(authority: Authority, address: str) -> bool:
    """Whether a server shows a certificate of this authority now."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLCertVerificationError:
        return False


async def test_callers_need_no_certificate_where_keys_say_who_they_are(llama: Any, tmp_path: Path) -> None:
    tenants = tmp_path / "tenants.toml"
    tenants.write_text('[tenants.a]\nkeys = ["key-a"]\n[tenants.b]\nkeys = ["key-b"]\n')
    given = {"OUTRIDER_TLS_CLIENTS": "any", "OUTRIDER_TENANTS": str(tenants)}
    async with secured(tmp_path, str(llama), **given) as made:
        trusting = TlsPaths(made.authority.write(tmp_path / "client", "somebody").ca)
        assert isinstance(await refused(made.client(trusting)), Unauthenticated)
        async with made.client(trusting, api_key="key-a") as client:
            kept = await client.answer(Ask(token_ids=(1, 2, 3), max_new_tokens=5, keep_session=True))
        async with made.dial("orchestrator", trusting) as channel:
            stub: Any = OrchestratorServiceStub(channel)
            for session_id in (kept.session_id, "never-there"):
                request = make_request([4], 4, max_new_tokens=5, session_id=session_id)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await anext(aiter(stub.Generate(request, metadata=(("authorization", "Bearer key-b"),))))
                assert caught.value.code() is grpc.StatusCode.NOT_FOUND
                assert session_id not in str(caught.value.details())
            info = await stub.GetInfo(pb.GetInfoRequest(), metadata=(("authorization", "Bearer key-a"),))
            assert info.targets[0].state == pb.REPLICA_STATE_READY


async def test_a_server_whose_certificate_has_ended_is_named_as_that(tmp_path: Path) -> None:
    """It was valid when the server read it."""
    authority = Authority.new()
    ended = TlsFiles(authority.write(tmp_path, "localhost", expired=True), clock=slow_clock)
    server = Server("127.0.0.1:0", [], drain_s=0.0, credentials=server_credentials(ended, need_certificate=True))
    await server.start()
    mine = authority.write(tmp_path / "client", "somebody")
    error = await refused(Client(f"127.0.0.1:{server.port}", tls=mine, tls_name="localhost", patience_s=0.5))
    assert isinstance(error, Unavailable)
    assert "shows a certificate that has expired" in error.message
    await server.drain()


def is_resumed(port: int, mine: TlsPaths) -> bool:
    """Whether a second connection can go on where the first one stopped, without a certificate."""
    context = ssl.create_default_context(cafile=mine.ca)
    context.load_cert_chain(mine.cert, mine.key)
    context.set_alpn_protocols(["h2"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # its tickets come with the greeting
    session = None
    for _ in range(2):
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        with plain, context.wrap_socket(plain, server_hostname="localhost", session=session) as made:
            session, reused = made.session, bool(made.session_reused)
    return reused


async def test_a_ticket_lets_nobody_in(tmp_path: Path) -> None:
    """It would outlive the certificate that it was given for."""
    authority = Authority.new()
    files = TlsFiles(authority.write(tmp_path, "localhost"))
    server = Server("127.0.0.1:0", [], drain_s=0.0, credentials=server_credentials(files, need_certificate=True))
    await server.start()
    assert not await asyncio.to_thread(is_resumed, server.port, authority.write(tmp_path / "client", "somebody"))
    await server.drain()
