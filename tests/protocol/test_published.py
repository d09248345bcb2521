"""Published results: every file loads, every number of the sources is there, and none of them is a figure of ours."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from drift_runs.errors import ProtocolError
from drift_runs.measure.specs import BY_BASE, base_of
from drift_runs.protocol.load import find_protocol
from drift_runs.protocol.published import NO_ROWS, Cell, PublishedSource, load_published, read_published

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "protocols" / "published"
SOURCES = {source.name: source for source in load_published()}

SMALL = """
schema = "drift.published/1"
name = "small"
title = "Small"
source = "nobody"
date = "not given"
subject = "nothing"
[[tables]]
name = "one"
title = "One"
compared = "a against b"
recomputable = "no rows"
[[tables.columns]]
name = "kl"
title = "KL"
unit = "nats"
spec = "not published"
definition = "unknown"
[[tables.rows]]
name = "a"
title = "a"
cells.kl = { value = 0.5 }
"""


def cell(source: str, table: str, row: str, column: str) -> Cell:
    found = next(item for item in SOURCES[source].tables if item.name == table)
    return next(item for item in found.rows if item.name == row).cells[column]


def cells(source: PublishedSource) -> list[Cell]:
    return [cell for table in source.tables for row in table.rows for cell in row.cells.values()]


def test_every_file_is_loaded():
    assert sorted(SOURCES) == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert {"level1techs-qwen3", "unsloth-divergence-300", "cuteafd-glm53", "qwen38-27b-exl3"} <= set(SOURCES)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_number_is_finite_and_every_table_used(name: str):
    source = SOURCES[name]
    assert source.tables
    for found in cells(source):
        numbers = (found.value, found.least, found.most, found.low, found.high)
        assert all(number is None or math.isfinite(number) for number in numbers)
        if found.value is not None and found.low is not None:
            assert found.low <= found.value <= found.high
        if found.of is not None:
            assert found.value is not None and 0 <= found.value <= found.of
    for table in source.tables:
        assert table.rows
        used = {column for row in table.rows for column in row.cells}
        assert used == {column.name for column in table.columns}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_column_follows_one_of_our_specs_or_says_that_nobody_knows(name: str):
    for table in SOURCES[name].tables:
        for column in table.columns:
            if column.defined:
                base = base_of(column.spec)
                assert base == "flip" or base in BY_BASE
                assert BY_BASE[base].needs_k == ("@" in column.spec) if base in BY_BASE else "@" not in column.spec


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("level1techs-qwen3", "derivatives", "heretic-ara", "flips"), 1.337),
        (("level1techs-qwen3", "derivatives", "heretic-ara", "worst-p95"), 0.03661),
        (("level1techs-qwen3", "derivatives", "huihui", "flips"), 1.406),
        (("level1techs-qwen3", "derivatives", "huihui", "worst-p95"), 0.04477),
        (("level1techs-qwen3", "derivatives", "blackfrost", "flips"), 4.978),
        (("level1techs-qwen3", "derivatives", "blackfrost", "worst-p95"), 0.31235),
        (("level1techs-qwen3", "derivatives", "aeon", "flips"), 5.831),
        (("level1techs-qwen3", "derivatives", "aeon", "worst-p95"), 0.68507),
        (("level1techs-qwen3", "weights", "nvfp4", "flips-88k"), 50),
        (("level1techs-qwen3", "hardware-panel", "panel", "positions"), 9060),
        (("unsloth-divergence-300", "thresholds", "ud-q2-k-xl", "divergence-300"), 25),
        (("unsloth-divergence-300", "thresholds", "ud-iq2-s", "divergence-300"), 10),
        (("cuteafd-glm53", "k325-panels", "vllm-fork", "pa-mean"), 0.0458),
        (("cuteafd-glm53", "k325-panels", "cuteafd", "pa-mean"), 0.0476),
        (("cuteafd-glm53", "k325-panels", "cuteafd", "pb-p99"), 0.620),
        (("cuteafd-glm53", "k4-q2", "launch-1", "difference"), 0.0012),
        (("cuteafd-glm53", "k4-q2", "launch-2", "difference"), -0.0008),
        (("cuteafd-glm53", "k4-outlier-window", "cuteafd-2", "kl-window"), 0.168),
        (("qwen38-27b-exl3", "kv-98k", "int4", "truncated-kl"), 0.005948),
        (("qwen38-27b-exl3", "kv-98k", "fp8-token-head", "agreement"), 0.9884),
        (("qwen38-27b-exl3", "full-kl-10m", "k4", "mean"), 0.010604),
        (("qwen38-27b-exl3", "full-kl-10m", "nvfp4", "agreement"), 92.90),
        (("qwen38-27b-exl3", "tails-1m", "k4", "max"), 7.565),
        (("qwen38-27b-exl3", "tails-1m", "hydrated", "p99.9"), 0.1319),
    ],
)
def test_what_was_published_is_there(where: tuple[str, str, str, str], value: float):
    assert cell(*where).value == value


def test_counts_come_with_what_they_are_counted_of():
    of = {
        row: (found.value, found.of)
        for row in ("heretic-ara", "huihui", "blackfrost", "aeon")
        if (found := cell("level1techs-qwen3", "derivatives", row, "invalid"))
    }
    assert of == {"heretic-ara": (0, 58), "huihui": (0, 61), "blackfrost": (1, 216), "aeon": (36, 253)}
    # Every flip was explored, so the roots follow from the rate.
    for row, (_, roots) in of.items():
        assert roots == round(4339 * cell("level1techs-qwen3", "derivatives", row, "flips").value / 100)


def test_the_literal_failures_are_there():
    failures = {failure.name: failure for failure in SOURCES["level1techs-qwen3"].failures}
    port = failures["postgres-port"]
    assert (port.expected, port.got, port.reference_p, port.candidate_p) == ("5432", "543ql", 0.9991, 0.9158)
    assert (failures["page-size"].expected, failures["page-size"].got) == ("page_size=100", "size=100")
    assert failures["tenant"].reference_p == 0.99996


def test_only_what_has_public_rows_says_that_it_can_be_computed_again():
    found = {
        (source.name, table.name, row.name)
        for source in SOURCES.values()
        for table in source.tables
        for row in table.rows
        if table.recomputable_row(row) != NO_ROWS
    }
    assert {source for source, _, _ in found} == {"qwen38-27b-exl3"}
    assert {row for _, table, row in found if table == "full-kl-10m"} == {"hydrated", "fp8", "nvfp4"}


def test_a_published_file_is_no_protocol():
    with pytest.raises(ProtocolError) as caught:
        find_protocol("level1techs-qwen3")
    assert "level1techs" not in caught.value.expected


def test_a_folder_without_files_holds_nothing(tmp_path: Path):
    assert load_published(tmp_path) == ()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("value = 0.5", "value = nan", "not a finite number"),
        ("value = 0.5", "low = 0.1, value = 0.5", "low and high belong together"),
        ("value = 0.5", "value = 0.5, low = 0.9, high = 0.1, interval = '95 %'", "wrong order"),
        ("value = 0.5", "value = 0.5, low = 0.1, high = 0.9", "a word on its kind"),
        ("value = 0.5", "note = 'none'", "a cell needs"),
        ("cells.kl", "cells.other", "no column of table 'one'"),
        ('spec = "not published"', 'spec = "KL 20"', "a spec id"),
        ('recomputable = "no rows"', 'recomputable = "yes"', "from rows in"),
        ('title = "KL"', 'title = "KL"\nrank = 1', "unknown key 'rank'"),
        ('name = "small"', 'name = "other"', "not the file's name"),
        ("[[tables.rows]]", "[[tables.rows]]\nname = 'a'\ntitle = 'again'\ncells = {}\n[[tables.rows]]", "named twice"),
        ("drift.published/1", "drift.published/2", "schema"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, named: str):
    path = tmp_path / "small.toml"
    assert old in SMALL
    path.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ProtocolError) as caught:
        read_published(path)
    message = str(caught.value)
    assert named in message and message.startswith("small.toml") and "\n" not in message


def test_the_small_file_is_sound(tmp_path: Path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    assert read_published(path).tables[0].rows[0].cells["kl"].value == 0.5
