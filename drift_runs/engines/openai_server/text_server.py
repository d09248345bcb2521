"""What the dialects share that take text and no ids: they write, they score nothing.

A history of ids is sent as the text that its bytes are. The server cuts that text into tokens again, perhaps into
others: so what it says it read is compared, and what is no text at all is not sent.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from drift_runs.engines.base import ENDED, Capabilities, EngineSettings, ListedBlock, Written
from drift_runs.engines.hf_dictionary import FILE_NAME, token_bytes_of
from drift_runs.engines.openai_server.listing import Listing, Row
from drift_runs.engines.openai_server.server import ListedServer
from drift_runs.engines.openai_server.transport import SAFE
from drift_runs.engines.openai_server.written import greedy
from drift_runs.errors import CannotAsk, CannotGive, ConfigError, ServerError
from drift_runs.machine import Place

if TYPE_CHECKING:
    from tokenizers import Tokenizer


HALF = "\ufffd"
"""What stands in a text for half a character."""
_MARKUP = re.compile(rb"<[^\s<>]{1,40}>")


class Texts:
    """Ids and texts of one dictionary."""

    def __init__(self, table: Sequence[bytes], *, where: str) -> None:
        self.table = list(table)
        self.where = where
        self._times = Counter(self.table)
        self._ids = {data: token for token, data in enumerate(self.table)}

    def text(self, tokens: Sequence[int]) -> str:
        """``CannotAsk`` where the bytes are no text: it cannot be sent."""
        data = b"".join(self.table[token] for token in tokens)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CannotAsk(
                f"a history of {len(tokens):,} tokens is no UTF-8 at byte {error.start:,}",
                where=self.where,
                expected="whole characters, because this server takes text",
                todo="let windows and prompts end between characters, or use a server that takes token ids",
            ) from None

    def id_of(self, data: bytes) -> int | None:
        """The only id of these bytes; None where there is none, or more than one."""
        return self._ids[data] if self._times[data] == 1 else None

    def one_id_of(self, data: bytes) -> int:
        """``ServerError`` naming what stands for no id, or for several."""
        if (found := self.id_of(data)) is not None:
            return found
        shown = data.decode("utf-8", "backslashreplace")
        raise ServerError(
            f"the token {shown!r} stands for {self._times[data] or 'no'} ids of the dictionary",
            where=self.where,
            expected="one id, because this server tells no ids",
            todo="name the served model's own tokenizer, or use a server that tells ids",
        )


class TextServer(ListedServer):
    """Base of a dialect without token ids in its requests; it implements ``_written``."""

    # Either may stand in the protocol: nothing is scored, and what is written is decoded.
    path_shapes = ("prefill", "decode")
    largest_top_k: ClassVar[int]
    names_end: ClassVar[bool] = False
    """Whether an end token that was written is always among what is listed."""

    def __init__(self, place: Place, settings: EngineSettings, *, dictionary_size: int) -> None:
        if place.tokenizer is None:
            raise ConfigError(
                "no tokenizer is named",
                where=f"{self.dialect} at {place.shown}",
                expected="a folder with the served model's tokenizer.json, because this server takes text",
                todo="name it by tokenizer in the arm's table of the machine file",
            )
        table = token_bytes_of(place.tokenizer, dictionary_size)
        self.texts = Texts(table, where=f"{self.dialect} at {place.shown}")
        super().__init__(place, settings, dictionary_size=dictionary_size)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            full_vocabulary=False,
            largest_top_k=self.largest_top_k,
            path_shapes=(),
            token_ids=False,
            continues=True,
        )

    def token_bytes(self) -> list[bytes]:
        return list(self.texts.table)

    def tokenize(self, text: str) -> list[int] | None:
        """By the tokenizer's own file; None where the library that reads it (extra ``texts``) is not installed."""
        encoder = self._encoder
        if encoder is None:
            return None
        ids = encoder.encode(text, add_special_tokens=False).ids
        table = self.texts.table
        if any(token >= len(table) for token in ids) or b"".join(table[token] for token in ids) != text.encode("utf-8"):
            raise CannotGive(
                "the tokenizer's ids say another text than they were made from",
                where=str(self.place.tokenizer),
                expected="a tokenizer without a normaliser",
                todo=self.way_round,
            )
        return ids

    @cached_property
    def _encoder(self) -> Tokenizer | None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            return None
        path = self.place.tokenizer
        assert path is not None
        return Tokenizer.from_file(str(path / FILE_NAME if path.is_dir() else path))

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        raise CannotGive(
            "log-probabilities of a text's own tokens with their alternatives",
            where=self.where,
            expected="rollouts and branches only from this engine",
            todo=self.way_round,
        )

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        """Behind fewer tokens than asked stands ``ENDED``, unless the dialect ``names_end``: nothing says then whether
        the last of them is the end token."""
        if top_k > (self.capabilities.largest_top_k or top_k):
            raise CannotGive(
                f"the best {top_k} entries of a row",
                where=self.where,
                expected=f"at most {self.capabilities.largest_top_k}",
                todo=self.way_round,
            )
        text = self.texts.text(tokens)
        self.fits(len(tokens) + count)
        self.check_model()
        rows = self._written(text, tokens, count, top_k)
        # A list may be short: two tokens with one text are one entry of it.
        listing = Listing(
            top_k=top_k,
            dictionary_size=self.dictionary_size,
            where=self.where,
            own_promised=False,
            short_allowed=True,
        )
        written = greedy(rows, listing, most=count) if rows else []
        if len(written) == count or (written and self.names_end):
            return written
        return [*written, ENDED]

    @abstractmethod
    def _written(self, text: str, tokens: Sequence[int], count: int, top_k: int) -> list[Row]:
        """Rows of up to ``count`` tokens behind ``text``, which is of ``tokens``; fewer only where it ended."""

    def check_read(self, read: object, tokens: Sequence[int]) -> None:
        """``CannotAsk`` where the server read another number of tokens, ``CannotGive`` where it tells none."""
        if type(read) is not int:
            raise self.missing("number of the tokens that it read (usage.prompt_tokens)")
        if read != len(tokens):
            raise CannotAsk(
                f"the server read {read:,} tokens",
                where=f"{self.where}, a text of {len(tokens):,} tokens",
                expected=f"{len(tokens):,}",
                todo="it adds a token (a second BOS), or cuts the text otherwise: serve the protocol's tokenizer",
            )

    def check_count_written(self, listed: int, count: object) -> None:
        """``ServerError`` where the server says that it wrote other than it lists; an end token may count unlisted."""
        if type(count) is int and count not in (listed, listed + 1):
            raise ServerError(
                f"it says that it wrote {count:,} tokens, and lists {listed:,}",
                where=self.where,
                expected="each token that was written, hidden ones included",
                todo="a token is missing from the answer, or the server thinks where nobody sees it: switch that off",
            )

    def check_text_written(self, written: Sequence[bytes], text: object) -> None:
        """``ServerError`` where the tokens that are listed are not the text that the answer has.

        An end token may be listed and have no text, as other markup may; of half a character nothing can be said.
        """
        joined = b"".join(written)
        if not isinstance(text, str) or HALF in text or HALF in joined.decode("utf-8", "replace"):
            return
        plain = [token for token in written if not _MARKUP.fullmatch(token)]
        said = {b"".join(tokens).strip() for tokens in (written, written[:-1], plain)}
        if text.encode("utf-8", "surrogatepass").strip() not in said:
            raise ServerError(
                "the tokens that are listed are not the text that was written",
                where=self.where,
                expected="each token of the text",
                todo=SAFE,
            )

    def choice_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The only choice of an answer that has the OpenAI shape."""
        choices = answer.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise ServerError("not one choice", where=self.where, expected="choices: [{ … }]")
        return choices[0]

    def check_end(self, reason: object, written: int, count: int, *, ends: Sequence[str] = ("stop",)) -> None:
        """``ServerError`` where less was written and no end token was the reason, or something else stopped it."""
        if reason in ends or (reason == "length" and written == count):
            return
        raise ServerError(
            f"it stopped after {written} tokens by {str(reason)[:40]!r}",
            where=self.where,
            expected=f"{count} tokens, or an end token",
        )
