"""Every published figure of the imported files, from the raw files. Skipped where those data are not at hand.

What was published is read from ``expected.json``; a key of it that no line here checks is a failure.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.cli.main import main
from drift_runs.importers.formats import load
from drift_runs.measure.contexts import paired_contexts, summarise_contexts
from drift_runs.measure.intervals import ratio_replicates
from drift_runs.measure.resampler import Resampler

FOLDER = Path(os.environ.get("DRIFT_PUBLISHED_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = FOLDER / "qwen38-exl3"
EXPECTED = FOLDER / "expected.json"

pytestmark = pytest.mark.skipif(
    not EXPECTED.is_file(), reason="no published data: set DRIFT_PUBLISHED_DATA to their folder"
)

EXACT = 1e-12
"""Relative."""
ENDS = 0.01
"""Relative: another random stream moves the ends of an interval in the third digit."""

COMPARISONS = ("concurrency-dp8", "rope-short-context", "same-server-replicate", "cross-boot-replicate")
ROLLOUTS = ("exl3-eager-graph", "bf16-eager-graph")
PAIRS = ("hyd-minus-fp8", "nvfp4-minus-fp8")


@cache
def published(section: str) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(EXPECTED.read_text())[section]}


@cache
def compared(a: str, b: str, name: str, *options: str) -> dict[str, Any]:
    """What ``drift compare --json`` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["compare", str(FILES / a), str(FILES / b), "--format", name, "--json", *options]) == 0
    document = json.loads(printed.getvalue())
    assert document["comparability"]["comparable"] and document["comparability"]["reasons"] == []
    return document["figures"]


def test_nothing_published_goes_unread():
    assert set(published("comparisons")) == set(COMPARISONS)
    assert set(published("rollouts")) == set(ROLLOUTS)
    assert set(published("contexts")) == {"fp8-10M", *PAIRS}


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=EXACT, abs=0)


def read_figure(key: str, entry: dict[str, Any], figures: dict[str, Any]) -> Any:
    """Our figure for a published key."""
    kl = figures[f"{entry['spec']}@{entry['k']}"]
    match key:
        case "mean" | "median" | "max":
            return kl[key]
        case "p99":
            # Where the rules agree on a value there is one.
            return kl.get("p99_lower", kl["p99"]) if entry["p99_quantile_rule"] == "lower" else kl["p99"]
        case "top1_agreement":
            return 1 - figures["flip"]["rate"]
        case "top1_flips":
            return figures["flip"]["count"]
        case "positions":
            return kl["n"]
        case "positions_exactly_zero":
            return kl["exactly_zero"]
        case "mean_shared_support":
            return kl["shared_support_mean"]
        case "min_shared_support":
            return kl["shared_support_min"]
        case "mean_reference_mass_dropped":
            return kl["reference_mass_dropped_mean"]
        case "max_reference_mass_dropped":
            return kl["reference_mass_dropped_max"]
        case "mean_with_candidate_floor":
            return figures[f"kl.topk-floor@{entry['k']}"]["mean"]
        case "identical_rows":
            return figures[f"row.top@{entry['k']}"]["identical"]
    raise AssertionError(f"nothing reads {key}")


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_figure_of_a_comparison_of_rows(name: str):
    entry = published("comparisons")[name]
    figures = compared(entry["reference"], entry["candidate"], "topk-rows")
    labels = {"id", "reference", "candidate", "spec", "k", "p99_quantile_rule", "candidate_floor_note"}
    for key in entry.keys() - labels - {"mean_by_bucket"}:
        assert read_figure(key, entry, figures) == exactly(entry[key]), key
    groups = figures[f"{entry['spec']}@{entry['k']}"]["groups"]
    for bucket, mean in entry.get("mean_by_bucket", {}).items():
        assert groups[bucket]["mean"] == exactly(mean), bucket


def test_both_quantile_rules_are_given_where_they_differ():
    entry = published("comparisons")["concurrency-dp8"]
    kl = compared(entry["reference"], entry["candidate"], "topk-rows")["kl.topk-shared@20"]
    assert kl["quantile_rule"] == "linear"
    assert kl["p99_lower"] == exactly(entry["p99"]) and kl["p99"] > kl["p99_lower"]
    assert kl["states"]["p99"] == "withheld" and kl["beyond"]["p99"] == 4


def test_the_borrowed_floor_stands_between_the_loaded_server_and_the_rope_arm():
    means = {
        name: published("comparisons")[name]["mean"]
        for name in ("cross-boot-replicate", "concurrency-dp8", "rope-short-context")
    }
    found = {
        name: compared(entry["reference"], entry["candidate"], "topk-rows")["kl.topk-shared@20"]["mean"]
        for name, entry in published("comparisons").items()
        if name in means
    }
    assert sorted(found, key=found.__getitem__) == ["cross-boot-replicate", "concurrency-dp8", "rope-short-context"]


@pytest.mark.parametrize("name", ROLLOUTS)
def test_every_figure_of_a_pair_of_rollouts(name: str):
    entry = published("rollouts")[name]
    figures = compared(entry["a"], entry["b"], "rollouts", "--run", str(entry["run"]))
    assert figures["rollout.exact"]["n"] == entry["prompts"]
    assert figures["rollout.exact"]["count"] == entry["all_equal"]
    assert figures["rollout.exact"]["share"] == exactly(entry["all_equal"] / entry["prompts"])
    assert figures["rollout.prefix"]["tokens"] == entry["matched_prefix_tokens"]
    assert figures["rollout.prefix"]["of"] == entry["prompts"] * entry["tokens"]
    assert figures["rollout.prefix"]["share"] == exactly(
        entry["matched_prefix_tokens"] / (entry["prompts"] * entry["tokens"])
    )
    firsts = figures["rollout.first"]
    assert sum(firsts["counts"].values()) == entry["prompts"] - entry["all_equal"]
    gap = figures["rollout.prefix.dlogprob"]
    digits = len(str(entry["mean_abs_logprob_delta"]).partition(".")[2])
    if digits > 12:
        assert gap["mean_abs"] == exactly(entry["mean_abs_logprob_delta"])
    else:
        # Published with so many digits only.
        assert round(gap["mean_abs"], digits) == entry["mean_abs_logprob_delta"]
    assert (gap["n"], gap["excluded"]) == (entry["matched_prefix_tokens"], 0)
    checked = {"id", "a", "b", "run", "prompts", "tokens", "all_equal", "matched_prefix_tokens"}
    assert entry.keys() - checked == {"mean_abs_logprob_delta"} | (entry.keys() & {"mean_abs_logprob_delta_note"})


def test_means_by_context_of_one_candidate():
    entry = published("contexts")["fp8-10M"]
    pair = published("contexts")["hyd-minus-fp8"]
    assert pair["b"] == entry["file"]
    figures = compared(pair["a"], pair["b"], "contexts", "--seed", "1", "--resamples", "10000")
    kl = figures["kl.full"]["b"]
    assert kl["mean"] == exactly(entry["token_mean"])
    assert figures["kl.full"]["contexts"] == entry["contexts"] and kl["clusters"] == entry["clusters"]
    assert [kl["low"], kl["high"]] == pytest.approx(entry["cluster_ci95"], rel=ENDS)
    assert 1 - figures["flip"]["b"]["rate"] == exactly(entry["top1_agreement"])
    for stratum, mean in entry["strata_mean"].items():
        assert kl["groups"][stratum]["mean"] == exactly(mean)
    checked = {"id", "file", "token_mean", "contexts", "clusters", "cluster_ci95", "cluster_ci95_note"}
    assert entry.keys() - checked == {"top1_agreement", "strata_mean"}


@pytest.mark.parametrize("name", PAIRS)
def test_the_difference_of_two_candidates(name: str):
    entry = published("contexts")[name]
    kl = compared(entry["a"], entry["b"], "contexts", "--seed", "1", "--resamples", "10000")["kl.full"]
    assert kl["mean_difference"] == exactly(entry["mean_difference"])
    assert kl["ci95"] == pytest.approx(entry["ci95"], rel=ENDS)
    assert (kl["a_lower"], kl["b_lower"]) == (entry["a_lower"], entry["b_lower"])
    assert entry.keys() == {"id", "a", "b", "mean_difference", "ci95", "a_lower", "b_lower"}


class PublishersResampler(Resampler):
    """The publisher's draws: Python's ``Random(1)``, one ``randrange`` a cluster, clusters in order of appearance."""

    def multiplicities(self, clusters: int) -> np.ndarray:
        if clusters not in self._counts:
            generator = random.Random(self.seed)
            self._counts[clusters] = np.stack(
                [
                    np.bincount([generator.randrange(clusters) for _ in range(clusters)], minlength=clusters)
                    for _ in range(self.resamples)
                ]
            ).astype(np.int16)
        return self._counts[clusters]


def test_the_publishers_own_draws_give_the_published_ends(monkeypatch):
    """With the same draws, and the order statistics that the publisher took, the ends agree in every digit."""
    replicates = []

    def noted(top, bottom, resampler):
        replicates.append(ratio_replicates(top, bottom, resampler))
        return replicates[-1]

    monkeypatch.setattr("drift_runs.measure.intervals.ratio_replicates", noted)
    resampler = PublishersResampler(seed=1, resamples=10_000)
    tables = {name: load("contexts").read(FILES / f"kld5-10M-{name}.json").table for name in ("fp8", "hyd", "nvfp4")}

    def ends() -> list[float]:
        ordered = np.sort(replicates[0][:, 0])
        replicates.clear()
        return [float(ordered[250]), float(ordered[9_749])]

    summarise_contexts(tables["fp8"], arm="fp8", resampler=resampler)
    assert ends() == exactly_all(published("contexts")["fp8-10M"]["cluster_ci95"])
    for name in PAIRS:
        paired_contexts(tables[name.partition("-")[0]], tables["fp8"], resampler=resampler)
        assert ends() == exactly_all(published("contexts")[name]["ci95"])


def exactly_all(values: list[float]) -> Any:
    return pytest.approx(values, rel=EXACT, abs=0)
