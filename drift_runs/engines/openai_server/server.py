"""What every dialect shares: which model answers, that it is still the same one, and scoring one token at a time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from drift_runs.engines.base import Capabilities, EngineIdentity, EngineSettings, ListedBlock, Written
from drift_runs.engines.openai_server.listing import Listing, Row
from drift_runs.engines.openai_server.transport import SAFE, Transport
from drift_runs.errors import CannotGive, ContextOverflow, EngineError, ServedOtherwise, ServerError, one_line
from drift_runs.machine import Place

NOT_SAID = "not said"
FACT_CHARS = 200
MOST_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One window as ``score_listed`` was asked for it."""

    tokens: Sequence[int]
    positions: Sequence[int]
    """Ascending, none is 0: row i predicts ``tokens[positions[i]]``."""
    top_k: int
    wanted: Sequence[Sequence[int]] | None
    """Ids to be told beside the best, a list a position; None: none."""

    def wanted_at(self, index: int) -> Sequence[int]:
        return () if self.wanted is None else self.wanted[index]


class ListedServer(ABC):
    """Base of the dialects; each has ``capabilities`` and ``write``, ``_score`` if it can, and says what it can do.

    A dialect reads lists of (id, log-probability) with ``self.listing(...)`` and nothing else.
    """

    dialect: ClassVar[str]
    path_shapes: ClassVar[tuple[str, ...]]
    """Of ``prefill`` and ``decode``, what it can do."""
    needs_control: ClassVar[bool] = True
    """Whether a few rows are asked for again behind each window, to see that the same model answers."""
    way_round: ClassVar[str] = "choose another dialect, path shape, engine or spec in the protocol"
    """What a user does where it cannot give what the protocol needs."""

    def __init__(self, place: Place, settings: EngineSettings, *, dictionary_size: int) -> None:
        self.place = place
        self.settings = settings
        self.dictionary_size = dictionary_size
        if settings.path_shape not in self.path_shapes:
            raise CannotGive(
                f"{self.dialect} cannot score in the path shape {settings.path_shape!r}",
                where=self.where,
                expected=" or ".join(self.path_shapes) or "no scoring",
                todo=self.way_round,
            )
        self.transport = Transport(place)
        try:
            self.served = self.find_served()
            self._opened_with = self.facts()
            self._fingerprint: object = None
        except BaseException:
            self.transport.close()
            raise

    @property
    def where(self) -> str:
        """Begin of every message."""
        return f"{self.dialect} at {self.place.shown}"

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity(
            engine=self.dialect,
            build=self._opened_with.get("version", NOT_SAID),
            backend=self._opened_with.get("backend", NOT_SAID),
            hardware=self.place.hardware or NOT_SAID,
            capabilities=self.capabilities,
        )

    @property
    def gives_wanted(self) -> bool:
        return False

    @property
    def retries(self) -> int:
        return self.transport.retries

    def said(self) -> Mapping[str, str]:
        return self.facts()

    def token_bytes(self) -> list[bytes] | None:
        """From the tokenizer that the machine file names; None where it names none."""
        if self.place.tokenizer is None:
            return None
        from drift_runs.engines.hf_dictionary import token_bytes_of

        return token_bytes_of(self.place.tokenizer, self.dictionary_size)

    def tokenize(self, text: str) -> list[int] | None:
        return None

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        """Rows for ``positions``. The model is asked for before and behind them: if another answers, they do not count.

        Take all of it: only an iterator that has ended was checked to its end.
        """
        if not positions or positions[0] < 1 or positions[-1] >= len(tokens) or top_k < 1:
            raise ValueError(f"no rows to score: {len(positions)} positions of {len(tokens)} tokens, K = {top_k}")
        if wanted is not None and not self.gives_wanted:
            raise CannotGive("log-probabilities of ids of our choice", where=self.where, todo=self.way_round)
        self.fits(len(tokens))
        self.check_model()
        asked = Asked(tokens=tokens, positions=positions, top_k=top_k, wanted=wanted)
        seen = 0
        for block in self._score(asked):
            seen += len(block.positions)
            yield block
        if seen != len(positions):
            raise ServerError(f"{seen:,} rows", where=self.where, expected=f"{len(positions):,}", todo=SAFE)
        self.check_model()

    @abstractmethod
    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]: ...

    def _score(self, asked: Asked) -> Iterator[ListedBlock]:
        """The rows that ``score_listed`` was asked for, one block a request; a dialect that only writes has none."""
        raise CannotGive("rows of a text that is given", where=self.where, todo=self.way_round)

    def find_served(self) -> str:
        """The name that goes into requests: the one of the machine file if the server lists it, else the only one."""
        names = [text_of(card.get("id")) for card in self.cards()]
        if self.place.served and (self.place.served in names or not names):
            return self.place.served
        if len(names) == 1 and not self.place.served:
            return names[0]
        listed = ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
        raise ServedOtherwise(
            f"the server does not list the model {self.place.served!r}"
            if self.place.served
            else f"the server lists {len(names)} models, and none is named",
            where=self.where,
            expected=f"one of {listed}" if names else "a model",
            todo="name it by served in the arm's table of the machine file",
        )

    def cards(self) -> list[Mapping[str, Any]]:
        """What ``/v1/models`` lists; empty where the server has no such list."""
        body = self.if_known("/v1/models")
        if body is None:
            return []
        data = body.get("data") if isinstance(body, dict) else body
        if not isinstance(data, list):
            raise ServerError("a list of models that is none", where=f"{self.where}/v1/models", expected="data: [ … ]")
        return [card for card in data if isinstance(card, dict)]

    def if_known(self, path: str) -> Any | None:
        """The JSON of a page; None where the server has no such page."""
        try:
            return self.transport.get(path).body
        except ServerError as error:
            if error.status in (404, 405, 501):
                return None
            raise

    def facts(self) -> dict[str, str]:
        """What the server says of its model and itself that stays while it is the same one, asked anew.

        ``version`` and ``backend``, where they are among it, go into the identity. A dialect adds its own.
        """
        card = next((card for card in self.cards() if card.get("id") == self.served), {})
        # Not the time of creation nor a permission's id: some servers write those anew for each request.
        kept = {key: card[key] for key in ("id", "root", "parent", "owned_by", "max_model_len") if card.get(key)}
        meta = card.get("meta")
        if isinstance(meta, dict):
            kept |= {
                f"meta.{text_of(key)}": value for key, value in meta.items() if isinstance(value, str | int | float)
            }
        return {f"model.{key}": name_of(value) for key, value in kept.items()}

    def check_model(self) -> None:
        """``ServerError`` where the server no longer says of itself what it said when it was opened."""
        now = self.facts()
        for key in sorted({*now, *self._opened_with}):
            before, after = self._opened_with.get(key, NOT_SAID), now.get(key, NOT_SAID)
            if before != after:
                raise self._swapped(f"{key} was {before}, is {after}")

    def check_answer(self, body: Any) -> dict[str, Any]:
        """An answer's body as an object, of the model and the build that were asked; ``ServerError`` if not."""
        if not isinstance(body, dict):
            raise ServerError("an answer that is no object", where=self.where)
        if isinstance(body.get("error"), dict | str):
            raise ServerError(f"the server says {text_of(body['error'])}", where=self.where, todo=SAFE)
        model = body.get("model")
        if isinstance(model, str) and self.served and model != self.served:
            raise self._swapped(f"asked {self.served}, and {text_of(model)} answered")
        fingerprint = body.get("system_fingerprint")
        if fingerprint is not None:
            if self._fingerprint is None:
                self._fingerprint = fingerprint
            elif fingerprint != self._fingerprint:
                raise self._swapped(f"fingerprint was {text_of(self._fingerprint)}, is {text_of(fingerprint)}")
        return body

    def _swapped(self, what: str) -> ServerError:
        return ServerError(
            f"another model answers than the one that was opened: {what}",
            where=self.where,
            expected="one model from the first window to the last",
            todo=SAFE,
        )

    def fits(self, count: int) -> None:
        """``ContextOverflow`` where ``count`` tokens are more than the protocol's context."""
        if count > self.settings.context_tokens:
            raise ContextOverflow(
                f"{count:,} tokens", where=self.where, expected=f"at most {self.settings.context_tokens:,}"
            )

    def listing(self, asked: Asked, *, own_promised: bool = True, short_allowed: bool = False) -> Listing:
        return Listing(
            top_k=asked.top_k,
            dictionary_size=self.dictionary_size,
            where=self.where,
            own_promised=own_promised,
            short_allowed=short_allowed,
        )

    def stepwise(
        self,
        path: str,
        asked: Asked,
        *,
        listing: Listing,
        body: Callable[[list[int], int], dict[str, Any]],
        row: Callable[[Any, int], Row],
    ) -> Iterator[ListedBlock]:
        """One request a position, over what the server keeps of the history before it; one block each.

        ``body(history, index)`` is the request behind ``history``, ``row(answer, index)`` the row in its answer, for
        ``asked.positions[index]``. Memory is bounded by the place's concurrency, not by the window.
        """
        tokens = list(asked.tokens)
        bodies = (body(tokens[:position], index) for index, position in enumerate(asked.positions))
        with closing(self.transport.post_all(path, bodies)) as replies:
            for index, reply in enumerate(replies):
                yield listing.block([row(self.check_answer(reply.body), index)])

    def missing(self, what: str, *, todo: str = "") -> EngineError:
        """The error for an answer without what was asked for: HTTP 200 does not mean that it was understood."""
        return CannotGive(f"the answer has no {what}", where=self.where, todo=todo or self.way_round)

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def name_of(value: object) -> str:
    """The same, of a path its last part alone: where a model lies on the server's machine is nobody else's affair."""
    text = str(value)
    if re.match(r"[/\\~]|[A-Za-z]:[/\\]", text):
        text = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    return text_of(text)


def text_of(value: object) -> str:
    """A short text of what a server says of itself, fit to be shown and stored."""
    text = one_line(str(value))
    return text if len(text) <= FACT_CHARS else f"{text[:FACT_CHARS]}…"
