"""What is exported to the receiver is in its file, and read from there; what it cannot use it refuses by name."""

import asyncio
from pathlib import Path

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from outrider import otlp_json
from tests.integration.processes import free_address, serves, spawn
from tests.unit.recorded import Kept


async def test_spans_are_written_down_as_they_come(tmp_path: Path) -> None:
    address, file = free_address(), tmp_path / "logs/traces.jsonl"
    told = ("--listen", address, "--file", str(file))
    service = await spawn("outrider.receiver", {"OUTRIDER_LISTEN": address}, arguments=told)
    await serves(service)
    kept = Kept()
    kept.begin("generate").end()
    exporter = OTLPSpanExporter(f"http://{address}", insecure=True, timeout=5)
    for _ in range(2):
        assert await asyncio.to_thread(exporter.export, kept.spans) is SpanExportResult.SUCCESS
    await service.terminate()
    assert (await service.ended())[0] == 0
    assert [span.name for span in otlp_json.read(file.read_text())] == ["generate"] * 2


async def test_an_address_that_is_taken_ends_it_with_words(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        taken = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        service = await spawn("outrider.receiver", {}, arguments=("--listen", taken, "--file", str(tmp_path / "file")))
        code, log = await service.ended()
    assert code == 2
    assert taken in log
