"""The rules, the manifests and the replay do what docs/kubernetes/autoscaling.md says."""

import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.deploy.autoscaling import Scaling
from tests.deploy.autoscaling_manifests import of_autoscaler, of_scaled_object, rule_of
from tests.deploy.autoscaling_schema import SCALED_OBJECT
from tests.deploy.manifests import K8S, ROOT, Object, made_of, named, of_kind
from tests.deploy.manifests_schemas import KUBERNETES, check
from tests.deploy.promql import metrics_in, selectors

RULES_FILE = ROOT / "deploy" / "observability" / "prometheus" / "autoscaling.yaml"
GROUPS = yaml.safe_load(RULES_FILE.read_text())["groups"]
RULES: dict[str, str] = {rule["record"]: rule["expr"] for group in GROUPS for rule in group["rules"]}
POOLS = ("target", "draft")
DOCS = ROOT / "docs" / "kubernetes" / "autoscaling.md"


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    """The base with KEDA and monitoring, built."""
    return made_of(tmp_path_factory.mktemp("keda"), ["monitoring", "keda"])


@pytest.fixture(scope="module")
def hpa(tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    """The base with Kubernetes' autoscaler and monitoring, built."""
    return made_of(tmp_path_factory.mktemp("hpa"), ["monitoring", "hpa"])


def scaled(objects: tuple[Object, ...], pool: str) -> Scaling:
    """What KEDA's manifest says of a pool."""
    return of_scaled_object(named(objects, "ScaledObject", f"outrider-{pool}"))


@pytest.mark.parametrize("command", ["check rules autoscaling.yaml", "test rules autoscaling_test.yaml"])
def test_promtool_agrees_with_the_rules(command: str) -> None:
    done = subprocess.run(
        ["promtool", *command.split()], cwd=RULES_FILE.parent, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_asks_for_metrics_that_there_are_and_never_for_what_a_processor_does(rule: str) -> None:
    names = {str(selector.name) for selector in selectors(RULES[rule])}
    assert len(metrics_in(RULES[rule])) == len({name.removesuffix("_bucket") for name in names})
    assert not re.search("cpu|gpu|accepted|acceptance", RULES[rule])
    pool = "target" if "target" in rule else "draft"
    jobs = {m.value for s in selectors(RULES[rule]) for m in s.matchers.matchers if m.name == "job"}
    assert jobs - {"outrider-orchestrator"} == {f"outrider-{pool}"}


def test_each_rule_is_shown_in_an_idle_pool_and_in_one_that_nobody_sees() -> None:
    tests = yaml.safe_load((RULES_FILE.parent / "autoscaling_test.yaml").read_text())["tests"]
    shown = [(each["expr"], each["exp_samples"]) for test in tests for each in test["promql_expr_test"]]
    for rule in RULES:
        values = [[sample["value"] for sample in samples] for expression, samples in shown if expression == rule]
        assert [0] in values
        assert [] in values
        assert any(max(found, default=0) > 0 for found in values)


@pytest.mark.parametrize("pool", POOLS)
def test_keda_and_the_plain_autoscaler_say_the_same(
    keda: tuple[Object, ...], hpa: tuple[Object, ...], pool: str
) -> None:
    assert scaled(keda, pool) == of_autoscaler(named(hpa, "HorizontalPodAutoscaler", f"outrider-{pool}"))


@pytest.mark.parametrize("pool", POOLS)
def test_a_pool_is_scaled_by_its_own_recorded_numbers(keda: tuple[Object, ...], pool: str) -> None:
    scaling = scaled(keda, pool)
    assert scaling.deployment == f"outrider-{pool}"
    own = [rule for rule in RULES if rule.startswith(f"outrider:{pool}_")]
    assert [metric.rule for metric in scaling.metrics] == own
    (groups,) = (each["spec"]["groups"] for each in of_kind(keda, "PrometheusRule"))
    recorded = {rule["record"]: rule["expr"] for group in groups for rule in group["rules"] if "record" in rule}
    assert {rule: recorded[rule] for rule in RULES} == RULES


@pytest.mark.parametrize("built", ["keda", "hpa"])
def test_no_number_of_replicas_is_fixed_where_an_autoscaler_has_it(built: str, request: pytest.FixtureRequest) -> None:
    objects = request.getfixturevalue(built)
    for pool in POOLS:
        assert "replicas" not in named(objects, "Deployment", f"outrider-{pool}")["spec"]
    assert named(objects, "Deployment", "outrider-orchestrator")["spec"]["replicas"] == 2


def test_rules_look_back_over_four_scrapes(keda: tuple[Object, ...]) -> None:
    endpoints = [end for each in of_kind(keda, "PodMonitor") for end in each["spec"]["podMetricsEndpoints"]]
    assert {end["interval"] for end in endpoints} == {"15s"}
    assert set(re.findall(r"\[(\w+)\]", " ".join(RULES.values()))) == {"1m"}


@pytest.mark.parametrize("pool", POOLS)
def test_a_scaled_object_is_one_that_keda_takes_and_that_no_error_shrinks(keda: tuple[Object, ...], pool: str) -> None:
    """An empty answer is an error to KEDA, and an error leaves at least the pods that there are."""
    spec = named(keda, "ScaledObject", f"outrider-{pool}")["spec"]
    jsonschema.validate(spec, SCALED_OBJECT)
    assert {trigger["metadata"]["ignoreNullValues"] for trigger in spec["triggers"]} == {"false"}
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_plain_autoscalers(hpa: tuple[Object, ...], version: str) -> None:
    found = of_kind(hpa, "HorizontalPodAutoscaler")
    assert len(found) == 2
    for each in found:
        check(each, version)


def test_the_example_for_prometheus_adapter_names_each_rule_as_the_autoscalers_call_it() -> None:
    example = yaml.safe_load((K8S / "components" / "hpa" / "prometheus-adapter.yaml").read_text())
    (rule,) = yaml.safe_load(example["data"]["config.yaml"])["externalRules"]
    found = re.search(r'__name__=~"([^"]+)"', rule["seriesQuery"])
    assert found
    for name in RULES:
        assert re.fullmatch(found[1], name)
        told = re.sub(rule["name"]["matches"], re.sub(r"\$\{(\d)\}", r"\\\1", rule["name"]["as"]), name)
        assert rule_of(told) == name


def blocks(language: str) -> list[str]:
    """The docs' examples of a language."""
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)


def test_the_patches_of_the_docs_build_and_do_what_they_say(tmp_path: Path) -> None:
    patches = [text for text in blocks("yaml") if text.startswith("patches:")]
    found = [yaml.safe_load(text)["patches"] for text in patches]
    text = yaml.safe_dump({"patches": [patch for each in found for patch in each]})
    objects = made_of(tmp_path, ["monitoring", "keda"], *text.splitlines())
    addresses = {
        trigger["metadata"]["serverAddress"]
        for each in of_kind(objects, "ScaledObject")
        for trigger in each["spec"]["triggers"]
    }
    assert addresses == {"http://thanos-query.observe.svc:9090"}
    draft = scaled(objects, "draft")
    assert (draft.least, draft.most, draft.metrics[0].target_milli) == (1, 24, 30)


def test_the_table_of_the_docs_has_the_rules_and_the_thresholds_of_the_manifests(keda: tuple[Object, ...]) -> None:
    rows = re.findall(r"^\| (target|draft)s \|.+\| `([\w:]+)` \| ([\d.]+) \|$", DOCS.read_text(), re.MULTILINE)
    expected = [
        (pool, metric.rule, metric.target_milli / 1000) for pool in POOLS for metric in scaled(keda, pool).metrics
    ]
    assert [(pool, rule, float(number)) for pool, rule, number in rows] == expected
