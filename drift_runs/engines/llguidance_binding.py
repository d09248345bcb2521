"""The part of llguidance's C API that is used here; the library inside the ``xllamacpp`` wheel holds it too.

llguidance tells which tokens a grammar allows next. Its errors come back as texts and none ends the process, which
cannot be said of llama.cpp's own grammars. Like ``llama_cpp_binding``, this declares the layout of structs of a pinned
version and checks it before use.
"""

from __future__ import annotations

import ctypes as c
import functools
import weakref
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines import llama_cpp_binding as binding
from drift_runs.errors import EngineError, LayoutMismatch

_VOID = c.c_void_p
_TOKENS = c.POINTER(c.c_uint32)
_SPECIAL = b"\xff"
"""In front of a token that is no text: a grammar of texts never allows it. No UTF-8 holds this byte."""


class _Limits(c.Structure):
    """``struct LlgParserLimits``: they bound the time that a hostile schema can take."""

    _fields_ = (
        ("max_items_in_row", c.c_size_t),
        ("initial_lexer_fuel", c.c_uint64),
        ("step_lexer_fuel", c.c_uint64),
        ("step_max_items", c.c_size_t),
        ("max_lexer_states", c.c_size_t),
        ("max_grammar_size", c.c_size_t),
        ("precompute_large_lexemes", c.c_bool),
        ("verbose_errors", c.c_bool),
    )


class _ConstraintInit(c.Structure):
    """``struct LlgConstraintInit``."""

    _fields_ = (
        ("tokenizer", _VOID),
        ("log_buffer_level", c.c_uint32),
        ("log_stderr_level", c.c_uint32),
        ("ff_tokens_ok", c.c_bool),
        ("backtrack_ok", c.c_bool),
        ("limits", _Limits),
    )


class _TokenizerInit(c.Structure):
    """``struct LlgTokenizerInit``."""

    _fields_ = (
        ("vocab_size", c.c_uint32),
        ("tok_eos", c.c_uint32),
        ("token_lens", _VOID),
        ("token_bytes", c.c_char_p),
        ("tokenizer_json", c.c_char_p),
        ("tokenize_assumes_string", c.c_bool),
        ("tokenize_fn", _VOID),
        ("use_approximate_greedy_tokenize_fn", c.c_bool),
        ("tokenize_user_data", _VOID),
        ("slices", _VOID),
    )


_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "llg_new_tokenizer": (_VOID, [c.POINTER(_TokenizerInit), c.c_char_p, c.c_size_t]),
    "llg_free_tokenizer": (None, [_VOID]),
    "llg_tokenize_bytes": (c.c_size_t, [_VOID, c.c_char_p, c.c_size_t, _TOKENS, c.c_size_t]),
    "llg_constraint_init_set_defaults": (None, [c.POINTER(_ConstraintInit), _VOID]),
    "llg_new_matcher": (_VOID, [c.POINTER(_ConstraintInit), c.c_char_p, c.c_char_p]),
    "llg_free_matcher": (None, [_VOID]),
    "llg_matcher_get_error": (c.c_char_p, [_VOID]),
    "llg_matcher_get_mask_byte_size": (c.c_size_t, [_VOID]),
    "llg_matcher_compute_mask_into": (c.c_int32, [_VOID, _VOID, c.c_size_t]),
    "llg_matcher_validate_tokens": (c.c_int32, [_VOID, _TOKENS, c.c_size_t]),
    "llg_matcher_consume_tokens": (c.c_int32, [_VOID, _TOKENS, c.c_size_t]),
    "llg_matcher_is_accepting": (c.c_bool, [_VOID]),
    "llg_matcher_reset": (c.c_int32, [_VOID]),
}

_KNOWN_DEFAULTS = {"log_buffer_level": 0, "log_stderr_level": 1, "ff_tokens_ok": False, "backtrack_ok": False}
_KNOWN_LIMITS = {
    "max_items_in_row": 2_000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 250_000,
    "max_grammar_size": 500_000,
    "precompute_large_lexemes": True,
    "verbose_errors": False,
}


class Refused(ValueError):
    """A grammar that cannot be made; the text says why, in one line."""


@functools.cache
def load_llguidance() -> c.CDLL:
    """The library with the functions of llguidance declared and their structs checked.

    Raises ``EngineMissing`` or ``LayoutMismatch`` as ``llama_cpp_binding.load_library`` does.
    """
    library = binding.load_library()
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LayoutMismatch(
                f"{name} is not exported",
                where=f"grammars ({binding.WHEEL} {binding.WHEEL_VERSION})",
                todo=f"install a wheel of {binding.WHEEL} that was built with llguidance, or leave out [[constrained]]",
            ) from None
        function.restype = result
        function.argtypes = arguments
    defaults = _defaults(library, None)
    binding.check_defaults("LlgConstraintInit", defaults, _KNOWN_DEFAULTS)
    binding.check_defaults("LlgParserLimits", defaults.limits, _KNOWN_LIMITS)
    return library


def _defaults(library: c.CDLL, tokenizer: int | None) -> _ConstraintInit:
    init = _ConstraintInit()
    library.llg_constraint_init_set_defaults(c.byref(init), tokenizer)
    return init


class TokenTrie:
    """The tokens of a dictionary as llguidance reads them. It lives as long as anything that was made of it."""

    def __init__(self, dictionary: Sequence[bytes], end_tokens: Collection[int]) -> None:
        self._library = load_llguidance()
        self._dictionary = dictionary
        self.size = len(dictionary)
        ends = frozenset(end_tokens)
        texts = [_SPECIAL + token if at in ends else token for at, token in enumerate(dictionary)]
        lengths = np.array([len(text) for text in texts], dtype=np.uint32)
        init = _TokenizerInit()
        init.vocab_size = self.size
        init.tok_eos = min(ends, default=0)
        init.token_lens = lengths.ctypes.data
        init.token_bytes = joined = b"".join(texts)
        init.use_approximate_greedy_tokenize_fn = True
        why = c.create_string_buffer(300)
        self.pointer = self._library.llg_new_tokenizer(c.byref(init), why, len(why))
        del joined
        if not self.pointer:
            raise EngineError(f"llguidance takes no such dictionary: {why.value.decode('utf-8', 'replace')}")
        weakref.finalize(self, self._library.llg_free_tokenizer, self.pointer)

    def spell(self, data: bytes) -> list[int] | None:
        """Some tokens whose bytes are ``data``; None where the dictionary cannot spell it."""
        room = len(data) + 1
        buffer = (c.c_uint32 * room)()
        count = self._library.llg_tokenize_bytes(self.pointer, data, len(data), buffer, room)
        tokens = list(buffer[: min(count, room)])
        return tokens if b"".join(self._dictionary[token] for token in tokens) == data else None


class Matcher:
    """Where a text stands in a grammar. The grammar is of the bytes of tokens: how a text is cut changes nothing.

    ``kind``: ``lark`` (llguidance's variant of Lark) or ``json_schema``. ``Refused`` when it cannot be made.
    """

    def __init__(self, trie: TokenTrie, kind: str, grammar: str) -> None:
        self._library = load_llguidance()
        self._trie = trie
        init = _defaults(self._library, trie.pointer)
        init.log_stderr_level = 0
        self._pointer = self._library.llg_new_matcher(c.byref(init), kind.encode(), grammar.encode())
        # The matcher borrows the trie: it is among the arguments so that it is freed after it.
        weakref.finalize(self, _free, self._library, self._pointer, trie)
        why = self._library.llg_matcher_get_error(self._pointer)
        if why is not None:
            raise Refused(_first_line(why))
        self._words = np.zeros(self._library.llg_matcher_get_mask_byte_size(self._pointer) // 4, dtype="<u4")

    def allowed(self) -> NDArray[np.bool_]:
        """bool[size of the dictionary]: the tokens that may come next. End tokens are no text and never among them."""
        self._check(
            self._library.llg_matcher_compute_mask_into(self._pointer, self._words.ctypes.data, self._words.nbytes)
        )
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little")
        return bits[: self._trie.size].astype(np.bool_)

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens may come next, in this order."""
        count = self._library.llg_matcher_validate_tokens(self._pointer, _array(tokens), len(tokens))
        self._check(min(count, 0))
        return count == len(tokens)

    def take(self, tokens: Sequence[int]) -> None:
        """Go on behind tokens that it accepts."""
        self._check(self._library.llg_matcher_consume_tokens(self._pointer, _array(tokens), len(tokens)))

    @property
    def complete(self) -> bool:
        """The text could end here."""
        return bool(self._library.llg_matcher_is_accepting(self._pointer))

    def restart(self) -> None:
        self._check(self._library.llg_matcher_reset(self._pointer))

    def _check(self, code: int) -> None:
        if code < 0:
            why = self._library.llg_matcher_get_error(self._pointer) or b"no reason is given"
            raise EngineError(f"the grammar gives up: {_first_line(why)}", where="llguidance")


def _array(tokens: Sequence[int]) -> c.Array:
    return (c.c_uint32 * len(tokens))(*tokens)


def _first_line(message: bytes) -> str:
    return message.decode("utf-8", "replace").partition("\n")[0]


def _free(library: c.CDLL, pointer: int, _trie: TokenTrie) -> None:
    library.llg_free_matcher(pointer)
