"""What the replay of the recordings comes to, as the table of docs/kubernetes/autoscaling.md:

    python -m tests.deploy.autoscaling_results

It reads thresholds, bounds and behaviour from the built manifests, and the rules from deploy/observability.
"""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.deploy.autoscaling import Scaling
from tests.deploy.autoscaling_manifests import of_scaled_object
from tests.deploy.autoscaling_prometheus import prometheus
from tests.deploy.autoscaling_recorded import recordings
from tests.deploy.autoscaling_replay import Moment, Replay, Signals, Sizes
from tests.deploy.manifests import ROOT, made_of, named

RULES_FILE = ROOT / "deploy" / "observability" / "prometheus" / "autoscaling.yaml"
CASES = ("target", "draft", "cache")
WORDS = {
    "target": "passes of the targets take too long",
    "draft": "passes of the drafts take too long",
    "cache": "the targets' KV cache is short",
}
SCRIPT = (("idle", 300), ("light", 600), ("overload", 1200), ("quiet", 1200))
BEGINS_S = 900
"""When the overload begins."""
QUIET_S = 2100
"""When it ends."""


def rules() -> dict[str, str]:
    """Expressions of the recording rules by name."""
    groups = yaml.safe_load(RULES_FILE.read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


def signals(folder: Path) -> dict[str, dict[Sizes, Signals]]:
    """What the rules make of all recordings, by case and sizes; Prometheus works in the folder."""
    found = {case: recordings(case) for case in CASES}
    every = [recording for case in found.values() for recording in case.values()]
    longest = max(recording.length_s for recording in every)
    with prometheus(folder, every) as server:
        values = {rule: server.values(expression, longest) for rule, expression in rules().items()}
    return {
        case: {
            sizes: Signals(recording, {rule: by_name[recording.name] for rule, by_name in values.items()})
            for sizes, recording in of_case.items()
        }
        for case, of_case in found.items()
    }


def scalings(folder: Path) -> tuple[Scaling, Scaling]:
    """Of targets and drafts, from the component ``keda`` with the base, built in an empty folder."""
    objects = made_of(folder, ["keda"])
    target, draft = (
        of_scaled_object(named(objects, "ScaledObject", f"outrider-{pool}")) for pool in ("target", "draft")
    )
    return target, draft


@dataclass(frozen=True, slots=True)
class Result:
    """Of one case: sizes before the overload and at most under it, and the seconds until they change."""

    light: Sizes
    most: Sizes
    grows_after_s: int
    settled_after_s: int
    shrinks_after_s: int
    least_after_s: int

    def row(self, case: str) -> str:
        """A line of the table."""
        pods = (f"{before} → {after}" for before, after in zip(self.light, self.most, strict=True))
        times = (self.grows_after_s, self.settled_after_s, self.shrinks_after_s, self.least_after_s)
        return " | ".join(["| " + WORDS[case], *pods, *(f"{each} s" for each in times)]) + " |"


def changes(moments: Sequence[Moment], since: int) -> list[int]:
    """The moments after ``since`` that find sizes other than the one before."""
    pairs = itertools.pairwise(moments)
    return [after.now for before, after in pairs if after.sizes != before.sizes and after.now > since]


def gone(moments: Sequence[Moment], since: int) -> list[int]:
    """The moments after ``since`` that find a pod less than the one before."""
    pairs = itertools.pairwise(moments)
    return [after.now for before, after in pairs if sum(after.sizes) < sum(before.sizes) and after.now > since]


def result(moments: Sequence[Moment]) -> Result:
    """Of a replay of SCRIPT."""
    at = {moment.now: moment.sizes for moment in moments}
    under = [now for now in changes(moments, BEGINS_S) if now <= QUIET_S]
    after = gone(moments, QUIET_S)
    sizes = [moment.sizes for moment in moments if moment.now <= QUIET_S]
    most = (max(size[0] for size in sizes), max(size[1] for size in sizes))
    return Result(
        at[BEGINS_S], most, under[0] - BEGINS_S, under[-1] - BEGINS_S, after[0] - QUIET_S, after[-1] - QUIET_S
    )


HEAD = (
    "| overload: | targets | drafts | first new pod | last new pod | first pod gone | back at the least |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def table(found: Mapping[str, Mapping[Sizes, Signals]], target: Scaling, draft: Scaling) -> list[str]:
    """The lines of the table."""
    rows = (result(Replay(found[case], target, draft).run(SCRIPT)).row(case) for case in CASES)
    return [*HEAD, *rows]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as built:
        print("\n".join(table(signals(Path(there)), *scalings(Path(built)))))
