"""What lanes left in a store, read back and held against itself: a damaged file gives an error and no number."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from drift_runs.errors import StoreError
from drift_runs.generate.future import CONTEXT, HORIZON, STRUCTURE, TURN, Future
from drift_runs.generate.futures import futures_of
from drift_runs.lanes.identity import Lane
from drift_runs.lanes.scenes import Scenes
from drift_runs.protocol.generation import Task
from drift_runs.schema import ROLLOUTS
from drift_runs.store import Store

_ENDS = (STRUCTURE, TURN, HORIZON, CONTEXT)
_MEND = "remove the file and run again"


def stored_futures(
    store: Store, scenes: Scenes, lane: Lane, wanted: Sequence[tuple[str, int, int]]
) -> tuple[Future, ...]:
    """Futures by window, position and first token, in the order given.

    Raises
    ------
    StoreError
        one is not there, is damaged, or is not what its name and its own tokens say.
    """
    found = futures_of(store.read_futures(lane.id, wanted))
    for future in found:
        if flaw := _flaw(future, scenes):
            path = store.future_file(lane.id, future.window, future.position, future.first)
            raise StoreError(flaw, where=str(path), todo=_MEND)
    return found


def stored_answer(store: Store, scenes: Scenes, lane: Lane, task: Task) -> Future:
    """The answer to a task; ``StoreError`` as :func:`stored_futures`."""
    (answer,) = futures_of(store.read_answer(lane.id, task.name))
    flaw = _flaw(answer, scenes)
    if (answer.window, answer.position) != (task.window, task.at):
        flaw = "not the answer that its name says"
    if flaw:
        raise StoreError(flaw, where=str(store.answer_file(lane.id, task.name)), todo=_MEND)
    return answer


def stored_rollouts(store: Store, lane: Lane, run: int, prompts: Sequence[str]) -> pa.Table:
    """The rollouts of these prompts, in their order (schema ``ROLLOUTS``); a run with other bounds may have left more.

    ``StoreError`` where one is not there, or is there twice or in part.
    """
    table = store.read_rollouts(lane.id, run)
    rows = {row["prompt"]: row for row in table.to_pylist()}
    where = str(store.rollouts_file(lane.id, run))
    if len(rows) != table.num_rows:
        raise StoreError("a prompt twice in one run", where=where, todo=_MEND)
    for name in prompts:
        if name not in rows:
            raise StoreError(f"no rollout of prompt {name}", where=where, todo="run again")
        row = rows[name]
        lists = [row["tokens"], row["token_ids"], row["logprobs"]]
        if row["run"] != run or any(found is None or len(found) != len(lists[0]) for found in lists):
            raise StoreError(f"a damaged rollout of prompt {name}", where=where, todo=_MEND)
    return pa.Table.from_pylist([rows[name] for name in prompts], schema=ROLLOUTS)


def _flaw(future: Future, scenes: Scenes) -> str:
    """What of a future cannot be; empty: nothing."""
    count, known = len(future.tokens), len(scenes.dictionary)
    if not count or len(future.written) != count or len(future.logprobs) != count:
        return "a future whose columns are not of one length"
    if any(top is not None and len(top) != count for top in (future.top_ids, future.top_logprobs)):
        return "a future whose columns are not of one length"
    if any(token is None or not 0 <= token < known for token in future.tokens):
        return "a future with a token that the dictionary has not"
    if future.tokens[0] != future.first or future.ended not in _ENDS:
        return "a future that is none: its first token or its end is another"
    if scenes.at(future.window, future.position).read(future.tokens) != future.text:
        return "a future whose text is not that of its tokens"
    return ""
