"""Names that a tracking store takes, and what a run logs under them."""

from __future__ import annotations

import math
import posixpath
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracking_tables import figure, figures

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.measure.history import bucket_labels, depth_label
from drift_runs.measure.scopes import SCOPE_KINDS
from drift_runs.tracking import names
from drift_runs.tracking.chosen_metrics import headline_of

SAFE = re.compile(r"[A-Za-z0-9_.\-/ ]{1,250}")
PART = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
STATISTIC = st.sampled_from(["mean", "p50", "p95", "p99.9", "max", "rate", "tail_share", "worst_range.p95"])
FIGURE = st.fixed_dictionaries(
    {
        "spec": st.sampled_from(["kl.full", "kl.topk-shared@20", "flip", "flip.strict", "dnll"]),
        "outliers": st.sampled_from(["with", "without", "only"]),
        "scope_kind": st.sampled_from(names.SCOPE_KINDS),
        "scope": PART,
        "statistic": STATISTIC,
    }
)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (figure(), "kl.full/all/mean"),
        (figure(outliers="without"), "kl.full/without_outliers/mean"),
        (figure(scope_kind="panel", scope="P-A"), "kl.full/all/panel/P-A/mean"),
        (
            figure(outliers="without", scope_kind="panel", scope="P-A", statistic="p95"),
            "kl.full/without_outliers/panel/P-A/p95",
        ),
        (figure(spec="kl.topk-shared@20"), "kl.topk-shared.20/all/mean"),
        (figure(spec="flip", statistic="rate"), "flip/all/rate"),
        (figure(statistic="worst_range.p95"), "kl.full/all/worst_range/p95"),
        (figure(outliers="only", statistic="p99.9"), "kl.full/only_outliers/p99.9"),
        (figure(scope_kind="history", scope="65536+"), "kl.full/all/history/65536-up/mean"),
    ],
)
def test_a_figure_has_the_documented_name(row, expected):
    assert names.name_of(row) == expected


def test_what_stands_beside_a_value_is_a_suffix():
    assert names.name_of(figure(), "low") == "kl.full/all/mean.low"


@given(FIGURE)
def test_every_name_is_one_that_mlflow_takes(row):
    name = names.name_of(row)
    assert SAFE.fullmatch(name)
    assert posixpath.normpath(name) == name
    assert not name.startswith(("/", "..")) and not name.endswith("/") and "//" not in name


@given(st.lists(FIGURE, min_size=2, max_size=40))
def test_different_figures_never_share_a_name(rows):
    def identity(row):
        scope = "" if row["scope_kind"] == "all" else row["scope"]
        return (row["spec"], row["outliers"], row["scope_kind"], scope, row["statistic"])

    assert len({names.name_of(row) for row in rows}) == len({identity(row) for row in rows})


@given(st.text(max_size=12))
def test_any_scope_gives_a_safe_name_or_an_error(scope):
    try:
        name = names.name_of(figure(scope_kind="range", scope=scope))
    except StoreError:
        return
    assert SAFE.fullmatch(name) and posixpath.normpath(name) == name


@pytest.mark.parametrize("scope", ["", "..", ".", "a/b", "100%", "a=b", " a", "a ", "Größe", "a\nb", "x" * 300])
def test_a_scope_without_a_safe_name_is_refused(scope):
    with pytest.raises(StoreError):
        names.name_of(figure(scope_kind="range", scope=scope))


@pytest.mark.parametrize("change", [{"outliers": "some"}, {"scope_kind": "planet"}])
def test_an_unknown_view_or_scope_is_refused(change):
    with pytest.raises(StoreError, match="is called"):
        names.name_of(figure(**change))


@pytest.mark.parametrize("batch", [["a/b", "a/B"], ["x", "y", "x"]])
def test_names_of_one_batch_differ_in_more_than_case(batch):
    with pytest.raises(StoreError, match="two metrics"):
        names.checked_batch(batch)


def test_panels_that_differ_in_case_only_are_refused():
    table = figures(figure(scope_kind="panel", scope="P-A"), figure(scope_kind="panel", scope="p-a"))
    with pytest.raises(StoreError, match="two metrics"):
        names.select_metrics(table)


def test_withheld_and_non_finite_values_are_counted_and_not_logged():
    table = figures(
        figure(value=0.25),
        figure(statistic="p99.9", value=None, state="withheld"),
        figure(statistic="p99", value=1.0, state="withheld"),
        figure(statistic="max", value=math.inf),
        figure(statistic="p95", value=math.nan),
    )
    metrics = names.select_metrics(table)
    assert metrics["kl.full/all/mean"] == 0.25
    assert (metrics["withheld"], metrics["nonfinite"]) == (2.0, 2.0)
    assert not {name for name in metrics if name.rpartition("/")[2] in ("p95", "p99", "p99.9", "max")}
    assert all(math.isfinite(value) for value in metrics.values())


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), min_size=1, max_size=6))
def test_whatever_the_values_are_metrics_are_finite_and_nothing_goes_uncounted(values):
    statistics = ("window_mean", "p50", "p95", "p99", "max", "tail_share")
    rows = [figure(statistic=statistic, value=value) for statistic, value in zip(statistics, values, strict=False)]
    metrics = names.select_metrics(figures(*rows))
    assert all(math.isfinite(value) for value in metrics.values())
    logged = [name for name in metrics if name.startswith("kl.full/")]
    assert len(logged) + metrics["withheld"] + metrics["nonfinite"] == len(values)


def test_interval_and_counts_stand_beside_the_leading_figure():
    metrics = names.select_metrics(figures(figure(value=0.2, low=0.1, high=0.4, n=30, excluded=2)))
    assert metrics["kl.full/all/mean.low"] == 0.1
    assert metrics["kl.full/all/mean.high"] == 0.4
    assert metrics["kl.full/all/mean.n"] == 30.0
    assert metrics["kl.full/all/mean.excluded"] == 2.0


def test_every_smaller_scope_stays_in_the_file():
    kinds = [kind for kind in SCOPE_KINDS if kind not in ("all", "panel", "history", "depth")]
    rows = [figure(scope_kind=kind, scope="x") for kind in kinds]
    assert names.select_metrics(figures(*rows)) == {"withheld": 0.0, "nonfinite": 0.0}


def test_the_labels_that_measuring_gives_are_a_series_by_first_token():
    labels = bucket_labels((128, 1100, 65_535))
    chosen = names.select(figures(*(figure(scope_kind="history", scope=label, value=0.5) for label in labels)))
    assert [point.step for point in chosen.series] == [1, 129, 1101, 65_536]


def test_history_is_a_series_by_its_first_token():
    rows = [
        figure(scope_kind="history", scope="257-1024", value=0.2),
        figure(scope_kind="history", scope="1025+", value=0.3),
    ]
    chosen = names.select(figures(*rows))
    assert chosen.series == (("kl.full/all/history/mean", 257, 0.2), ("kl.full/all/history/mean", 1025, 0.3))


def test_depth_is_a_series_of_its_own():
    rows = [figure(scope_kind="depth", scope=depth_label(at, 8192), value=float(at)) for at in range(3)]
    rows.append(figure(scope_kind="history", scope="1-256", value=7.0))
    chosen = names.select(figures(*rows))
    assert chosen.series[:3] == tuple(("kl.full/all/depth/mean", 8192 * at + 1, float(at)) for at in range(3))
    assert chosen.series[3] == ("kl.full/all/history/mean", 1, 7.0)


def test_two_buckets_that_start_at_the_same_token_are_refused():
    rows = [figure(scope_kind="depth", scope=scope) for scope in ("1-8", "1-16")]
    with pytest.raises(StoreError, match="start at the same token"):
        names.select(figures(*rows))


def test_the_headline_carries_its_spec_whatever_stands_first():
    shared = "kl.topk-shared@20"
    rows = [
        figure(spec="kl.topk-lower@20", value=0.1),
        figure(spec="kl.topk-lower@20", statistic="p95", value=0.2),
        figure(spec=shared, value=0.3, low=0.25, high=0.4),
        figure(spec=shared, statistic="window_mean", value=0.31),
        figure(spec=shared, statistic="p95", value=0.5),
        figure(spec=shared, statistic="exactly_zero", value=59.0),
        figure(spec="flip", statistic="rate", value=0.1),
        figure(spec="entropy.topk@20.reference", value=1.0),
        figure(spec="dentropy.topk@20", value=0.01),
        figure(spec="missed@20", statistic="share", value=0.02),
    ]
    assert headline_of(figures(*rows)) == shared
    metrics = names.select_metrics(figures(*rows))
    assert metrics["kl.topk-shared.20/all/mean"] == 0.3 and metrics["kl.topk-shared.20/all/mean.low"] == 0.25
    assert metrics["kl.topk-shared.20/all/p95"] == 0.5 and metrics["kl.topk-shared.20/all/exactly_zero"] == 59.0
    assert metrics["kl.topk-lower.20/all/mean"] == 0.1 and "kl.topk-lower.20/all/p95" not in metrics
    assert metrics["dentropy.topk.20/all/mean"] == 0.01 and metrics["missed.20/all/share"] == 0.02
    assert not [name for name in metrics if name.startswith("entropy.topk")]
    assert headline_of(figures(figure(spec="flip", statistic="rate"))) == ""


def test_rollouts_are_logged_and_their_steps_stay_in_the_file():
    rows = [
        figure(spec="rollout.exact", statistic="share", value=0.75),
        figure(spec="rollout.prefix", statistic="tokens", value=853.0),
        figure(spec="rollout.first", statistic="count", scope_kind="step", scope="3", value=2.0),
    ]
    metrics = names.select_metrics(figures(*rows))
    assert metrics == {"rollout.exact/all/share": 0.75, "rollout.prefix/all/tokens": 853.0} | {
        "withheld": 0.0,
        "nonfinite": 0.0,
    }


def test_figures_of_two_arms_are_refused():
    with pytest.raises(StoreError, match="2 arms"):
        names.select_metrics(figures(figure(), figure(arm="other")))


def test_no_figures_give_the_two_counts_only():
    assert names.select_metrics(schema.FIGURES.empty_table()) == {"withheld": 0.0, "nonfinite": 0.0}


def test_a_name_can_be_traced_to_what_a_person_reads():
    chosen = names.select(figures(figure(spec="kl.topk-shared@20")))
    assert chosen.display["kl.topk-shared.20/all/mean"] == "kl.topk-shared@20 mean, all positions"


@pytest.mark.parametrize(
    ("spec", "statistic", "expected"),
    [
        ("answer.exact", "rate", "answer.exact rate, all answers"),
        ("branches", "invalid", "branches invalid, all roots"),
        ("branches", "wrong-call", "branches wrong-call, all roots"),
        ("branches", "existing", "branches existing, all flips"),
        ("rollout.exact", "count", "rollout.exact count, all prompts"),
        ("rollout.prefix", "share", "rollout.prefix share, all prompts"),
        ("rollout.prefix", "tokens", "rollout.prefix tokens, all tokens"),
        ("rollout.loop", "candidate.count", "rollout.loop candidate.count, all rollouts"),
        ("rollout.early_stop", "candidate.count", "rollout.early_stop candidate.count, all rollouts"),
        ("task.passed", "lost", "task.passed lost, all tasks"),
        ("nll", "windows_above", "nll windows_above, all windows"),
        ("flip", "count", "flip count, all positions"),
    ],
)
def test_what_a_person_reads_says_what_is_counted(spec, statistic, expected):
    chosen = names.select(figures(figure(spec=spec, statistic=statistic)))
    assert tuple(chosen.display.values()) == (expected,)


def test_a_sampled_share_is_over_pairs_of_rollouts():
    chosen = names.select(figures(figure(spec="sampled.exact@0.7", statistic="share")))
    assert chosen.display == {"sampled.exact.0.7/all/share": "sampled.exact@0.7 share, all pairs of rollouts"}


def test_the_counts_beside_a_rate_say_what_they_count():
    chosen = names.select(figures(figure(spec="flip", statistic="rate", outliers="without", low=0.1, high=0.2)))
    shown = "flip rate, all positions, without outliers"
    assert chosen.display["flip/without_outliers/rate.n"] == f"{shown}, positions used"
    assert chosen.display["flip/without_outliers/rate.excluded"] == f"{shown}, positions left out"


def test_a_run_with_every_measure_logs_sixty_to_ninety_metrics():
    headline = ["mean", "window_mean", "p50", "p90", "p95", "p99", "p99.9", "max", "tail_share", "worst_range.p95"]
    headline += ["worst_range.mean", "excluded", "infinite", "exactly_zero", "windows_above", "p95_lower"]
    others = ["js.full", "kl.topk-tail@64", "kl.topk-shared@64", "kl.topk-lower@64", "kl.topk-floor@64"]
    rates = ["flip", "flip.strict", "flip.text", "strong_overturn", "volatile", "swap"]
    means = ["dnll", "dp", "nll.reference", "nll.candidate", "dentropy.full", "shared_support@64"]
    rows = []
    for view in ("with", "without", "only"):
        for kind, scope in (("all", "all"), ("panel", "P-A"), ("panel", "P-B"), ("role", "prompt")):
            here = {"outliers": view, "scope_kind": kind, "scope": scope, "value": 1.0}
            rows += [figure(**here, statistic=one, low=0.5, high=2.0) for one in headline]
            rows += [figure(**here, spec=spec, statistic=one) for spec in others for one in ("mean", "p95", "max")]
            rows += [figure(**here, spec=spec, statistic=one) for spec in rates for one in ("rate", "count")]
            rows += [figure(**here, spec=spec) for spec in means]
    table = figures(*rows)
    assert isinstance(table, pa.Table)
    assert 60 <= len(names.select_metrics(table)) <= 90
