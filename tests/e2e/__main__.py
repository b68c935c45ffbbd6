"""The whole topology on one machine without a cluster: ``make e2e-namespaces``, as root.

Every pod of tests/e2e/overlay is a process in a network namespace of its own, with the environment, files, probes and
ends of the manifests, behind packet filters made of their NetworkPolicies, with mutual TLS and API keys. Clients ask
without a pause while pools grow and shrink and every certificate is replaced; each answer is compared with the target's
own. Weights are the default pair's, from where ``make demo`` puts them.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

import yaml

from outrider.cli.console import print_result
from outrider.cli.models import prepare_default
from outrider.home import models_folder
from tests.deploy.manifests import kustomize
from tests.e2e import network
from tests.e2e.cluster import Cluster
from tests.e2e.doors import Visitors
from tests.e2e.story import say, through


def _traces(cluster: Cluster) -> int:
    """Lines that the collector has written."""
    file = cluster.running["collector"][0].root / "traces.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def run(requests: int) -> bool:
    """Returns whether everything was right."""
    models = models_folder(os.environ)
    prepare_default(os.environ)
    objects = tuple(yaml.safe_load_all(kustomize(Path(__file__).parent / "overlay")))
    cluster = Cluster(objects, models)
    cluster.open()
    try:
        say("starting the pods")
        await cluster.start()
        visitors = Visitors(
            cluster.visitor("clients", "apps", outrider_clients="true"),
            cluster.visitor("prometheus", "monitoring", outrider_metrics="true"),
            cluster.visitor("stranger", "elsewhere"),
        )
        figures = await through(cluster, visitors, requests)
        figures["traces"] = _traces(cluster)
    except BaseException:
        for pod in [pod for there in cluster.running.values() for pod in there]:
            print(f"--- {pod.spot.name}\n{pod.said[-3000:]}", file=sys.stderr)
        raise
    finally:
        say("ending the pods")
        await cluster.close()
    figures["bad_exits"] = sum(code != 0 for code in cluster.codes)
    print_result(figures)
    return figures["mtls"] and not (figures["failed"] or figures["wrong"] or figures["bad_exits"])


def main() -> int:
    """Returns the exit code: 2 where this machine cannot."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__)
    parser.add_argument("--requests", type=int, default=120, help="at least so many answers")
    told = parser.parse_args()
    lacking = network.missing()
    if lacking:
        print(lacking, file=sys.stderr)
        return 2
    return 0 if asyncio.run(run(told.requests)) else 1


if __name__ == "__main__":
    sys.exit(main())
