"""What stands behind a protocol's table, and where two tables part."""

from __future__ import annotations

import pytest

from drift_runs.engines.dictionary import SpelledStream, first_difference, used_beyond

TABLE = [b"<s>", b"a", b"b", b"caf\xc3", b"\xa9", b"\xff"]


class TestEntriesBehindTheProtocolsTable:
    @pytest.mark.parametrize("more", [[], [b""], [b"[PAD6]", b"[PAD7]"], [b"[PAD]", b"", b"[PAD151936]"]])
    def test_padding_is_none(self, more: list[bytes]) -> None:
        assert used_beyond([*TABLE, *more], len(TABLE)) is None

    @pytest.mark.parametrize("entry", [b"<tool>", b" ", b"PAD", b"[PAD6] ", b"[UNUSED_TOKEN_6]"])
    def test_anything_else_may_be_said_by_the_model(self, entry: bytes) -> None:
        used = used_beyond([*TABLE, b"[PAD6]", entry, b"x"], len(TABLE))
        assert used == (2, 7, entry)
        assert str(used) == f"2 tokens more than the protocol's, the first is id 7, {entry!r}"

    def test_inside_the_protocols_table_they_are_its_own(self) -> None:
        assert used_beyond([*TABLE, b"<tool>"], len(TABLE) + 1) is None


class TestTheFirstDifference:
    def by_text(self, table: list[bytes], *streams: tuple[list[int], str]) -> str:
        spelled = [SpelledStream(f"w{at}", tokens, text) for at, (tokens, text) in enumerate(streams)]
        return first_difference(table, known=None, streams=spelled)

    def test_by_the_protocols_own_table(self) -> None:
        found = first_difference([*TABLE[:2], b"x", *TABLE[3:]], known=TABLE, streams=[])
        assert found == "the first difference is id 2: b'x' here, b'b' in the protocol's"
        assert first_difference(TABLE[:-1], known=TABLE, streams=[]) == (
            "the first difference is id 5: nothing here, b'\\xff' in the protocol's"
        )

    def test_by_a_text(self) -> None:
        swapped = [TABLE[0], TABLE[2], TABLE[1], *TABLE[3:]]
        found = self.by_text(swapped, ([0, 0], "<s><s>"), ([0, 1, 2], "<s>ab"))
        assert found == "id 1 is b'b' here, and b'ab' begins at its place in window w1"

    def test_half_a_character_in_each_of_two_tokens_is_none(self) -> None:
        assert self.by_text(TABLE, ([1, 3, 4, 2], "acaf\N{LATIN SMALL LETTER E WITH ACUTE}b")).startswith("no window")

    def test_bytes_that_are_no_text_are_none_either_and_the_next_window_is_read(self) -> None:
        """The text shows U+FFFD for them: it says nothing of what follows, and another text may."""
        broken = ([1, 5, 2], "a\N{REPLACEMENT CHARACTER}b")
        assert self.by_text(TABLE, broken).startswith("no window holds")
        other = [*TABLE[:2], b"x", *TABLE[3:]]
        assert self.by_text(other, broken, ([2], "b")) == "id 2 is b'x' here, and b'b' begins at its place in window w1"

    def test_no_text_says_nothing(self) -> None:
        assert self.by_text(TABLE, ([1, 2], "")).startswith("no window holds")

    def test_an_id_that_is_not_there(self) -> None:
        assert self.by_text(TABLE[:2], ([1, 2], "ab")) == "window w0 has id 2 at 1, which is not in the table"
