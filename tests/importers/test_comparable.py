"""When two files may be set against each other."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from drift_runs.importers.comparable import differences_between, reasons_between
from drift_runs.importers.formats import load
from tests.importers.files import EXTENSIONS, changed, invented


@pytest.mark.parametrize("name", EXTENSIONS)
def test_a_pair_of_one_run_is_comparable_in_both_directions(name: str):
    a, b = (load(name).read(invented(name, side)) for side in "ab")
    assert reasons_between(a, b) == reasons_between(b, a) == ()
    assert reasons_between(a, a) == () and differences_between(a, a) == ()


def test_facts_that_may_differ_are_listed():
    a, b = (load("topk-rows").read(invented("topk-rows", side)) for side in "ab")
    assert differences_between(a, b) == ("pass: p1 and p2",)


def test_another_format():
    a, b = load("topk-rows").read(invented("topk-rows")), load("csv").read(invented("csv"))
    assert reasons_between(a, b) == ("another format (topk-rows and csv)",)


def cut(content):
    content["topk_requested"] = 2


def other_window(content):
    content["rows"][0]["id"] = "other"


def fewer_positions(content):
    content["rows"][0]["positions"].pop()
    content["rows"][0]["forced_continuation_ids"].pop()


def other_token(content):
    content["rows"][0]["forced_continuation_ids"][0] = 12
    content["rows"][0]["positions"][0]["forced_next_id"] = 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut, "another number of entries a row (K = 3 and 2)"),
        (lambda c: c.update(probe_set_sha256="cd" * 32), "another probe set sha256 (abababababab and cdcdcdcdcdcd)"),
        (lambda c: c.update(schema="invented-rows-2"), "another schema (invented-rows-1 and invented-rows-2)"),
        (other_window, "1 window only in the first file ('short-0')"),
        (lambda c: c["rows"][0].update(ids_sha256="cd" * 32), "1 window of other tokens, by their digest ('short-0')"),
        (lambda c: c["rows"][0].update(bucket="8"), "1 window in another group"),
        (fewer_positions, "another set of positions (1 only in the first file and 0 only in the second"),
        (other_token, "1 position with another actual token (position 16 of 'short-0': 10 and 12)"),
    ],
)
def test_rows_that_must_not_be_compared(tmp_path, change, words):
    topk = load("topk-rows")
    reasons = reasons_between(topk.read(invented("topk-rows")), topk.read(changed(tmp_path, "topk-rows", change)))
    assert any(words in reason for reason in reasons), reasons


def test_a_fact_that_one_side_does_not_state_is_no_reason(tmp_path):
    topk = load("topk-rows")
    a = topk.read(invented("topk-rows"))
    b = topk.read(changed(tmp_path, "topk-rows", lambda content: content.pop("probe_set_sha256")))
    assert reasons_between(a, b) == ()
    assert any(line.startswith("probe set sha256: abab") and "not said" in line for line in differences_between(a, b))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["reference_identity"].update(index_sha256="99" * 32), "another reference index sha256"),
        (lambda c: c.update(vocab_size=101), "another vocabulary (100 and 101)"),
        (lambda c: c["per_context_all"][0].update(source_cluster="d9"), "1 window of another document"),
        (
            lambda c: (c["per_context_all"][0].update(positions_scored=11), [c.pop(k) for k in _TOTALS]),
            "1 context with another number of positions ('0')",
        ),
    ],
)
def test_contexts_that_must_not_be_compared(tmp_path, change, words):
    contexts = load("contexts")
    reasons = reasons_between(contexts.read(invented("contexts")), contexts.read(changed(tmp_path, "contexts", change)))
    assert any(words in reason for reason in reasons), reasons


_TOTALS = ("scored_positions", "token_mean_kld", "top1_agreement")


def test_rollouts_need_the_same_prompts_and_length(tmp_path):
    rollouts = load("rollouts")
    a = rollouts.read(invented("rollouts"))
    b = rollouts.read(changed(tmp_path, "rollouts", lambda c: c["runs"][0][0].update(prompt="Four")))
    assert any("1 prompt only in the second file ('Four')" in reason for reason in reasons_between(a, b))
    c = rollouts.read(changed(tmp_path, "rollouts", lambda c: c.update(tokens=8)))
    assert "another tokens asked (4 and 8)" in reasons_between(a, c)


def test_another_convention_or_cluster_is_a_reason():
    a = load("csv").read(invented("csv"))
    assert any("counted otherwise" in reason for reason in reasons_between(a, replace(a, convention="by row")))
    assert any("unit of clusters" in reason for reason in reasons_between(a, replace(a, cluster="window")))


def test_files_without_a_row_have_nothing_against_each_other():
    a = load("csv").read(invented("csv"))
    empty = replace(a, table=a.table.schema.empty_table(), windows=())
    assert reasons_between(empty, empty) == ()
    assert isinstance(empty.table, pa.Table) and reasons_between(a, empty) != ()
