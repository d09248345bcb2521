"""Drift beside passed tasks: what is counted where, what is not known, and what an order shows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.errors import NotComparable, ProtocolError
from drift_runs.generate.task_order import FIGURES, task_order_table
from drift_runs.generate.task_sentences import order_sentence
from drift_runs.generate.task_table import Span, task_drift_table, task_spans
from drift_runs.measure.agreement import kendall_tau
from drift_runs.schema import TASK_DRIFT, TASK_ORDER, TASKS

NAN = np.nan
SPANS = {
    "a": ("A", "d1", [(1, 11), (20, 240)]),
    "b": ("A", "d2", [(1, 11)]),
    "c": ("B", "d3", [(1, 11)]),
}
N = 250
TASK_LIST = [
    {"name": "ta", "window": "a", "at": 4, "check": "calls", "answer": "done"},
    {"name": "tb", "window": "b", "at": 3, "check": "pattern", "expected": ["x"]},
    {"name": "tc", "window": "c", "at": 5, "check": "json", "expected": ["1"]},
]
ANSWERS = [{"name": "done", "window": "a", "from": 4, "to": 10}]
STREAMS = {"a": [7] * 240, "b": [7, 7, 9, 7, 7, 7, 9, 7, 9, 7, 7], "c": [7] * 11}
"""Token 9 ends a turn."""


@pytest.fixture
def protocol(make_protocol):
    return make_protocol(
        SPANS,
        outliers=("c",),
        tasks=TASK_LIST,
        answers=ANSWERS,
        intervals={"resamples": 200},
        arms=[
            {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"},
            *({"name": name, "role": "candidate", "derivative": "stock", "weights": name} for name in ("q8", "q4")),
        ],
    )


def tasks_of(arm: str, **passes: bool | None) -> pa.Table:
    places = {"ta": ("a", "d1", "A"), "tb": ("b", "d2", "A"), "tc": ("c", "d3", "B")}
    rows = []
    for name, passed in passes.items():
        window, document, panel = places[name]
        rows.append(
            {
                **{"arm": arm, "task": name, "window": window, "document": document, "panel": panel},
                **{"range": "", "kind": "", "outlier": window == "c", "check": "calls", "passed": passed},
                **{"reason": "", "ended": "turn", "tokens": 1, "text": ""},
            }
        )
    return pa.Table.from_pylist(rows, schema=TASKS)


def by_task(table: pa.Table) -> dict[tuple[str, str], dict]:
    assert table.schema.equals(TASK_DRIFT, check_metadata=True)
    return {(row["arm"], row["task"]): row for row in table.to_pylist()}


def laid(window: str, values: dict[int, float], rest: float = 0.0) -> np.ndarray:
    """float64[N]: ``values`` by position of one window."""
    places = [(name, at) for name, (_, _, spans) in SPANS.items() for start, end in spans for at in range(start, end)]
    return np.array([values.get(at, rest) if name == window else rest for name, at in places])


class TestSpans:
    def test_to_the_end_of_the_answer_or_of_the_turn_or_of_the_text(self, protocol):
        assert task_spans(protocol, STREAMS, {9}) == {"ta": Span(4, 10), "tb": Span(3, 7), "tc": Span(5, 11)}

    def test_a_task_behind_its_answer_is_an_error_of_the_protocol(self, make_protocol):
        tasks = [{**TASK_LIST[0], "at": 10}]
        protocol = make_protocol(SPANS, tasks=tasks, answers=ANSWERS)
        with pytest.raises(ProtocolError, match="task ta: an answer from 10 to 10"):
            task_spans(protocol, STREAMS, {9})


class TestDrift:
    def table(self, protocol, make_table, **columns) -> dict[tuple[str, str], dict]:
        tasks = {"f16": tasks_of("f16", ta=True, tb=False, tc=True), "q4": tasks_of("q4", ta=False, tb=True, tc=None)}
        spans = task_spans(protocol, STREAMS, {9})
        return by_task(task_drift_table(tasks, {"q4": make_table(protocol, **columns)}, protocol, spans))

    def test_the_span_alone_is_counted(self, protocol, make_table):
        found = self.table(
            protocol,
            make_table,
            flip=laid("a", {3: 1, 4: 1, 9: 1, 10: 1}),
            reference_p1=laid("a", {4: 0.95}, rest=0.4),
            kl_full_nats=laid("a", {3: 9.0, 4: 0.5, 5: 0.1, 10: 9.0}),
        )
        row = found["q4", "ta"]
        assert (row["from"], row["to"], row["positions"], row["unknown"]) == (4, 10, 6, 0)
        assert (row["flips"], row["strong_overturns"]) == (2, 1)
        assert row["mean_nats"] == pytest.approx(0.1) and row["max_nats"] == 0.5
        assert (row["passed"], row["reference_passed"], row["spec"]) == (False, True, "kl.full")
        assert (row["range"], row["kind"], row["document"], row["outlier"]) == ("a-0", "prose", "d1", False)
        assert ("f16", "ta") not in found and found["q4", "tc"]["outlier"] is True
        assert (found["q4", "tb"]["flips"], found["q4", "tb"]["positions"]) == (0, 4)

    def test_the_worst_range_is_of_the_window_and_a_short_span_has_no_p95(self, protocol, make_table):
        levels = {at: float(at) for at in range(20, 240)}
        row = self.table(protocol, make_table, kl_full_nats=laid("a", {**levels, 5: 1e9}))["q4", "ta"]
        assert row["worst_range"] == "a-1"
        assert row["worst_p95_nats"] == pytest.approx(np.quantile(np.arange(20, 240), 0.95))
        assert row["p95_nats"] is None and "p95 of the span withheld" in row["reason"]
        short = self.table(protocol, make_table)["q4", "tb"]
        assert short["worst_range"] == "" and short["worst_p95_nats"] is None
        assert "p95 of every range of the window withheld" in short["reason"]

    def test_a_long_span_has_its_p95(self, make_protocol, make_table):
        protocol = make_protocol(SPANS, tasks=[{**TASK_LIST[0], "answer": "", "at": 20, "expected": ["x"]}])
        values = np.zeros(N)
        values[10:230] = np.arange(220)
        tasks = {"q4_0": tasks_of("q4_0", ta=True)}
        spans = task_spans(protocol, STREAMS, {9})
        table = task_drift_table(tasks, {"q4_0": make_table(protocol, kl_full_nats=values)}, protocol, spans)
        row = by_task(table)["q4_0", "ta"]
        assert row["p95_nats"] == row["worst_p95_nats"] == pytest.approx(np.quantile(np.arange(220), 0.95))
        assert row["reason"] == "" and row["reference_passed"] is None

    def test_what_is_not_known_leaves_its_figure_out(self, protocol, make_table):
        row = self.table(protocol, make_table, flip=laid("a", {5: NAN}), kl_full_nats=laid("a", {6: NAN, 7: 1.0}))[
            "q4", "ta"
        ]
        assert (row["positions"], row["unknown"]) == (6, 2)
        assert [row[name] for name in ("flips", "strong_overturns", "mean_nats", "max_nats")] == [None] * 4
        assert "best tokens not known at 1 of 6" in row["reason"] and "no finite kl.full at 1 of 6" in row["reason"]

    def test_a_confidence_that_is_not_known_matters_at_flips_alone(self, protocol, make_table):
        p1 = laid("a", {5: NAN, 6: 0.95})
        found = self.table(protocol, make_table, flip=laid("a", {6: 1}), reference_p1=p1)["q4", "ta"]
        assert (found["flips"], found["strong_overturns"]) == (1, 1)
        found = self.table(protocol, make_table, flip=laid("a", {5: 1}), reference_p1=p1)["q4", "ta"]
        assert (found["flips"], found["strong_overturns"]) == (1, None) and "confidence" in found["reason"]

    def test_no_rows_and_no_comparison(self, protocol, make_table):
        tasks = {"q8": tasks_of("q8", ta=True), "q4": tasks_of("q4", tb=False)}
        spans = task_spans(protocol, STREAMS, {9})
        comparisons = {"q4": make_table(protocol, windows=("a",))}
        found = by_task(task_drift_table(tasks, comparisons, protocol, spans))
        assert found["q8", "ta"]["reason"] == "no comparison of this arm"
        assert found["q4", "tb"]["reason"] == "no scored position in the span"
        assert [row["positions"] for row in found.values()] == [0, 0]
        assert [row[name] for row in found.values() for name in FIGURES] == [None] * 12

    def test_a_task_twice_is_refused_and_nothing_is_a_table(self, protocol):
        spans = task_spans(protocol, STREAMS, {9})
        twice = pa.concat_tables([tasks_of("q4", ta=True)] * 2)
        with pytest.raises(NotComparable, match="task ta stands twice"):
            task_drift_table({"q4": twice}, {}, protocol, spans)
        assert task_drift_table({}, {}, protocol, spans).equals(TASK_DRIFT.empty_table())


def drift_of(protocol, rows: list[tuple[str, str, float | None, bool | None]], *, spec: str = "kl.full") -> pa.Table:
    """Arm, window, flips and pass of tasks; ``reference_passed`` but for tasks of window c."""
    windows = {window.name: window for window in protocol.windows}
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for arm, window, drift, passed in rows:
        number = numbers[arm, window] = numbers.get((arm, window), -1) + 1
        found.append(
            {
                **{"arm": arm, "task": f"{window}{number}", "window": window, "range": "", "kind": ""},
                **{"document": windows[window].document, "panel": windows[window].panel},
                **{"outlier": window in protocol.outlier_windows, "check": "json", "from": 1, "to": 3},
                **{"passed": passed, "reference_passed": window != "c", "spec": spec, "positions": 2, "unknown": 0},
                **{"flips": None if drift is None else int(drift), "strong_overturns": 0, "mean_nats": drift},
                **{"max_nats": drift, "p95_nats": None, "worst_range": "", "worst_p95_nats": None, "reason": ""},
            }
        )
    return pa.Table.from_pylist(found, schema=TASK_DRIFT)


def order(table: pa.Table, figure: str = "flips", over="pairs", among="all", outliers="with") -> dict:
    assert table.schema.equals(TASK_ORDER, check_metadata=True)
    (row,) = [
        row
        for row in table.to_pylist()
        if (row["figure"], row["over"], row["among"], row["outliers"]) == (figure, over, among, outliers)
    ]
    return row


@pytest.fixture
def wide(make_protocol):
    """Twelve documents, so that an interval has something to draw."""
    return make_protocol({f"w{at}": ("A", f"d{at}", [(1, 11)]) for at in range(12)}, intervals={"resamples": 400})


class TestOrder:
    def test_known_answer_over_pairs(self, protocol):
        rows = [("q8", "a", 0, True), ("q8", "b", 1, False), ("q4", "a", 2, True), ("q4", "b", 3, False)]
        found = order(task_order_table(drift_of(protocol, rows), protocol))
        # Of six pairs of pairs three are ordered alike, one the other way, two tie in failure.
        assert found["tau"] == pytest.approx((3 - 1) / np.sqrt(6 * 4))
        assert found["tau_limit"] == pytest.approx(4 / np.sqrt(6 * 4))
        assert found["spearman"] == pytest.approx(2 / np.sqrt(5 * 4))
        assert [found[name] for name in ("n", "excluded", "tasks", "arms", "failed", "clusters")] == [4, 0, 2, 2, 2, 2]

    def test_more_drift_and_more_failures(self, wide):
        rows = [
            (arm, f"w{at}", at + 3 * more, at + 3 * more <= 7)
            for more, arm in enumerate(("x", "y", "z"))
            for at in range(12)
        ]
        table = task_order_table(drift_of(wide, rows), wide)
        found = order(table)
        assert found["tau"] == pytest.approx(found["tau_limit"]) and found["tau_low"] > 0
        assert found["tau_low"] <= found["tau"] <= found["tau_high"]
        assert found["spearman_low"] <= found["spearman"] <= found["spearman_high"]
        assert found["interval"] == "percentile bootstrap, 95 %, 12 documents"
        assert "the more often the task failed" in found["says"] and "an order and no cause" in found["says"]
        over_arms = order(table, over="arms")
        assert (over_arms["n"], over_arms["tau"], over_arms["tau_limit"]) == (3, 1.0, 1.0)
        assert over_arms["says"].startswith("Over 3 arms, each on the same 12 tasks (12 documents; ")
        assert order(table, "mean_nats")["spec"] == "kl.full" and found["spec"] == ""
        assert order(table, "mean_nats")["tau"] == pytest.approx(found["tau"])

    def test_less_drift_and_more_failures(self, wide):
        rows = [("x", f"w{at}", at, at > 5) for at in range(12)]
        turned = [(arm, window, 11 - drift, passed) for arm, window, drift, passed in rows]
        found = order(task_order_table(drift_of(wide, rows), wide))
        assert "the less often the task failed" in found["says"]
        # Six failed and six passed: 36 of 66 pairs are ordered, and every one of them the other way round.
        assert found["tau"] == found["tau_limit"] == pytest.approx(-36 / np.sqrt(66 * 36))
        assert "(the ties allow -0.74 at most)" in found["says"]
        assert "the more often the task failed" in order(task_order_table(drift_of(wide, turned), wide))["says"]

    def test_an_interval_that_holds_0_is_inconclusive(self, wide):
        rows = [("x", f"w{at}", at % 3, at % 2 == 0) for at in range(12)]
        found = order(task_order_table(drift_of(wide, rows), wide))
        assert found["tau_low"] <= 0 <= found["tau_high"]
        assert "inconclusive" in found["says"] and "holds 0" in found["says"] and "the more" not in found["says"]

    def test_few_documents_show_nothing(self, make_protocol):
        five = make_protocol({f"w{at}": ("A", f"d{at}", [(1, 11)]) for at in range(5)}, intervals={"resamples": 200})
        rows = [("x", f"w{at}", at + 5 * more, bool(more)) for at in range(5) for more in (0, 1)]
        found = order(task_order_table(drift_of(five, rows), five))
        assert found["tau_high"] < 0 and "inconclusive: an interval" in found["says"]
        assert "from fewer than 6 documents shows nothing" in found["says"] and "the less" not in found["says"]

    @pytest.mark.parametrize(
        ("rows", "reason"),
        [
            ([], "no pair of task and arm has both the figure and a pass or fail"),
            ([("x", "a", None, True), ("x", "b", 1, None)], "no pair of task and arm has both the figure and"),
            ([("x", "a", 0, True), ("x", "b", 1, True)], "every answer passed"),
            ([("x", "a", 0, False), ("x", "b", 1, False)], "every answer failed"),
            ([("x", "a", 2, True), ("x", "b", 2, False)], "the figure is the same for every pair"),
        ],
    )
    def test_nothing_to_order(self, protocol, rows, reason):
        found = order(task_order_table(drift_of(protocol, rows), protocol))
        assert found["tau"] is found["spearman"] is found["tau_low"] is None and found["interval"] == ""
        assert found["reason"].startswith(reason) and "nothing can be said of flips" in found["says"]
        assert found["n"] + found["excluded"] == len(rows)

    def test_arms_need_three_and_the_same_tasks(self, protocol):
        two = [("x", "a", 0, True), ("y", "a", 1, False), ("x", "b", 1, True), ("y", "b", 1, False)]
        assert order(task_order_table(drift_of(protocol, two), protocol), over="arms")["reason"] == "2 arms, 3 needed"
        three = [*two, ("z", "a", 5, False)]
        found = order(task_order_table(drift_of(protocol, three), protocol), over="arms")
        # Only the task of window a is everybody's: 0, 1 and 5 flips, failures 0, 1 and 1.
        assert (found["tasks"], found["excluded"], found["n"]) == (1, 2, 3)
        assert found["tau"] == pytest.approx(kendall_tau([0, 1, 5], [0, 1, 1]))
        assert found["reason"] == "1 document: no interval between documents"
        assert "without an interval: it shows nothing beyond these answers" in found["says"]
        nothing = [("x", "a", 0, True), ("y", "b", 1, False), ("z", "a", 2, True)]
        found = order(task_order_table(drift_of(protocol, nothing), protocol), over="arms")
        assert found["n"] == 0 and found["reason"].startswith("no pair")
        alike = [(arm, window, at, window == "a") for at, arm in enumerate("xyz") for window in "ab"]
        found = order(task_order_table(drift_of(protocol, alike), protocol), over="arms")
        assert found["reason"] == "every arm failed as often"

    def test_the_tasks_that_the_reference_passed_and_the_outliers(self, protocol):
        rows = [("x", "a", 0, True), ("x", "b", 2, False), ("x", "c", 9, False), ("x", "c", 1, True)]
        table = task_order_table(drift_of(protocol, rows), protocol)
        assert order(table)["n"] == 4 and order(table, among="reference passed")["n"] == 2
        assert order(table, outliers="without")["n"] == 2 and order(table, outliers="only")["n"] == 2
        assert " that the reference passed" in order(table, among="reference passed")["says"]

    def test_two_definitions_are_never_ranked_together(self, protocol):
        one = drift_of(protocol, [("x", "a", 0, True), ("x", "b", 1, False)], spec="kl.topk-tail@20")
        other = drift_of(protocol, [("y", "a", 0, True), ("y", "b", 1, False)], spec="kl.topk-tail@64")
        table = task_order_table(pa.concat_tables([one, other]), protocol)
        assert order(table, "mean_nats")["reason"].startswith("another definition in some arms: kl.topk-tail@20 and")
        assert order(table)["tau"] is not None

    def test_every_figure_stands_once_in_every_place(self, protocol):
        table = task_order_table(drift_of(protocol, [("x", "a", 0, True)]), protocol)
        assert table.num_rows == len(FIGURES) * 2 * 2 * 3 and all(table["says"].to_pylist())

    def test_resamples_without_an_order_are_counted(self, wide):
        rows = [("x", f"w{at}", at, at != 11) for at in range(12)]
        found = order(task_order_table(drift_of(wide, rows), wide))
        assert "of 400 resamples have no order and are left out" in found["reason"]
        assert f"Mind: {found['reason']}." in found["says"]


def test_a_sentence_never_claims_a_cause(wide):
    rows = [("x", f"w{at}", at, at < 6) for at in range(12)]
    for row in task_order_table(drift_of(wide, rows), wide).to_pylist():
        said = order_sentence(row, unit="document", figures=len(FIGURES))
        assert (
            said == row["says"]
            and said.endswith(".")
            and "because" not in said
            and "caus" not in said.replace("no cause", "")
        )
