"""The protocol that an import gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs import schema
from drift_runs.errors import ConfigError
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.panel import ImportedArm, PanelFacts, protocol_content, safe_name, safe_names
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.model import Protocol

FACTS = PanelFacts(name="mine", title="Mine", question="Does it differ?", source="a test", seed=3)
ARMS = [
    ImportedArm(name="a", role="reference"),
    ImportedArm(name="b", role="reference"),
    ImportedArm(name="boot", role="floor", floor_kind="launch"),
    ImportedArm(name="c", role="candidate", facets={"weights": "fp8", "kv": "int8", "title": "Eight bits"}),
    ImportedArm(name="d", role="candidate", against="b"),
]


def imported(*windows: ImportedWindow, notes: tuple[str, ...] = ()) -> ImportedFile:
    return ImportedFile(
        format="csv",
        kind="comparison",
        path=Path("a.csv"),
        sha256="00",
        table=schema.COMPARISON.empty_table(),
        top_k=None,
        convention="position t is the history's length",
        windows=windows,
        notes=notes,
    )


def test_an_imported_protocol_is_a_protocol():
    window = ImportedWindow(name="w/1", document="doc one", group="512", role="generated", scored=((512, 520),))
    content = protocol_content(FACTS, ARMS, [imported(window, notes=("Two rows were left out.",))])
    protocol = Protocol.model_validate_json(canonical_json(content), strict=True)
    assert protocol.imported and protocol.reference.name == "a" and protocol.dictionary is None
    assert [arm.name for arm in protocol.arms] == ["a", "b", "c", "d"]
    assert protocol.arms[2].weights == "fp8" and protocol.arms[2].kv == "int8" and protocol.arms[3].against == "b"
    (floor,) = protocol.floors
    assert (floor.name, floor.arm, floor.kind) == ("boot", "a", "launch")
    (found,) = protocol.windows
    assert found.group == "512" and found.scored == ((512, 520),) and found.title == "w/1"
    assert "Two rows were left out." in protocol.notes and any("a test" in note for note in protocol.notes)
    assert protocol.seeds.bootstrap == 3


def test_names_that_cannot_be_file_names_stay_apart():
    assert safe_name("b512-00") == "b512-00"
    names = [safe_name(name) for name in ("a/b", "a b", "a:b", "../a", "", "ä", "x" * 200)]
    assert len(set(names)) == len(names)
    for name in names:
        assert "/" not in name and " " not in name and not name.startswith(".") and 0 < len(name) <= 64


def test_names_of_one_file_differ_in_more_than_case():
    digested = safe_name("a b")
    names = ["w", "W", "a b", digested, "other", "x" * 100 + "1", "x" * 100 + "2"]
    found = safe_names(names)
    assert found["other"] == "other" and list(found) == names
    assert len({name.casefold() for name in found.values()}) == len(names)
    assert safe_names(reversed(names)) == found, "the order of a file's rows names no window"
    for name in found.values():
        assert safe_name(name) == name


def test_an_outlier_must_be_a_window():
    facts = PanelFacts(
        name="m", title="m", question="q", source="s", seed=0, outliers=(("nine", "it repeats one table only"),)
    )
    with pytest.raises(ConfigError, match=r"--outlier: no window 'nine'"):
        protocol_content(facts, ARMS, [imported(ImportedWindow(name="w", document="w"))])


def test_an_outlier_is_named_as_in_the_file_or_as_in_the_store():
    reason = "it repeats one table only"

    def outliers(*given: tuple[str, str]) -> list[dict[str, str]]:
        facts = PanelFacts(name="m", title="m", question="q", source="s", seed=0, outliers=given)
        windows = [ImportedWindow(name=name, document=name) for name in ("a=b", "c")]
        return protocol_content(facts, ARMS, [imported(*windows)])["outliers"]

    stored = safe_name("a=b")
    assert outliers(("a=b", reason)) == outliers((stored, reason)) == [{"window": stored, "reason": reason}]
    assert outliers(("a=b", reason), (stored, reason)) == outliers(("a=b", reason))
    with pytest.raises(ConfigError, match="is given twice"):
        outliers(("c", reason), ("c", "because of another reason"))


def test_means_by_context_have_no_windows():
    protocol = Protocol.model_validate_json(canonical_json(protocol_content(FACTS, ARMS, [imported()])), strict=True)
    assert protocol.windows == () and protocol.panels == ()
