"""Means by context."""

from __future__ import annotations

import pytest

from drift_runs.errors import ImportFileError
from drift_runs.importers import contexts
from drift_runs.schema import CONTEXTS
from tests.importers.files import changed, invented


def first(content: dict) -> dict:
    return content["per_context_all"][0]


def test_every_context_in_the_order_of_the_file():
    file = contexts.read(invented("contexts"))
    assert file.table.schema == CONTEXTS and file.cluster == "document" and file.top_k is None
    assert file.table.to_pylist()[1] == {
        "context": "1",
        "cluster": "d1",
        "group": "prose",
        "positions": 30,
        "mean_nats": 0.2,
        "median_nats": 0.1,
        "top1_agreement": 0.8,
    }
    assert [(window.name, window.document, window.group) for window in file.windows][3] == ("3", "d3", "code")
    assert file.facts["vocabulary"] == "100" and file.facts["suite tokens sha256"] == "45" * 32


def test_a_mean_a_little_below_zero_is_kept(tmp_path):
    def change(content):
        first(content)["mean_kld"] = -1e-6
        del content["token_mean_kld"]

    file = contexts.read(changed(tmp_path, "contexts", change))
    assert file.table["mean_nats"][0].as_py() == -1e-6
    assert any("below 0" in note and note.endswith(": 1") for note in file.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(per_context_all=[]), "no contexts"),
        (lambda c: first(c).update(index=1), "per_context_all[1] index 1: the index is given to two contexts"),
        (lambda c: first(c).update(source_cluster=""), "source_cluster is empty"),
        (lambda c: first(c).update(mean_kld=-0.1), "per_context_all[0].mean_kld: -0.1 does not fit"),
        (lambda c: first(c).update(mean_kld=1e308), "per_context_all[0].mean_kld: 1e+308 does not fit"),
        (lambda c: first(c).update(mean_kld="0.1"), "mean_kld: '0.1' does not fit"),
        (lambda c: first(c).update(mean_kld=10**400), "mean_kld: a very large number"),
        (lambda c: first(c).update(positions_scored=0), "positions_scored: 0 does not fit"),
        (lambda c: first(c).update(positions_scored=1.5), "positions_scored: 1.5 does not fit"),
        (lambda c: first(c).update(top1_agreement=1.1), "top1_agreement: 1.1 does not fit"),
        (lambda c: c["per_context_all"].pop(), "scored_positions is 100, and the contexts have 60"),
        (lambda c: c.update(token_mean_kld=0.21), "token_mean_kld is 0.21, and the contexts give 0.2"),
        (lambda c: c.update(top1_agreement=0.5), "top1_agreement is 0.5, and the contexts give 0.83"),
    ],
)
def test_what_cannot_be_trusted(tmp_path, change, words):
    with pytest.raises(ImportFileError) as caught:
        contexts.read(changed(tmp_path, "contexts", change))
    assert words in caught.value.line()
