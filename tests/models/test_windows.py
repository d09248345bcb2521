"""The operations windows: grown where the reference is right, and the same text in source, stream and conversation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import windows
from numpy.typing import NDArray
from ops_windows import grow as growing
from ops_windows.grow import Window, grow
from ops_windows.sources import all_tools, facts, form_of, write
from ops_windows.wanted import WANTED, Wanted

from drift_runs.authoring.source import render
from drift_runs.engines.base import ScoredBlock
from drift_runs.errors import Inconclusive
from drift_runs.generate.loops import loop_report
from drift_runs.generate.tools import Malformed, NoCall, WellFormed, misfit, parse_calls

_TOKEN = re.compile(r"<\|im_start\|>|<\|im_end\|>|\d| ?[A-Za-z]+| ?(?:(?!<\|im_)[^A-Za-z\d\s])+|\s")
"""About as long as the tokens of a real tokenizer, and a digit alone as there."""


class Never:
    """Stands in for the engine: it always writes the expected token, but never one of ``tokens``."""

    model_file = Path("never")

    def __init__(self, *tokens: str) -> None:
        self._ids: dict[str, int] = {"?": 0}
        self._never = {self._id(token) for token in tokens}
        self._history: list[int] = []
        self.read_again: list[list[int]] = []

    def _id(self, token: str) -> int:
        return self._ids.setdefault(token, len(self._ids))

    @property
    def table(self) -> list[bytes]:
        return [token.encode() for token in self._ids]

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return [self._id(token) for token in _TOKEN.findall(text)]

    def reset(self) -> None:
        self._history = []

    def rewind(self, count: int) -> None:
        assert 1 <= count <= len(self._history)
        self._history = self._history[:count]

    def extend(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        self._history += tokens
        return self._rows([tokens[index + 1] for index in wanted])

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        self.read_again.append(list(tokens))
        self._history = list(tokens[: positions[-1]])
        yield ScoredBlock(np.asarray(positions, dtype=np.int32), self._rows([tokens[at] for at in positions]))

    def _rows(self, right: Sequence[int]) -> NDArray[np.float32]:
        rows = np.zeros((len(right), len(self._ids)), dtype=np.float32)
        rows[np.arange(len(right)), [0 if token in self._never else token for token in right]] = 9
        return rows


def made(wanted: Wanted, *never: str, seed: int = 5, most_answers: int = 2000) -> Window:
    engine = Never(*never)
    # The table is read when the window is done: until then the stand-in learns its words.
    window = grow(engine, wanted, seed, WANTED.index(wanted), Table(engine), most_answers=most_answers)
    assert engine.read_again[-1] == list(window.tokens)
    return window


class Table:
    def __init__(self, engine: Never) -> None:
        self._engine = engine

    def __getitem__(self, token: int) -> bytes:
        return self._engine.table[token]


@pytest.fixture(scope="module")
def all_windows() -> dict[str, Window]:
    return {wanted.name: made(wanted, "7") for wanted in WANTED}


def by_name(name: str) -> Wanted:
    return next(wanted for wanted in WANTED if wanted.name == name)


def test_every_window_holds_what_the_reference_passes_and_room_for_a_tail(all_windows: dict[str, Window]) -> None:
    for name, window in all_windows.items():
        answers = [turn.text for turn in window.turns if turn.role == "assistant"]
        assert not any("7" in answer for answer in answers), name
        assert len(answers) == len(window.answers)
        assert growing.LEAST_SCORED <= window.scored <= growing.MOST_SCORED, name
        assert len(window.tokens) <= 700, name  # every arm reads all of it
        assert len(window.p1) == len(window.literal) == window.scored
        assert not loop_report([t for start, end in window.answers for t in window.tokens[start:end]]).is_loop, name
    counts = [window.counts for window in all_windows.values()]
    assert all(count.passed >= len(window.answers) for count, window in zip(counts, all_windows.values(), strict=True))
    assert sum(count.drawn - count.passed for count in counts) > 20  # a reference without a 7 misses often


def test_kinds_and_splits_are_those_that_are_wanted(all_windows: dict[str, Window]) -> None:
    assert sorted(window.wanted.kind for window in all_windows.values()) == sorted(
        [*["tool-call"] * 2, *["multi-tool"] * 2, "recovery", "json", *["literal-copy"] * 2, "sql", "cli", "cli"]
    )
    assert [wanted.name for wanted in WANTED if wanted.split == "templates"] == ["pt-calls-new"]
    assert len({wanted.name for wanted in WANTED}) == len({wanted.title for wanted in WANTED}) == len(WANTED)


def test_calls_are_what_their_kind_says_and_fit_their_tools(all_windows: dict[str, Window]) -> None:
    for window in all_windows.values():
        answers = [turn.text for turn in window.turns if turn.role == "assistant"]
        if not window.tools:
            assert all(isinstance(parse_calls(answer), NoCall) for answer in answers)
            continue
        tools = all_tools(window)
        parsed = [parse_calls(answer) for answer in answers]
        assert not any(isinstance(one, Malformed) for one in parsed)
        calls = [one.calls for one in parsed if isinstance(one, WellFormed)]
        assert all(misfit(call, tools) == "" for several in calls for call in several)
        several = {len(one) for one in calls}
        assert several <= {2, 3} if window.wanted.kind == "multi-tool" else several == {1}


def test_the_same_seed_gives_the_same_window_and_another_seed_another() -> None:
    wanted = by_name("pt-recovery")
    one, two = made(wanted, "7"), made(wanted, "7")
    assert (one.turns, one.tokens) == (two.turns, two.tokens)
    assert made(wanted, "7", seed=6).turns != one.turns


def test_a_miss_leaves_the_conversation_as_it_was() -> None:
    engine = Never("7")
    wanted = by_name("pt-copy-lists")
    window = grow(engine, wanted, 5, WANTED.index(wanted), Table(engine), most_answers=2000)
    assert window.counts.drawn > window.counts.passed
    users = [turn.text for turn in window.turns if turn.role == "user"]
    assert len(users) == len(window.answers)
    text = b"".join(engine.table[token] for token in window.tokens).decode()
    assert all(f"<|im_start|>user\n{user}<|im_end|>" in text for user in users)


def test_a_reference_that_is_never_right_ends_with_its_counts() -> None:
    with pytest.raises(Inconclusive, match="pt-sql: of 30 answers the reference passes 0"):
        made(by_name("pt-sql"), "<|im_end|>", most_answers=30)


def test_a_source_gives_the_conversation_back(tmp_path: Path, all_windows: dict[str, Window]) -> None:
    names: set[str] = set()
    for name, window in all_windows.items():
        write(tmp_path, window)
        rendered = render(tmp_path / f"{name}.txt")
        data = rendered.text.encode()
        answers = [turn.text for turn in window.turns if turn.role == "assistant"]
        found = [data[mark.start : mark.end].decode() for mark in rendered.answers]
        assert found == [f"{answer}<|im_end|>" for answer in answers]
        assert [mark.kind for mark in rendered.answers] == [form_of(window, answer) for answer in answers]
        (mark,) = rendered.marks
        assert (mark.kind, mark.start, mark.end) == (
            window.wanted.kind,
            rendered.answers[0].start,
            rendered.answers[-1].end,
        )
        assert list(rendered.tools) == all_tools(window)
        assert not names & {one.name for one in rendered.answers}
        names |= {one.name for one in rendered.answers}


def test_what_an_error_renames_is_among_the_schemas() -> None:
    window = made(by_name("pt-recovery"), "7")
    offered = {tool["function"]["name"] for tool in window.tools}
    called = {
        call.name
        for turn in window.turns
        if turn.role == "assistant" and isinstance(parsed := parse_calls(turn.text), WellFormed)
        for call in parsed.calls
    }
    assert called <= {tool["function"]["name"] for tool in all_tools(window)}
    assert offered <= {tool["function"]["name"] for tool in all_tools(window)}


def test_the_facts_count_what_is_there(all_windows: dict[str, Window]) -> None:
    window = all_windows["pt-copy-lists"]
    said = facts(window)
    assert said["scored_tokens"] == sum(end - start for start, end in window.answers)
    assert said["literal_tokens"] == sum(window.literal) > 0
    assert 0 < said["literal_p1_mean"] <= 1


@pytest.fixture
def kept(tmp_path: Path) -> windows.Kept:
    for name in ("adapter", "reference"):
        (tmp_path / name).write_text(name)
    return read_kept(tmp_path)


def read_kept(folder: Path, seed: int = 5) -> windows.Kept:
    return windows.Kept.of(folder / "drawn.json", seed=seed, adapter=folder / "adapter", reference=folder / "reference")


def test_what_was_drawn_is_kept_and_gone_on_with(
    tmp_path: Path, kept: windows.Kept, all_windows: dict[str, Window]
) -> None:
    for name in reversed(all_windows):
        kept.add(all_windows[name])
    again = read_kept(tmp_path)
    assert again.windows == kept.windows
    assert list(again.windows) == [wanted.name for wanted in WANTED]
    summary = json.loads((tmp_path / "drawn.json").read_text())["all"]
    assert summary == kept.all
    for key, counted in (("answers_passed", "passed"), ("answers_drawn", "drawn")):
        assert summary[key] == sum(getattr(one.counts, counted) for one in all_windows.values())
    p1 = [p1 for one in all_windows.values() for p1, mark in zip(one.p1, one.literal, strict=True) if mark]
    assert summary["literal_p1_mean"] == pytest.approx(np.mean(p1), abs=1e-5)
    assert read_kept(tmp_path, seed=6).windows == {}
    (tmp_path / "adapter").write_text("another")
    assert read_kept(tmp_path).windows == {}


def test_the_note_of_a_protocol_gets_the_counts(kept: windows.Kept, all_windows: dict[str, Window]) -> None:
    for name in ("pt-sql", "pt-calls", "pt-calls-new"):
        kept.add(all_windows[name])
    sql, *calls = (all_windows[name].counts for name in ("pt-sql", "pt-calls", "pt-calls-new"))
    passed, drawn = sum(one.passed for one in calls), sum(one.drawn for one in calls)
    counts = (
        f"{passed + sql.passed} of {drawn + sql.drawn} (tool-call {passed} of {drawn}, sql {sql.passed} of {sql.drawn})"
    )
    text = "a\nof those the reference passed 0 of 0, and\n"
    noted = windows.with_note(text, kept)
    assert noted == f"a\nof those the reference passed {counts}, and\n"
    assert windows.with_note(noted, kept) == noted
    with pytest.raises(SystemExit, match="0 notes"):
        windows.with_note("nothing", kept)


def test_a_merge_is_made_again_when_its_adapter_is_newer(tmp_path: Path) -> None:
    model, adapter, merged = (tmp_path / name for name in ("model", "adapter", "merged"))
    for at, path in enumerate((model, adapter)):
        path.write_text(path.name)
        os.utime(path, (at, at))
    assert windows.is_stale(merged, model, adapter)
    merged.write_text("merged")
    os.utime(merged, (5, 5))
    assert not windows.is_stale(merged, model, adapter)
    os.utime(adapter, (6, 6))
    assert windows.is_stale(merged, model, adapter)
