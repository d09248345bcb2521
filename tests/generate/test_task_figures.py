"""Passes of tasks: counts, what is lost and gained, the two tests, and intervals over documents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.generate.task_figures import OWN, PAIRED, arms_task_figures, task_figures, task_sentence
from drift_runs.measure.figures import figures_table
from drift_runs.protocol.model import Protocol
from drift_runs.schema import FIGURES, TASKS

DOCUMENTS = 6


def protocol_of(documents: int = DOCUMENTS, **settings: object) -> Protocol:
    """Window ``wN`` of document ``dN`` in panel A or B, by turns, with one range of kind cli or sql; w0 an outlier."""
    windows = [
        {"name": f"w{at}", "panel": "AB"[at % 2], "document": f"d{at}", "title": "-", "scored": [(1, 9)]}
        for at in range(documents)
    ]
    return Protocol.model_validate(
        {
            "schema": "drift.protocol/1",
            "name": "tasks",
            "version": 1,
            "title": "Tasks",
            "question": "Who passes?",
            "seeds": {"bootstrap": 3},
            "intervals": {"resamples": 400},
            "panels": [{"name": name, "title": name, "role": "prompt"} for name in "AB"],
            "windows": windows,
            "ranges": [
                {"name": f"r{at}", "window": f"w{at}", "kind": ("cli", "sql")[at % 2], "from": 1, "to": 9}
                for at in range(documents)
            ],
            "outliers": [{"window": "w0", "reason": "declared before any result"}],
            "arms": [
                {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"},
                {"name": "q4", "role": "candidate", "derivative": "stock", "weights": "q4_0"},
            ],
            **settings,
        }
    )


def tasks_of(arm: str, passes: list[list[bool | None]]) -> pa.Table:
    """``passes``: of each document, whether its tasks were passed."""
    rows = [
        {
            "arm": arm,
            "task": f"t{at}-{number}",
            "window": f"w{at}",
            "document": f"d{at}",
            "panel": "AB"[at % 2],
            "range": f"r{at}",
            "kind": ("cli", "sql")[at % 2],
            "outlier": at == 0,
            "check": "calls",
            "passed": passed,
            "reason": "" if passed else "why",
            "ended": "turn",
            "tokens": 3,
            "text": "-",
        }
        for at, of_document in enumerate(passes)
        for number, passed in enumerate(of_document)
    ]
    return pa.Table.from_pylist(rows, schema=TASKS)


def values(table: pa.Table, arm: str = "q4", scope: str = "all", outliers: str = "with") -> dict[str, dict]:
    return {
        row["statistic"]: row
        for row in table.to_pylist()
        if (row["arm"], row["scope"], row["outliers"]) == (arm, scope, outliers)
    }


REFERENCE = [[True, True]] * 5 + [[True, False]]
ARM = [[True, False]] * 5 + [[True, None]]


@pytest.fixture
def table() -> pa.Table:
    protocol = protocol_of()
    found = arms_task_figures({"f16": tasks_of("f16", REFERENCE), "q4": tasks_of("q4", ARM)}, protocol)
    assert found.schema.equals(FIGURES, check_metadata=True)
    return found


def test_what_an_arm_passed_and_what_it_lost(table):
    found = values(table)
    assert tuple(found) == (*OWN, *PAIRED) and {row["spec"] for row in found.values()} == {"task.passed"}
    assert [found[name]["value"] for name in ("count", "unknown", "reference_count", "lost", "gained")] == [
        6,
        1,
        11,
        5,
        0,
    ]
    assert found["rate"]["value"] == 6 / 11 and (found["rate"]["n"], found["rate"]["excluded"]) == (11, 1)
    # Over the eleven tasks that are decided for both.
    assert found["difference"]["value"] == pytest.approx(-5 / 11)
    # Five documents each lose one task, one none: of the 2 ** 5 signs that matter, all alike in two.
    assert found["p_sign_flip"]["value"] == 2 / 2**5
    assert found["p_sign_flip"]["reason"] == "exact, all signs of 6 documents"
    assert found["p_mcnemar"]["value"] == pytest.approx(2 * 0.5**5)
    assert found["p_mcnemar"]["reason"] == "exact, tasks independent"


def test_the_reference_has_no_pair_of_its_own(table):
    found = values(table, "f16")
    assert tuple(found) == OWN and found["count"]["value"] == 11 and found["rate"]["value"] == 11 / 12


def test_panels_kinds_and_outliers(table):
    assert values(table, scope="A")["count"]["value"] == values(table, scope="cli")["count"]["value"] == 3
    assert values(table, scope="B")["lost"]["value"] == 2
    assert values(table, outliers="without")["lost"]["value"] == 4
    only = values(table, outliers="only")
    assert (only["count"]["value"], only["lost"]["value"], only["p_sign_flip"]["value"]) == (1, 1, None)
    assert only["p_sign_flip"]["reason"] == "1 document: no interval between documents"
    kinds = {(row["scope_kind"], row["scope"]) for row in table.to_pylist()}
    assert kinds == {("all", "all"), ("panel", "A"), ("panel", "B"), ("kind", "cli"), ("kind", "sql")}


def test_the_intervals_are_those_of_whole_documents(table):
    found = values(table)
    drawn = np.random.default_rng(3).integers(0, 6, (400, 6))
    passed, known = np.array([1, 1, 1, 1, 1, 1]), np.array([2, 2, 2, 2, 2, 1])
    rates = passed[drawn].sum(axis=1) / known[drawn].sum(axis=1)
    low, high = np.quantile(rates, [0.025, 0.975])
    assert (found["rate"]["low"], found["rate"]["high"]) == (pytest.approx(low), pytest.approx(high))
    differences = np.array([-1, -1, -1, -1, -1, 0])
    low, high = np.quantile(differences[drawn].sum(axis=1) / known[drawn].sum(axis=1), [0.025, 0.975])
    assert (found["difference"]["low"], found["difference"]["high"]) == (pytest.approx(low), pytest.approx(high))
    assert found["rate"]["interval"] == "percentile bootstrap, 95 %, 6 documents"
    assert found["rate"]["reason"] == "6 documents: such intervals cover less than they claim"
    assert found["lost"]["low"] is None and found["lost"]["interval"] == ""
    assert found["difference"]["t_low"] is None


def test_two_arms_that_passed_the_same_have_nothing_to_test():
    passes = [[True], [False], [True]]
    protocol = protocol_of()
    table = arms_task_figures({"f16": tasks_of("f16", passes), "q4": tasks_of("q4", passes)}, protocol)
    found = values(table)
    assert (found["lost"]["value"], found["gained"]["value"], found["difference"]["value"]) == (0, 0, 0)
    for name in ("p_sign_flip", "p_mcnemar"):
        assert found[name]["value"] is None and found[name]["state"] == "withheld"
        assert found[name]["reason"] == "both passed the same tasks: there is nothing to test"
    assert found["difference"]["low"] is None and "resamples give no interval" in found["difference"]["reason"]
    assert task_sentence(table, arm="q4") == (
        "q4 passed 2 of 3 tasks and the reference 2: 0 lost, 0 gained. There is nothing to test."
    )


def test_all_passed_has_a_rate_and_no_interval():
    found = values(figures_table(task_figures(tasks_of("q4", [[True], [True]]), protocol_of())))
    assert found["rate"]["value"] == 1 and found["rate"]["low"] is None
    assert "resamples give no interval" in found["rate"]["reason"]


def test_nothing_decided_is_withheld_and_counted():
    tables = {"f16": tasks_of("f16", [[True], [True]]), "q4": tasks_of("q4", [[None], [None]])}
    table = arms_task_figures(tables, protocol_of())
    found = values(table)
    assert found["rate"]["value"] is found["count"]["value"] is found["lost"]["value"] is None
    assert found["rate"]["reason"] == "no task decided, 2 unknown" and found["unknown"]["value"] == 2
    assert {row["reason"] for name, row in found.items() if name in PAIRED} == {"no task decided on both sides"}
    assert task_sentence(table, arm="q4") == "q4: no task decided on both sides."


def test_a_table_without_rows_and_a_task_that_stands_twice():
    assert task_figures(TASKS.empty_table(), protocol_of()) == []
    assert arms_task_figures({}, protocol_of()).equals(FIGURES.empty_table())
    twice = pa.concat_tables([tasks_of("q4", [[True]])] * 2)
    with pytest.raises(NotComparable, match="task t0-0 stands twice"):
        task_figures(twice, protocol_of())


def test_without_the_reference_nothing_is_said_of_pairs():
    table = arms_task_figures({"q4": tasks_of("q4", ARM)}, protocol_of())
    assert set(table["statistic"].to_pylist()) == set(OWN) and task_sentence(table, arm="q4") == ""


def test_the_order_of_rows_counts_for_nothing():
    protocol = protocol_of()
    reference = tasks_of("f16", REFERENCE)
    reversed_rows = reference.take(list(range(reference.num_rows - 1, -1, -1)))
    one = task_figures(tasks_of("q4", ARM), protocol, reference=reference)
    assert one == task_figures(tasks_of("q4", ARM), protocol, reference=reversed_rows)


def test_sentences(table):
    assert task_sentence(table, arm="q4") == (
        "q4 passed 6 of 11 tasks and the reference 11: 5 lost, 0 gained; 1 not decided for both. Inconclusive "
        "(p = 0.0625, exact, all signs of 6 documents)."
    )
    many = protocol_of(8)
    figures = arms_task_figures({"f16": tasks_of("f16", [[True]] * 8), "q4": tasks_of("q4", [[False]] * 8)}, many)
    assert task_sentence(figures, arm="q4").endswith(
        "More than the signs of whole texts give by chance (p = 0.00781, exact, all signs of 8 documents)."
    )
    assert task_sentence(figures, arm="another") == ""


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.sampled_from([True, False, None]), max_size=3), min_size=2, max_size=6), st.data())
def test_lost_less_gained_is_the_difference_of_counts(reference, data):
    passes = [[data.draw(st.sampled_from([True, False, None])) for _ in row] for row in reference]
    found = values(arms_task_figures({"f16": tasks_of("f16", reference), "q4": tasks_of("q4", passes)}, protocol_of()))
    if not found or found["lost"]["value"] is None:
        return
    both = [
        (one, other)
        for row, others in zip(reference, passes, strict=True)
        for one, other in zip(row, others, strict=True)
        if one is not None and other is not None
    ]
    assert found["lost"]["n"] == len(both)
    assert found["reference_count"]["value"] == sum(one for one, _ in both)
    assert found["gained"]["value"] - found["lost"]["value"] == sum(other - one for one, other in both)
    for name in ("p_sign_flip", "p_mcnemar"):
        assert found[name]["value"] is None or 0 < found[name]["value"] <= 1
