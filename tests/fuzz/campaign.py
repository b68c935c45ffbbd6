"""Calls to every method of every service with such messages.

Each call ends with a status, and nothing in the servers fails in a way that nobody foresaw. The servers live in this
process, on a loop of another thread; what they log as an error is a finding.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import HealthCheck, Phase, given, seed, settings

from outrider.v1 import draft_pb2, orchestrator_pb2, target_pb2
from tests.fuzz.dialogues import calls
from tests.fuzz.messages import class_of

_CALL_S = 2.0
"""Deadline of a call; a message may well ask for more than can be done in it."""
_ENOUGH = 24
"""Answers that are read of one call."""
_MOST = 4
"""Messages of one call."""
SERVICES = {
    "orchestrator": orchestrator_pb2.DESCRIPTOR.services_by_name["OrchestratorService"],
    "target": target_pb2.DESCRIPTOR.services_by_name["TargetService"],
    "draft": draft_pb2.DESCRIPTOR.services_by_name["DraftService"],
}


class _Errors(logging.Handler):
    """What was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@dataclass(slots=True)
class Report:
    """Messages and calls, calls by method and status, and what was found."""

    messages: int = 0
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class Campaign:
    """Sends to servers by role. ``report`` grows as it goes."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._channels = {role: grpc.insecure_channel(address) for role, address in addresses.items()}
        self.report = Report()

    def run(self, most_messages: int, first_seed: int) -> Report:
        """Until so many messages were sent."""
        errors = _Errors()
        logging.getLogger().addHandler(errors)
        try:
            number = first_seed
            while self.report.messages < most_messages and not self.report.findings:
                for role, service in SERVICES.items():
                    for method in service.methods:
                        self._try(role, method, number)
                        number += 1
                self.report.findings += errors.lines
        finally:
            logging.getLogger().removeHandler(errors)
            for channel in self._channels.values():
                channel.close()
        return self.report

    def _try(self, role: str, method: MethodDescriptor, number: int) -> None:
        """A hundred calls of one method."""
        most = _MOST if method.client_streaming else 1

        @seed(number)
        @settings(
            max_examples=100,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(calls(method.name, class_of(method.input_type), most))
        def attempt(sent: Sequence[bytes]) -> None:
            self._call(role, method, sent)

        attempt()

    def _call(self, role: str, method: MethodDescriptor, sent: Sequence[bytes]) -> None:
        name = f"/{method.containing_service.full_name}/{method.name}"
        self.report.messages += len(sent)
        try:
            for _, _ in zip(self._answers(self._channels[role], name, method, sent), range(_ENOUGH)):
                pass
            status = "OK"
        except grpc.RpcError as error:
            status = error.code().name
        self.report.statuses[f"{role} {method.name}", status] += 1

    @staticmethod
    def _answers(channel: Any, name: str, method: MethodDescriptor, sent: Sequence[bytes]) -> Iterator[bytes]:
        if method.client_streaming:
            call = channel.stream_stream(name)(iter(sent), timeout=_CALL_S)
        elif method.server_streaming:
            call = channel.unary_stream(name)(sent[0], timeout=_CALL_S)
        else:
            yield channel.unary_unary(name)(sent[0], timeout=_CALL_S)
            return
        try:
            yield from call
        finally:
            call.cancel()
