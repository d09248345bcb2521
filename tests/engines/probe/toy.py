"""A server of a toy model in memory, its honest dialect, and every way in which a server can be wrong.

The model is a real one in the only sense that matters here: a row hangs on the whole history and on nothing else. What
a server does with it is :class:`ToyServer`; each subclass does one thing wrong, or otherwise, and is named for it. The
dialect, :class:`ToyEngine`, believes what it reads, so that what is found is found by the probe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import Capabilities, EngineIdentity, ListedBlock, Written
from drift_runs.errors import CannotGive, ServerError
from tests.conftest import tiny_dictionary

SIZE = 32
BOS, END = 0, 1
SENTINEL = -9999.0


def model_logits(history: Sequence[int], *, scale: float = 3.0) -> NDArray[np.float64]:
    """float64[SIZE] of the next token, the same on every machine. BOS and the end token are improbable."""
    seed = hashlib.sha256(np.asarray(history, dtype="<i4").tobytes()).digest()
    logits = np.random.default_rng(list(seed)).standard_normal(SIZE) * scale
    logits[[BOS, END]] -= 20.0
    return logits


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


class ToyServer:
    """Answers as it should."""

    context = 64
    kv = "f16"
    tokenizes = True

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.held: list[int] = []
        """The prompt of the request before: what a cache would hold."""

    # What a fault overrides.

    def reads(self, prompt: Sequence[int]) -> list[int]:
        return list(prompt)

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        """float64[SIZE] as they are sent for scored tokens."""
        return log_softmax(model_logits(history))

    def limit(self, top_k: int) -> int:
        return top_k

    def table(self) -> list[bytes] | None:
        return tiny_dictionary()

    def said(self) -> dict[str, str]:
        return {"model": "toy", "version": "1", "n_ctx": str(self.context), "kv_cache_dtype": self.kv}

    def tokenize(self, text: str) -> list[int] | None:
        return toy_ids(text)

    def continued(self, prompt: Sequence[int], count: int) -> list[tuple[int, NDArray[np.float64]]]:
        """Tokens, and the row that each was chosen from."""
        written: list[tuple[int, NDArray[np.float64]]] = []
        history = list(prompt)
        while len(written) < count and (not written or written[-1][0] != END):
            row = self.row(history)
            written.append((int(np.argmax(row)), row))
            history.append(written[-1][0])
        return written

    def wanted(self, row: NDArray[np.float64], ids: Sequence[int]) -> list[tuple[int, float]]:
        return [(token, float(row[token])) for token in ids]

    def positions(self, length: int) -> list[int]:
        """Of the prompt tokens that rows are sent for."""
        return list(range(1, length))

    # The answers.

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append(dict(body))
        prompt = self.reads(body["prompt"])
        if len(prompt) > self.context:
            raise ServerError(f"{len(prompt)} tokens, the context holds {self.context}", where="toy")
        answer: dict[str, Any] = {"tokens_evaluated": len(prompt)}
        if body.get("count"):
            written = self.continued(prompt, body["count"])
            answer["written"] = [(token, float(row[token]), best(row, body["top_k"])) for token, row in written]
            return answer
        self.temperature, self.penalty = body["temperature"], body["repetition_penalty"]
        shift = len(prompt) - len(body["prompt"])
        rows = []
        for at in self.positions(len(body["prompt"])):
            row = self.row(prompt[: at + shift])
            ids = body["wanted"].get(at, ()) if body["wanted"] else ()
            own = body["prompt"][at]
            entries = best(row, self.limit(body["top_k"]))
            rows.append((at, own, float(row[own]), entries, self.wanted(row, ids)))
        answer["rows"] = rows
        self.held = list(body["prompt"])
        return answer


def best(row: NDArray[np.float64], count: int) -> list[tuple[int, float]]:
    order = np.argsort(-row, kind="stable")[:count]
    return [(int(token), float(row[token])) for token in order]


def toy_ids(text: str) -> list[int]:
    """Ids of the tiny dictionary: its control tokens, and a letter a token."""
    table = {entry.decode(): at for at, entry in enumerate(tiny_dictionary())}
    ids, place = [], 0
    while place < len(text):
        name = next((name for name in ("<s>", "</s>") if text.startswith(name, place)), text[place])
        ids.append(table[name])
        place += len(name)
    return ids


class ToyEngine:
    """A dialect: one request a window (``prefill``), or one a position."""

    def __init__(self, server: ToyServer, *, path_shape: str = "prefill", named: bool = True) -> None:
        self.server = server
        self.path_shape = path_shape
        self.transport: Any = SimpleNamespace(
            post=lambda _path, body: SimpleNamespace(body=self.server.post(body)),
            get=lambda _path: SimpleNamespace(body=self.server.said()),
        )
        self.named = named
        self.retries = 0
        self.closed = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            full_vocabulary=False, largest_top_k=None, path_shapes=("prefill", "decode"), token_ids=True, continues=True
        )

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity(
            engine="toy", build="toy 1", backend="cpu", hardware="none", capabilities=self.capabilities
        )

    @property
    def gives_wanted(self) -> bool:
        return self.named

    def said(self) -> Mapping[str, str]:
        return self.transport.get("/said").body

    def token_bytes(self) -> list[bytes] | None:
        return self.server.table()

    def tokenize(self, text: str) -> list[int] | None:
        return self.server.tokenize(text)

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        if wanted is not None and not self.named:
            raise CannotGive("log-probabilities of ids of our choice", where="toy")
        named = {} if wanted is None else dict(zip(positions, wanted, strict=True))
        if self.path_shape == "prefill":
            yield block_of(self._rows(tokens, top_k, named, set(positions)))
            return
        for at in positions:
            yield block_of(self._rows(tokens[: at + 1], top_k, named, {at}))

    def _rows(self, tokens: Sequence[int], top_k: int, named: dict, kept: set[int]) -> list[Any]:
        body = {"prompt": list(tokens), "top_k": top_k, "temperature": 0.0, "repetition_penalty": 1.0}
        body["wanted"] = named
        answer = self.transport.post("/score", body).body
        return [row for row in answer["rows"] if row[0] in kept]

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        body = {"prompt": list(tokens), "top_k": top_k, "temperature": 0.0, "count": count}
        written = self.transport.post("/write", body).body["written"]
        return [
            Written(token, logprob, tuple(one for one, _ in entries), tuple(value for _, value in entries))
            for token, logprob, entries in written
        ]

    def close(self) -> None:
        self.closed = True


def block_of(rows: Sequence[Any]) -> ListedBlock:
    """As a dialect without any check would make it."""
    width = max((len(row[3]) for row in rows), default=0)
    wide = max((len(row[4]) for row in rows), default=0)

    def column(entries: Sequence[tuple[int, float]], field: int, size: int, fill: float) -> list[float]:
        return [entry[field] for entry in entries] + [fill] * (size - len(entries))

    def told(value: float) -> float:
        return np.nan if value <= SENTINEL else value

    return ListedBlock(
        positions=np.asarray([row[0] for row in rows], dtype=np.int32),
        ids=np.asarray([column(row[3], 0, width, -1) for row in rows], dtype=np.int32).reshape(len(rows), width),
        logprobs=np.asarray([column(row[3], 1, width, np.nan) for row in rows]).reshape(len(rows), width),
        token_logprob=np.asarray([told(row[2]) for row in rows]),
        token_rank=np.zeros(len(rows), dtype=np.int32),
        wanted_ids=np.asarray([column(row[4], 0, wide, -1) for row in rows], dtype=np.int32).reshape(len(rows), wide),
        wanted_logprobs=np.asarray(
            [[told(value) for value in column(row[4], 1, wide, np.nan)] for row in rows]
        ).reshape(len(rows), wide),
        sentinels=np.zeros(len(rows), dtype=np.int32),
    )


# Servers that do one thing otherwise. Rows.


class SendsNoRows(ToyServer):
    """HTTP 200, and the option for prompt log-probabilities was not read."""

    def positions(self, length: int) -> list[int]:
        return []


class SendsTheLastRowAlone(ToyServer):
    def positions(self, length: int) -> list[int]:
        return [length - 1]


class ReadsNoHistory(ToyServer):
    """A row for each place, whatever stands before it."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return log_softmax(model_logits([len(history)]))


class SendsAnIdTwice(ToyServer):
    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        if "rows" in answer:
            at, own, logprob, entries, wanted = answer["rows"][0]
            answer["rows"][0] = (at, own, logprob, [entries[0], entries[0], *entries[2:]], wanted)
        return answer


class SendsIdsOfAnotherDictionary(ToyServer):
    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        if "rows" in answer:
            at, own, logprob, entries, wanted = answer["rows"][0]
            answer["rows"][0] = (at, own, logprob, [(SIZE + 7, entries[0][1]), *entries[1:]], wanted)
        return answer


class SendsUnsortedLists(ToyServer):
    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        answer["rows"] = [
            (at, own, logprob, entries[::-1], wanted) for at, own, logprob, entries, wanted in answer.get("rows", ())
        ]
        return answer


class KnowsNotTheOwnToken(ToyServer):
    """The text's own token is told as a placeholder where it is not the best."""

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        if "rows" in answer:
            answer["rows"] = [
                (at, own, logprob if own == entries[0][0] else SENTINEL, entries, wanted)
                for at, own, logprob, entries, wanted in answer["rows"]
            ]
        return answer


# Entries.


class CapsSilently(ToyServer):
    """Fewer entries than were asked for, and no word of it."""

    def limit(self, top_k: int) -> int:
        return min(top_k, 5)


class CapsLoudly(ToyServer):
    """Fewer entries than the protocol takes: more is refused with an error."""

    def limit(self, top_k: int) -> int:
        if top_k > 5:
            error = ServerError("status 400: logprobs must be at most 5", where="toy")
            error.status = 400
            raise error
        return top_k


class IgnoresNamedIds(ToyServer):
    def wanted(self, row: NDArray[np.float64], ids: Sequence[int]) -> list[tuple[int, float]]:
        return []


class TellsOtherIds(ToyServer):
    """The best ids in the place of those that were named."""

    def wanted(self, row: NDArray[np.float64], ids: Sequence[int]) -> list[tuple[int, float]]:
        return best(row, len(ids))


class TellsPlaceholders(ToyServer):
    def wanted(self, row: NDArray[np.float64], ids: Sequence[int]) -> list[tuple[int, float]]:
        return [(token, SENTINEL) for token in ids]


class TellsAnotherRow(ToyServer):
    """Numbers of another distribution beside named ids."""

    def wanted(self, row: NDArray[np.float64], ids: Sequence[int]) -> list[tuple[int, float]]:
        return [(token, float(row[(token + 1) % SIZE])) for token in ids]


# Numbers.


class SendsLogits(ToyServer):
    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return model_logits(history) + 12.0


class SendsOneHotRows(ToyServer):
    """What is left behind a sampler at temperature 0."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        row = np.full(SIZE, -np.inf)
        row[int(np.argmax(model_logits(history)))] = 0.0
        return row


class SendsZeros(ToyServer):
    """Of tokens that a draft model proposed."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return np.where(model_logits(history) > -np.inf, 0.0, 0.0)


class SamplesBeforeItTells(ToyServer):
    """Rows at the temperature that was asked for; 0 stands for none, as servers have it."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return log_softmax(model_logits(history) / (getattr(self, "temperature", 0.0) or 1.0))


class PenalisesBeforeItTells(ToyServer):
    """Rows from which is taken what a penalty takes of tokens of the history."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        logits = model_logits(history)
        before = sorted(set(history))
        penalty = getattr(self, "penalty", 1.0)
        logits[before] = np.where(logits[before] > 0, logits[before] / penalty, logits[before] * penalty)
        return log_softmax(logits)


class TakesNoPenalties(ToyServer):
    """Refuses what it does not know."""

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("repetition_penalty", 1.0) != 1.0:
            raise ServerError("status 400: repetition_penalty is not supported", where="toy")
        return super().post(body)


class AddsAConstant(ToyServer):
    """As one real server does, which adds 1.6e-4 to every log-probability; a larger one here."""

    nats = 4e-4

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return super().row(history) + self.nats


class AddsSomething(ToyServer):
    """Mass that is another one in each row."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return super().row(history) + 0.002 * (len(history) % 3)


class HasMassAboveOne(CapsSilently):
    """More than everything in its best entries."""

    def limit(self, top_k: int) -> int:
        return min(top_k, 8)

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        row = super().row(history)
        row[np.argsort(-row)[:4]] = np.log(0.4)
        return row


# The same again.


class NeverRepeatsItself(ToyServer):
    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        self.calls = getattr(self, "calls", 0) + 1
        return log_softmax(model_logits(history) + 1e-3 * np.sin(np.arange(SIZE) * self.calls))


class HasAnotherRowInItsCache(ToyServer):
    """A history that is held gives a row that is apart from a fresh one by some hundredths of a nat."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        shared = len(self.held) and self.held[: len(history)] == list(history[: len(self.held)])
        return log_softmax(model_logits(history) + (0.02 * np.cos(np.arange(SIZE)) if shared else 0.0))


# Chunks.


class EvaluatesInChunks(ToyServer):
    """As it should, however long the prompt is."""

    chunk = 36

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        if "rows" in answer:
            answer["rows"] = self.joined(answer["rows"], body)
        return answer

    def joined(self, rows: list[Any], body: Mapping[str, Any]) -> list[Any]:
        """The rows of the chunks, put together."""
        return rows

    def told(self, at: int, own: int, row: NDArray[np.float64], body: Mapping[str, Any]) -> Any:
        return (at, own, float(row[own]), best(row, body["top_k"]), [])


class LosesTheRowAtABorder(EvaluatesInChunks):
    def joined(self, rows: list[Any], body: Mapping[str, Any]) -> list[Any]:
        return [row for row in rows if row[0] % self.chunk]


class DoublesTheRowAtABorder(EvaluatesInChunks):
    """The row before a border stands at the border too."""

    def joined(self, rows: list[Any], body: Mapping[str, Any]) -> list[Any]:
        prompt = body["prompt"]
        return [
            self.told(row[0], row[1], self.row(prompt[: row[0] - 1]), body) if row[0] % self.chunk == 0 else row
            for row in rows
        ]


class MovesTheRowsBehindABorder(EvaluatesInChunks):
    """By one, and tells the right tokens beside them."""

    def joined(self, rows: list[Any], body: Mapping[str, Any]) -> list[Any]:
        prompt = body["prompt"]
        return [
            self.told(row[0], row[1], self.row(prompt[: row[0] - 1]), body) if row[0] > self.chunk else row
            for row in rows
        ]


class ForgetsAtABorder(EvaluatesInChunks):
    """The rows of a second chunk know nothing of the first, if they were evaluated in one request."""

    def joined(self, rows: list[Any], body: Mapping[str, Any]) -> list[Any]:
        prompt, first = body["prompt"], self.chunk * (len(body["prompt"]) // self.chunk)
        lost = len(prompt) - len(self.before) > self.chunk or prompt[: len(self.before)] != self.before
        if not lost or first in (0, len(prompt)):
            return rows
        return [self.told(row[0], row[1], self.row([0, *prompt[first : row[0]]]), body) for row in rows]

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.before = self.held[:-1]
        return super().post(body)


class RefusesLongPrompts(ToyServer):
    def reads(self, prompt: Sequence[int]) -> list[int]:
        if len(prompt) > 36:
            raise ServerError("status 500: the engine's core is dead", where="toy")
        return list(prompt)


# Ids.


class PutsABosInFront(ToyServer):
    def reads(self, prompt: Sequence[int]) -> list[int]:
        return [BOS, *prompt]


class HasTwoEntriesSwapped(ToyServer):
    def table(self) -> list[bytes]:
        found = tiny_dictionary()
        found[4], found[5] = found[5], found[4]
        return found


class HasASmallerDictionary(ToyServer):
    def table(self) -> list[bytes]:
        return tiny_dictionary()[:-2]


class HasAPaddedDictionary(ToyServer):
    def table(self) -> list[bytes]:
        return [*tiny_dictionary(), b"[PAD32]", b""]


class HasALargerDictionary(ToyServer):
    def table(self) -> list[bytes]:
        return [*tiny_dictionary(), b"[PAD32]", b"<tool>"]


class TellsNoDictionary(ToyServer):
    def table(self) -> None:
        return None


class ReadsNoTexts(ToyServer):
    def tokenize(self, text: str) -> None:
        return None


class PutsABosBeforeTexts(ToyServer):
    def tokenize(self, text: str) -> list[int]:
        return [BOS, *toy_ids(text)]


class LosesBlanks(ToyServer):
    def tokenize(self, text: str) -> list[int]:
        return toy_ids(text.replace(" ", ""))


# Limits, and what it says.


class HasAShortContext(ToyServer):
    context = 36


class SaysNoContext(ToyServer):
    def said(self) -> dict[str, str]:
        return {"model": "toy", "version": "1"}


class HidesAShortContext(SaysNoContext):
    context = 36


class RunsAnotherCache(ToyServer):
    kv = "q4_0"


class IsSwappedMeanwhile(ToyServer):
    """Another model answers behind the same address after some time."""

    def said(self) -> dict[str, str]:
        return super().said() | {"model": "toy" if len(self.requests) < 5 else "another"}


class SaysNothing(ToyServer):
    def said(self) -> dict[str, str]:
        raise ServerError("status 404: not found", where="toy")


# Writing.


class WritesNothing(ToyServer):
    def continued(self, prompt: Sequence[int], count: int) -> list[tuple[int, NDArray[np.float64]]]:
        return []


class WritesALoop(ToyServer):
    """The model itself does: what it scores says the same."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        # The token before last is sure to come next.
        row = model_logits(history)
        row[history[-2] if len(history) > 1 else 2] += 30.0
        return log_softmax(row)


class WritesGibberish(ToyServer):
    """It is sure of nothing."""

    def row(self, history: Sequence[int]) -> NDArray[np.float64]:
        return log_softmax(model_logits(history, scale=0.05) * (model_logits(history) > -15.0))


class DecodesOtherwise(ToyServer):
    """A broken cache: what is written has nothing to do with what is scored, and looks as sure."""

    def continued(self, prompt: Sequence[int], count: int) -> list[tuple[int, NDArray[np.float64]]]:
        honest = ToyServer()
        return honest.continued([*prompt[::-1]], count)


class MislabelsWhatItWrites(ToyServer):
    """An entry of the list that is not the token that was chosen."""

    def continued(self, prompt: Sequence[int], count: int) -> list[tuple[int, NDArray[np.float64]]]:
        return [(int(np.argsort(-row)[2]), row) for _, row in super().continued(prompt, count)]


class WritesZeros(ToyServer):
    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = super().post(body)
        answer["written"] = [(token, 0.0, entries) for token, _, entries in answer.get("written", ())]
        return answer


# Nothing at all.


class IsDown(ToyServer):
    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        raise ServerError("no connection", where="toy")

    def said(self) -> dict[str, str]:
        raise ServerError("no connection", where="toy")

    def table(self) -> None:
        raise ServerError("no connection", where="toy")

    def tokenize(self, text: str) -> None:
        raise ServerError("no connection", where="toy")


class BreaksTheDialect(ToyServer):
    """An answer of another form: the dialect itself fails at it."""

    def post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": 7, "written": None}
