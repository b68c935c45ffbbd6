"""``make audit``: whether versions of constraints.txt have known vulnerabilities.

pip-audit asks the vulnerability service; where that does not know a package, or is a mirror that knows no
vulnerabilities at all, pip-audit still ends well. This says plainly what was audited and what was not.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CONSTRAINTS = "constraints.txt"
NOT_REACHED = "the vulnerability service cannot be reached from this machine: nothing was audited"


@dataclass(frozen=True, slots=True)
class Findings:
    """Packages of the constraints: how many were audited, which could not be, and what is known of the others."""

    audited: int
    left_out: tuple[str, ...]
    vulnerable: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when all were audited and nothing is known, 1 when something is, 2 when some were not audited."""
        return 1 if self.vulnerable else 2 if self.left_out or not self.audited else 0

    def lines(self) -> list[str]:
        """For people."""
        if not self.audited:
            return [NOT_REACHED]
        found = list(self.vulnerable)
        if self.left_out:
            found.append(f"not audited, the service does not know them: {', '.join(self.left_out)}")
        return [*found, f"{self.audited} packages audited, {len(self.vulnerable)} known vulnerabilities"]


def _line(package: dict[str, Any], known: dict[str, Any]) -> str:
    fixed = ", ".join(known["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {known['id']}, fixed in {fixed}"


def findings(report: str) -> Findings:
    """What pip-audit's JSON says. Raises ValueError where it is none."""
    packages = json.loads(report)["dependencies"]
    audited = [package for package in packages if "vulns" in package]
    left_out = tuple(package["name"] for package in packages if "vulns" not in package)
    return Findings(len(audited), left_out, tuple(_line(each, known) for each in audited for known in each["vulns"]))


def main(pip_audit: str, arguments: Sequence[str]) -> int:
    """Run it over the constraints. Returns the exit code; 2 as well when it could not ask."""
    options = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json", "-r", CONSTRAINTS)
    done = subprocess.run([pip_audit, *options, *arguments], capture_output=True, text=True, check=False)
    try:
        found = findings(done.stdout)
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"audit: {NOT_REACHED}\npip-audit ended with {done.returncode}: {reason}", file=sys.stderr)
        return 2
    print("\n".join(f"audit: {line}" for line in found.lines()), file=sys.stderr if found.exit_code else sys.stdout)
    return found.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
