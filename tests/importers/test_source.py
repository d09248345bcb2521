"""Damaged and hostile files: one line that names the file, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.errors import ConfigError, ImportFileError, one_line
from drift_runs.importers.formats import FORMATS, load
from drift_runs.importers.source import json_value, parse_json, read_source
from drift_runs.importers.topk_rows import Document
from tests.importers.files import EXTENSIONS, invented

each_format = pytest.mark.parametrize("name", EXTENSIONS)
each_json = pytest.mark.parametrize("name", [name for name, extension in EXTENSIONS.items() if extension == "json"])


def refused(name: str, path: Path) -> str:
    with pytest.raises(ImportFileError) as caught:
        load(name).read(path)
    line = caught.value.line()
    assert caught.value.exit_code == 2
    assert "\n" not in line and line.startswith(one_line(str(path)))
    return line


@each_format
def test_a_module_has_what_its_format_promises(name: str):
    module = load(name)
    read = module.read(invented(name))
    assert read.format == module.FORMAT == name
    assert read.kind == module.KIND
    assert read.convention and read.table.num_rows > 0 and len(read.sha256) == 64
    assert set(module.EQUAL_FACTS) & set(read.facts)


def test_every_format_is_registered_under_its_own_module():
    assert len(set(FORMATS.values())) == len(FORMATS)
    with pytest.raises(ConfigError, match="did you mean 'topk-rows'"):
        load("topk-row")


@each_format
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "binary"])
def test_what_is_no_text_file(name: str, kind: str, tmp_path: Path):
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else b"\xff\xfe\x00\x01" * 100)
    words = {"missing": "no such file", "folder": "not a regular file", "empty": "is empty", "binary": ""}
    assert words[kind] in refused(name, path)


@each_format
def test_a_path_that_the_system_refuses(name: str):
    assert "cannot be read" in refused(name, Path("x" * 5000))
    assert "\\x00" in refused(name, Path("a\0b"))


@each_json
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short(name: str, part: float, tmp_path: Path):
    whole = invented(name).read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: int(len(whole) * part)])
    assert "not valid JSON" in refused(name, path)


@each_json
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "an array does not fit; expected an object"),
        ("null", "an object"),
        ("1e999", "an object"),
        ("{}", "missing key"),
        ("[" * 100_000, "nested too deeply"),
        ('{"rows": 1' + "0" * 5000 + "}", "not valid JSON"),
        ('{"seed": NaN}', "NaN is no number of JSON"),
        ('{"seed": -Infinity}', "-Infinity is no number of JSON"),
        ('{"seed": 1, "seed": 2}', "'seed' is given twice"),
    ],
)
def test_json_that_is_not_the_format(name: str, content: str, words: str, tmp_path: Path):
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")
    assert words in refused(name, path)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path):
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf" + invented("topk-rows").read_bytes())
    assert parse_json(read_source(path), Document).topk_requested == 3


def test_a_file_over_the_limit(tmp_path: Path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * 11)
    assert read_source(path, limit_bytes=11).data == b"x" * 11
    with pytest.raises(ImportFileError, match="too large; expected at most 10 bytes"):
        read_source(path, limit_bytes=10)


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\udfff": 1}', '[["\\uD83D x \\uDE00"]]'])
def test_half_of_a_character_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ImportFileError, match="holds half of a character"):
        parse_json(read_source(path), Document)


def test_a_character_of_two_halves_is_one(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('"\\ud83d\\ude00"')
    source = read_source(path)
    assert json_value(source, source.data) == "\U0001f600"
