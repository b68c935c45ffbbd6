"""Reads a Dockerfile and a .dockerignore as far as the tests need it: stages, instructions, what is left out."""

import fnmatch
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


@dataclass(slots=True)
class Stage:
    """One FROM: its name, what it starts from, and its instructions, keyword and rest, in order."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == keyword]


def read(text: str) -> dict[str, Stage]:
    """Stages by name; what stands before the first is in the one without a name."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages = {"": Stage("", "")}
    current = stages[""]
    for line in filter(None, re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()):
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "FROM":
            base, _, name = rest.partition(" AS ")
            current = stages[name] = Stage(name, base)
        else:
            current.instructions.append((keyword, rest.strip()))
    return stages


STAGES = read(DOCKERFILE.read_text())


def line_of(name: str) -> list[Stage]:
    """A stage and those that it starts from, the first one first."""
    stage = STAGES[name]
    return [*(line_of(stage.base) if stage.base in STAGES else []), stage]


def environment(name: str) -> dict[str, str]:
    """The variables of a stage, those of the stages before it included."""
    found: dict[str, str] = {}
    for stage in line_of(name):
        for rest in stage.all("ENV"):
            found |= dict(word.split("=", 1) for word in rest.split())
    return found


def last(name: str, keyword: str) -> str:
    """What the last such instruction says, in a stage or those before it."""
    return [rest for stage in line_of(name) for rest in stage.all(keyword)][-1]


def words(rest: str) -> list[str]:
    """The words of an instruction in its exec form."""
    found: list[str] = json.loads(rest[rest.index("[") :])
    return found


def copied(name: str) -> list[str]:
    """Paths of the project that a stage takes, those of the stages before it included."""
    own = [rest for stage in line_of(name) for rest in stage.all("COPY") if "--from=" not in rest]
    return [source for rest in own for source in rest.split()[:-1]]


def is_left_out(path: str) -> bool:
    """Whether .dockerignore keeps a path of the project out of the build; the last line that fits decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = path.split("/")
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        if any(_fits(each, pattern) for each in above):
            out = not line.startswith("!")
    return out


def _fits(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(path.split("/")[-1], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)
