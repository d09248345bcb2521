"""What engines wrote freely, and where it lies: one folder for each lane of an execution.

    <store>/generation/<generation id>/generation.json                      identity: execution, lane, rule, grammar
    <store>/generation/<generation id>/<window>/<position>-<first>.parquet  schema FUTURES: one future of a root
    <store>/generation/<generation id>/<window>/<position>.none.json        why there is no future of a root
    <store>/generation/<generation id>/<window>/<position>.own.json         the token that an arm without rows wrote
    <store>/generation/<generation id>/<task>.none.json                     why a server cannot be asked a task
    <store>/generation/<generation id>/<task>.parquet                       schema FUTURES: the answer to a task
    <store>/generation/<generation id>/rollouts-<run>.parquet               schema ROLLOUTS: one draw, prompt by prompt
    <store>/generation/<generation id>/retries.json                         requests to a server that were sent again
    <store>/generation/<generation id>/refused-<run>/<prompt>.json          why a server cannot be asked a prompt

A lane is of one kind, so that a task and a window of one name never meet. What is listed here is whole: a run that was
killed goes on with the futures, answers and prompts that are missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.store.files import read_table, write_json, write_table

_FUTURE = re.compile(r"(\d+)-(\d+)\.parquet")
_NO_FUTURE = re.compile(r"(\d+)\.none\.json")
_OWN = re.compile(r"(\d+)\.own\.json")


Value = TypeVar("Value", int, str)


class FutureKey(NamedTuple):
    """Which future of a lane."""

    window: str
    position: int
    first: int


class GenerationFiles:
    """The part of a store folder that holds generation."""

    root: Path

    def generation_folder(self, generation: str) -> Path:
        return self.root / "generation" / generation

    def future_file(self, generation: str, window: str, position: int, first: int) -> Path:
        return self.generation_folder(generation) / window / f"{position}-{first}.parquet"

    def answer_file(self, generation: str, task: str) -> Path:
        return self.generation_folder(generation) / f"{task}.parquet"

    def rollouts_file(self, generation: str, run: int) -> Path:
        return self.generation_folder(generation) / f"rollouts-{run}.parquet"

    def futures_there(self, generation: str) -> frozenset[FutureKey]:
        """Every future of a lane that is whole on disk."""
        found = set()
        for path in self.generation_folder(generation).glob("*/*.parquet"):
            if name := _FUTURE.fullmatch(path.name):
                found.add(FutureKey(path.parent.name, int(name[1]), int(name[2])))
        return frozenset(found)

    def add_lane_retries(self, generation: str, count: int) -> None:
        """Count requests of a lane that had to be sent again beside those that are noted."""
        if count or not self._lane_retries_file(generation).is_file():
            write_json(self._lane_retries_file(generation), {"requests": self.lane_retries(generation) + count})

    def lane_retries(self, generation: str) -> int:
        """Requests of a lane that were sent again. ``StoreError`` for a damaged file."""
        path = self._lane_retries_file(generation)
        return _value(path, "requests", int) if path.is_file() else 0

    def _lane_retries_file(self, generation: str) -> Path:
        return self.generation_folder(generation) / "retries.json"

    def write_future(self, generation: str, future: pa.Table) -> Path:
        """Keep one future, a row of schema ``FUTURES``, under its window, position and first token."""
        (row,) = future.select(["window", "position", "first"]).to_pylist()
        path = self.future_file(generation, row["window"], row["position"], row["first"])
        write_table(path, future, schema.FUTURES)
        return path

    def write_no_future(self, generation: str, window: str, position: int, reason: str) -> Path:
        """Keep that a root has no future, and why, so that a later run does not try it again."""
        path = self.generation_folder(generation) / window / f"{position}.none.json"
        write_json(path, {"reason": reason})
        return path

    def without_future(self, generation: str) -> dict[tuple[str, int], str]:
        """Windows and positions of the roots of a lane that have no future, and why.

        Raises ``StoreError`` for a damaged file.
        """
        reasons = {}
        for path in self.generation_folder(generation).glob("*/*.none.json"):
            if name := _NO_FUTURE.fullmatch(path.name):
                reasons[path.parent.name, int(name[1])] = _value(path, "reason", str)
        return reasons

    def write_own(self, generation: str, window: str, position: int, token: int) -> Path:
        """Keep which token an engine wrote at a place; its future from there, where one is wanted, is kept before."""
        path = self.generation_folder(generation) / window / f"{position}.own.json"
        write_json(path, {"token": token})
        return path

    def own_tokens(self, generation: str) -> dict[tuple[str, int], int]:
        """Window and position to the token that was written there. ``StoreError`` for a damaged file."""
        found = {}
        for path in self.generation_folder(generation).glob("*/*.own.json"):
            if name := _OWN.fullmatch(path.name):
                found[path.parent.name, int(name[1])] = _value(path, "token", int)
        return found

    def refuse_task(self, generation: str, task: str, reason: str) -> Path:
        """Keep that a task cannot be asked, and why."""
        path = self.generation_folder(generation) / f"{task}.none.json"
        write_json(path, {"reason": reason})
        return path

    def refused_tasks(self, generation: str) -> dict[str, str]:
        """Names of the tasks of a lane that cannot be asked, in order, and why."""
        found = sorted(self.generation_folder(generation).glob("*.none.json"))
        return {path.name.removesuffix(".none.json"): _value(path, "reason", str) for path in found}

    def forget_refusals(self, generation: str) -> None:
        """Let everything be asked again that a server could not be asked."""
        folder = self.generation_folder(generation)
        for path in (*folder.glob("*.none.json"), *folder.glob("*/*.none.json"), *folder.glob("refused-*/*.json")):
            path.unlink()

    def write_answer(self, generation: str, task: str, answer: pa.Table) -> Path:
        """Keep the answer to a task, a row of schema ``FUTURES``."""
        path = self.answer_file(generation, task)
        write_table(path, answer, schema.FUTURES)
        return path

    def read_futures(self, generation: str, wanted: Iterable[tuple[str, int, int]]) -> pa.Table:
        """Futures by window, position and first token, in the order given: schema ``FUTURES``.

        Raises ``StoreError`` for one that is not there, is damaged, or is not the one that its name says.
        """
        tables = []
        for window, position, first in wanted:
            path = self.future_file(generation, window, position, first)
            table = read_table(path, schema.FUTURES)
            found = [tuple(row.values()) for row in table.select(["window", "position", "first"]).to_pylist()]
            if found != [(window, position, first)]:
                raise StoreError(
                    "not the future that its name says", where=str(path), todo="remove the file and run again"
                )
            tables.append(table)
        return pa.concat_tables(tables).combine_chunks() if tables else schema.FUTURES.empty_table()

    def read_answer(self, generation: str, task: str) -> pa.Table:
        """The answer to a task, one row of schema ``FUTURES``."""
        path = self.answer_file(generation, task)
        answer = read_table(path, schema.FUTURES)
        if answer.num_rows != 1:
            raise StoreError(
                f"{answer.num_rows} answers",
                where=str(path),
                expected="one",
                todo="remove the file and run again",
            )
        return answer

    def add_rollouts(self, generation: str, run: int, rollouts: pa.Table) -> Path:
        """Put rollouts of schema ``ROLLOUTS`` behind those of the run that are there; none of them may be there yet."""
        path = self.rollouts_file(generation, run)
        kept = read_table(path, schema.ROLLOUTS) if path.is_file() else schema.ROLLOUTS.empty_table()
        table = pa.concat_tables([kept, rollouts.cast(schema.ROLLOUTS)])
        if len(set(table["prompt"].to_pylist())) != table.num_rows:
            raise StoreError("a prompt twice in one run", where=str(path), todo="remove the file and run again")
        write_table(path, table, schema.ROLLOUTS)
        return path

    def rolled_prompts(self, generation: str, run: int) -> frozenset[str]:
        """Names of the prompts that a run has."""
        path = self.rollouts_file(generation, run)
        return frozenset(read_table(path, schema.ROLLOUTS)["prompt"].to_pylist()) if path.is_file() else frozenset()

    def refuse_prompt(self, generation: str, run: int, prompt: str, reason: str) -> Path:
        """Keep that a prompt cannot be rolled out, and why, so that a later run does not try it again."""
        path = self.generation_folder(generation) / f"refused-{run}" / f"{prompt}.json"
        write_json(path, {"reason": reason})
        return path

    def refused_prompts(self, generation: str, run: int) -> dict[str, str]:
        """Names of the prompts of a run that cannot be rolled out, in order, and why."""
        found = sorted((self.generation_folder(generation) / f"refused-{run}").glob("*.json"))
        return {path.stem: _value(path, "reason", str) for path in found}

    def read_rollouts(self, generation: str, run: int) -> pa.Table:
        """One run, schema ``ROLLOUTS``, in the order in which it was written."""
        return read_table(self.rollouts_file(generation, run), schema.ROLLOUTS)


def _value(path: Path, name: str, kind: type[Value]) -> Value:
    """One value of a small file. ``StoreError`` for a damaged one."""
    try:
        value = json.loads(path.read_text("utf-8"))[name]
    except (OSError, ValueError, KeyError, TypeError):
        value = None
    if type(value) is not kind:
        raise StoreError(f"no {name} can be read", where=str(path), todo="remove the file and run again")
    return value
