"""A model process from configuration to a running engine: what draft and target have in common.

It loads, checks and describes the model and starts the engine's thread. It does not know which of the two
it is, nor protobuf.
"""

import asyncio
import dataclasses
import logging
import platform
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from outrider import metric_settings, semconv, telemetry
from outrider.errors import IncompatibleReplica
from outrider.inference.accelerator.start import kernels_for
from outrider.inference.admission import AdmissionLimits
from outrider.inference.batcher import Batcher
from outrider.inference.engine import Engine, EngineOptions
from outrider.inference.head import head_ids
from outrider.inference.invariance import calibrate
from outrider.inference.locate import model_folder
from outrider.inference.meters import ReplicaMeters
from outrider.inference.model import DTYPES, ModelOptions, ModelRunner
from outrider.inference.passes import PassRecord
from outrider.inference.program import Runner
from outrider.inference.schedule import RowBudget
from outrider.inference.synthetic import load_synthetic
from outrider.inference.threads import available_threads
from outrider.inference.weights import weights_fingerprint
from outrider.replica_config import ReplicaConfig
from outrider.tasks import end
from outrider.tokenizer import Tokenizer
from outrider.wire import Numerics, ReplicaFacts

log = logging.getLogger(__name__)
_UPGRADE_POLL_S = 0.5


@dataclass(slots=True)
class Replica:
    """A loaded model with its engine. ``facts`` changes once at most: when passes go over to machine code that was
    built meanwhile."""

    facts: ReplicaFacts
    engine: Engine
    batcher: Batcher
    meters: ReplicaMeters = field(default_factory=ReplicaMeters)
    upgrading: asyncio.Task[None] | None = None

    def current_facts(self) -> ReplicaFacts:
        """The facts with the load of this moment."""
        return dataclasses.replace(self.facts, load=self.engine.load())

    async def close(self) -> None:
        """Stop what goes on in the background, then the engine."""
        await end(self.upgrading)
        self.batcher.close()


def _hardware(device: torch.device, threads: int) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {threads} threads"


def describe(runner: ModelRunner, tokenizer: Tokenizer, row_invariant: bool, config: ReplicaConfig) -> ReplicaFacts:
    """The handshake of a loaded model."""
    return ReplicaFacts(
        incarnation=secrets.randbits(64),
        model_id=config.model,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=min(tokenizer.vocab_size, runner.logit_width),
        eos_token_ids=runner.eos_token_ids,
        max_positions=runner.max_positions,
        row_invariant=row_invariant,
        kv_capacity_tokens=runner.num_blocks * runner.block_size,
        max_draft_tokens=config.max_draft_tokens,
        numerics=Numerics(
            hardware=_hardware(runner.device, runner.options.threads),
            build=f"torch {torch.__version__}",
            dtype=runner.options.dtype,
            path=runner.path,
        ),
        weights=weights_fingerprint(model_folder(config.model)),
    )


def _pass_observer(span_name: str, meters: ReplicaMeters) -> Callable[[PassRecord], None]:
    """Counts each forward pass, and records it as a span linked to the rounds it served."""

    def observe(record: PassRecord) -> None:
        meters.passed(record)
        if record.traces:
            attributes = {semconv.BATCH_ROWS: record.rows, semconv.BATCH_ROUNDS: len(record.traces)}
            telemetry.forward_pass(span_name, record.start_ns, record.end_ns, attributes, record.traces)

    return observe


def _load(config: ReplicaConfig) -> tuple[Runner, ReplicaFacts]:
    """What runs the passes, and its handshake."""
    return load_synthetic(config) if config.engine == "synthetic" else _load_model(config)


def _load_model(config: ReplicaConfig) -> tuple[ModelRunner, ReplicaFacts]:
    """Load the model and calibrate its passes."""
    threads = config.threads or available_threads()
    torch.set_num_threads(threads)
    folder = model_folder(config.model)
    options = ModelOptions(
        folder, config.dtype, config.device, config.kv_bytes, config.trust_remote_code, config.compile, threads,
        head_ids(config, folder), kernels_for(config.row_invariant, DTYPES[config.dtype], torch.device(config.device)),
    )  # fmt: skip
    runner = ModelRunner(options)
    facts = describe(runner, Tokenizer.load(folder), calibrate(runner), config)
    if config.row_invariant == "on" and not facts.row_invariant:
        raise IncompatibleReplica(f"OUTRIDER_ROW_INVARIANT=on: the start-up check found other bits on {runner.path}")
    if not facts.row_invariant:
        log.warning("passes of different sizes give different bits on this path; equal text is not guaranteed")
    return runner, facts


def engine_options(config: ReplicaConfig) -> EngineOptions:
    """What the configuration says of the engine."""
    limits = AdmissionLimits(config.max_waiting, config.queue_s)
    return EngineOptions(config.session_ttl_s, RowBudget(config.max_rows), limits, config.chunk_rows)


async def load_replica(config: ReplicaConfig, span_name: str) -> Replica:
    """Load the model on the engine's thread and start serving rounds. Takes seconds, without blocking the loop."""
    started = time.monotonic()
    described: list[ReplicaFacts] = []
    runners: list[Runner] = []

    def build() -> Engine:
        runner, facts = _load(config)
        described.append(facts)
        runners.append(runner)
        return Engine(runner, engine_options(config), _pass_observer(span_name, meters))

    meters = ReplicaMeters()
    batcher = Batcher()
    engine = await batcher.start(build)
    replica = Replica(described[0], engine, batcher, meters)
    runner = runners[0]
    if isinstance(runner, ModelRunner) and runner.upgradable:
        replica.upgrading = asyncio.create_task(_upgrade(replica, runner))
    metric_settings.export(meters.instruments(engine))
    _log_loaded(replica.facts, time.monotonic() - started)
    return replica


async def _build_beside() -> bool:
    """Build the machine code in a process of its own, which ends with the task. False when it failed."""
    builder = await asyncio.create_subprocess_exec(sys.executable, "-m", "outrider.inference.compiled.build")
    try:
        return await builder.wait() == 0
    finally:
        if builder.returncode is None:
            builder.kill()


async def _upgrade(replica: Replica, runner: ModelRunner) -> None:
    """Build the machine code beside the serving process, then go over to it between two answers.

    No answer crosses: its bits would change on the way. Caches of idle sessions are void and rebuilt on demand.
    """
    log.info("building the compiled pass in the background; %s until then", runner.path)
    if not await _build_beside():
        log.warning("the compiled pass could not be built; %s stays", runner.path)
        return

    def go_over() -> bool:
        if not replica.engine.start_over():
            return False
        if runner.upgrade():
            invariant = calibrate(runner)
            numerics = dataclasses.replace(replica.facts.numerics, path=runner.path)
            replica.facts = dataclasses.replace(replica.facts, row_invariant=invariant, numerics=numerics)
        return True

    while not await replica.batcher.call(go_over):  # noqa: ASYNC110 - a quiet moment sends no event
        await asyncio.sleep(_UPGRADE_POLL_S)
    log.info("passes take the %s from now on; row invariant: %s", runner.path, replica.facts.row_invariant)


def _log_loaded(facts: ReplicaFacts, seconds: float) -> None:
    log.info(
        "loaded %s in %.1f s: %s, %s, %s; row invariant: %s; KV cache of %d tokens",
        facts.model_id,
        seconds,
        facts.numerics.dtype,
        facts.numerics.hardware,
        facts.numerics.path,
        facts.row_invariant,
        facts.kv_capacity_tokens,
    )
