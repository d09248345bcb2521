"""Decoding that is held to a grammar: sound tool calls, or one JSON value.

``tools``: an assistant writes as it likes until it opens a call; then it can write nothing but a call of one of the
tools, with arguments that fit that tool's schema, up to the closing tag. ``json``: a turn is one JSON value and ends
behind it. Tokens are taken by their bytes, as a judge of texts reads them.

What is allowed is narrower than what a judge takes for sound: keys come in the schema's order in nested objects and in
arguments of more than ``ANY_ORDER_KEYS`` keys; arguments that a schema does not name come last; an integer is digits
alone; and a character that needs no escape is not written as ``\\u`` and its code. It is wider in two: a grammar cannot
see that a key which no schema names is given twice, nor that a number is beyond a float.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.call_grammar import JSON, arguments_schema, function_of, hermes_body, written_schema
from drift_runs.engines.llguidance_binding import Matcher, TokenTrie
from drift_runs.errors import ConfigError, NotAllowed
from drift_runs.generate.syntaxes import opened
from drift_runs.generate.syntaxes.hermes import CLOSE, OPEN

Logits = NDArray[np.float32]
SYNTAX = "hermes"
"""The call syntax that grammars are made for."""

_OPEN, _CLOSE = OPEN.encode(), CLOSE.encode()


class Grammars:
    """Makes grammars for one dictionary. Reading the dictionary takes a while, a grammar takes milliseconds.

    ``dictionary``: the bytes of each id; ``end_tokens``: ids that end a turn.
    """

    def __init__(self, dictionary: Sequence[bytes], end_tokens: Collection[int]) -> None:
        self.dictionary = dictionary
        self.end_tokens = frozenset(end_tokens)
        self._trie = TokenTrie(dictionary, self.end_tokens)
        self._openers = [at for at, token in enumerate(dictionary) if _OPEN[-1:] in token and at not in self.end_tokens]
        self._whole_openers = [at for at in self._openers if _OPEN in dictionary[at]]

    def tools(self, tools: Sequence[Mapping[str, Any]], *, syntax: str = SYNTAX, written: str | bytes = b"") -> Grammar:
        """Free text and sound calls of ``tools``: each ``{"name", "parameters"}``, or that under the key ``function``.

        ``written``: what the assistant has written of its turn; a call that is open in it is gone on with. Without
        tools no call can be opened.

        Raises
        ------
        ConfigError
            a schema asks for what no grammar can say (``not``, ``uniqueItems``, lookaround, ...), or nothing fits it;
            or the syntax is another.
        NotAllowed
            the call that is open in ``written`` is none already.
        """
        if syntax != SYNTAX:
            raise ConfigError(
                f"no grammar for the call syntax {syntax!r}",
                where="constrained.grammar",
                expected=f"branches.syntax {SYNTAX!r}",
                todo="leave out [[constrained]] with the grammar 'tools'",
            )
        for tool in tools:
            self._check(tool)
        matcher = Matcher(self._trie, "lark", hermes_body(tools)) if tools else None
        grammar = Grammar(self, matcher, calls=True)
        text = _text(written)
        place = opened(syntax, text)
        if place is None:
            grammar._be_free(_data(text))
        else:
            grammar._open(_data(text[place + len(OPEN) :]))
        return grammar

    def json(self, *, written: str | bytes = b"") -> Grammar:
        """One JSON value and the end of the turn, white space around it free; ``written`` as for ``tools``.

        ``NotAllowed``: what is written begins no JSON value.
        """
        grammar = Grammar(self, Matcher(self._trie, "lark", JSON), calls=False)
        grammar._open(_data(_text(written)))
        return grammar

    def _check(self, tool: Mapping[str, Any]) -> None:
        """Say of which tool it is that no grammar can be made."""
        function = function_of(tool)
        name = function.get("name")
        if not isinstance(name, str) or not isinstance(function.get("parameters", True), Mapping | bool):
            raise ConfigError(f"no tool: {str(tool)[:80]}", where="tools", expected="a name and a JSON schema")
        try:
            if function.get("parameters", True) is not True:
                Matcher(self._trie, "json_schema", written_schema(arguments_schema(function)))
            hermes_body([tool])
        except ValueError as error:
            raise ConfigError(
                f"no grammar can be made of its parameters: {str(error)[:200]}",
                where=f"tool {name[:60]}",
                expected="keywords of JSON Schema that a grammar can express",
                todo="state less in its schema, or leave out [[constrained]] with the grammar 'tools'",
            ) from None

    def _spelled(self, data: bytes) -> list[int] | None:
        return self._trie.spell(data)


class Grammar:
    """What may be written next; see ``Grammars``. Tell it the assistant's tokens alone, of one turn after the other.

    An end token begins the next turn, so that nothing of what an environment answers is told.
    """

    def __init__(self, grammars: Grammars, matcher: Matcher | None, *, calls: bool) -> None:
        self._grammars = grammars
        self._matcher = matcher
        self._calls = calls
        self._inside = not calls
        # Outside of a call: the last bytes, in which a tag may have begun. Inside: the bytes behind the tag.
        self._bytes = b""

    def mask(self, logits: Logits) -> Logits:
        """A copy of float32[dictionary or more] with minus infinity for each token that is not allowed next.

        Columns beyond the dictionary are never allowed. The logits of allowed tokens are left as they are. All are
        minus infinity where the dictionary has no token that the grammar could go on with.
        """
        size = len(self._grammars.dictionary)
        if len(logits) < size:
            raise ConfigError(f"{len(logits)} logits for a dictionary of {size}", where="grammar")
        masked = np.full_like(logits, -np.inf)
        allowed = self._allowed()
        masked[:size][allowed] = logits[:size][allowed]
        return masked

    def allows(self, token: int) -> bool:
        """Whether ``accept`` would take it."""
        if token in self._grammars.end_tokens:
            return self._may_end()
        data = self._grammars.dictionary[token]
        if not self._inside:
            return self._opens_well(data)
        return self._matcher is not None and self._matcher.accepts([token])

    def accept(self, token: int) -> None:
        """Go on behind a token of the assistant.

        ``NotAllowed`` where the grammar has no such token at this place; nothing changes then, so that the best of the
        allowed ones may be taken instead.
        """
        if not self.allows(token):
            raise NotAllowed(
                f"token {token} ({self._grammars.dictionary[token].decode('utf-8', 'replace')!r})",
                where="grammar",
                expected="free text or a sound call" if self._calls else "one JSON value",
                todo="take the best token that its mask leaves",
            )
        if token in self._grammars.end_tokens:
            self._begin()
            return
        data = self._grammars.dictionary[token]
        if self._inside:
            self._matcher.take([token])
            self._took(data)
            return
        text = self._bytes + data
        place = text.find(_OPEN)
        if place < 0:
            self._be_free(text)
        else:
            self._open(text[place + len(_OPEN) :])

    def _allowed(self) -> NDArray[np.bool_]:
        ends = list(self._grammars.end_tokens)
        if self._inside:
            if self._matcher is None:
                return np.zeros(len(self._grammars.dictionary), dtype=np.bool_)
            allowed = self._matcher.allowed()
            allowed[ends] = self._may_end()
            return allowed
        allowed = np.ones(len(self._grammars.dictionary), dtype=np.bool_)
        begun = any(self._bytes.endswith(_OPEN[:length]) for length in range(1, len(_OPEN)))
        for token in self._grammars._openers if begun else self._grammars._whole_openers:
            allowed[token] = self._opens_well(self._grammars.dictionary[token])
        return allowed

    def _may_end(self) -> bool:
        if not self._inside:
            return True
        return not self._calls and self._matcher is not None and self._matcher.complete

    def _opens_well(self, data: bytes) -> bool:
        """Whether free text may go on so: what opens a call must begin one that is sound."""
        text = self._bytes + data
        place = text.find(_OPEN)
        if place < 0:
            return True
        rest = self._grammars._spelled(text[place + len(_OPEN) :])
        return self._matcher is not None and rest is not None and self._matcher.accepts(rest)

    def _begin(self) -> None:
        """A new turn."""
        self._bytes = b""
        self._inside = not self._calls
        if self._matcher is not None:
            self._matcher.restart()

    def _be_free(self, text: bytes) -> None:
        self._inside = False
        self._bytes = text[1 - len(_OPEN) :]

    def _open(self, data: bytes) -> None:
        """Stand behind ``data``, the first bytes of a call or of a JSON value."""
        tokens = self._grammars._spelled(data)
        if self._matcher is None or tokens is None or not self._matcher.accepts(tokens):
            raise NotAllowed(
                f"{data[:60].decode('utf-8', 'replace')!r} is written already",
                where="grammar",
                expected="the beginning of a sound call" if self._calls else "the beginning of one JSON value",
            )
        self._inside, self._bytes = True, b""
        self._matcher.take(tokens)
        self._took(data)

    def _took(self, data: bytes) -> None:
        """The matcher stands behind ``data`` too: leave the call where it is closed."""
        if not self._calls:
            return
        self._bytes += data
        if self._matcher.complete:
            self._matcher.restart()
            self._be_free(self._bytes[self._bytes.rindex(_CLOSE) + len(_CLOSE) :])


def _text(written: str | bytes) -> str:
    """Bytes that are no UTF-8 stay what they are: the last character may be half written."""
    return written if isinstance(written, str) else written.decode("utf-8", "surrogateescape")


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
