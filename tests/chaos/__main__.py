"""``python -m tests.chaos --requests 1000 --faults 200 --seed 1``. Ends with a RESULT line; the exit code is 1 when
something was wrong, lost, doubled, hung or leaked."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from outrider.cli.console import print_result, stderr, stdout
from tests.chaos.campaign import campaign
from tests.chaos.report import details, passed, result, tables


def _say(line: str) -> None:
    stderr.print(line, markup=False, soft_wrap=True)


def main() -> int:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of requests and faults")
    parser.add_argument("--logs", help="folder for the logs of the services; kept")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.logs or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        findings = uvloop.run(campaign(options.seed, options.requests, options.faults, folder, _say))
    for line in details(findings, options.seed):
        stdout.print(line, markup=False)
    stdout.print(tables(findings))
    _say(f"took {time.monotonic() - began:.0f} s")
    print_result(result(findings))
    return 0 if passed(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
