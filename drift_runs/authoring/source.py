"""Source texts: plain text with ``%%`` directives, rendered to the exact text that is tokenised.

The directives are described beside the demo's sources. Rendering knows no tokenizer: it yields the text and byte
offsets into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

from drift_runs.errors import ProtocolError
from drift_runs.generate.answer_forms import TURN_END, TURN_START
from drift_runs.protocol.model import Answer, RangeKind

ROLES = ("system", "user", "assistant", "tool")
KINDS: tuple[str, ...] = get_args(RangeKind)
FORMS: tuple[str, ...] = get_args(Answer.model_fields["form"].annotation)
DIRECTIVES = (
    f"{', '.join(ROLES)}, close, tools NAME ..., schemas NAME ..., range KIND NAME, end, answer FORM NAME, "
    "include FILE to LABEL, label LABEL, generate"
)


class Mark(NamedTuple):
    """A range or an answer as half-open byte offsets ``[start, end)`` of the rendered text."""

    kind: str
    """Kind of the range, form of the answer."""
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A source text without its directives."""

    text: str
    marks: tuple[Mark, ...]
    """Ranges. One with answers inside goes from the start of its first to the end of its last."""
    answers: tuple[Mark, ...]
    """Expected answers, each inside a range: of that range they alone are scored."""
    tools: tuple[dict, ...]
    """Schemas of ``tools/NAME.json``, in the order of their first use."""
    prompt_only: bool
    """True when the text ends at ``%% generate``: the reference writes the rest."""


def render(path: Path, *, until: str = "") -> Rendered:
    """Render one source file; ``until`` cuts it at that label.

    Raises ``ProtocolError`` with file and line for a missing file, an unknown directive, a range that is opened
    twice, not closed, or closed without being open, or an answer that no turn of the assistant follows.
    """
    builder = _Builder(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ProtocolError("no such file", where=str(path), expected="a source text") from None
    if lines and lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        builder.number = number
        if builder.answer_waits and not (line.startswith("%%") and line[2:].split() == ["assistant"]):
            raise builder.fail(f"answer {builder.answer_waits[1]!r} has no turn", "'%% assistant' in the next line")
        if not line.startswith("%%"):
            builder.body.append(line + "\n")
            continue
        words = line[2:].split()
        if words[:1] == ["label"] and until and words[1:] == [until]:
            return builder.cut()
        builder.directive(words)
        if builder.prompt_only:
            break
    if until:
        raise ProtocolError(f"no label {until!r}", where=str(path), todo="add '%% label' or correct the include")
    return builder.finish()


class _Builder:
    """State of one rendering: pieces of finished text, and where the open turn and range began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.body: list[str] = []
        self.turn_open = False
        self.range_open: tuple[str, str, int] | None = None
        self.marks: list[Mark] = []
        self.answer_waits: tuple[str, str] | None = None
        self.answer_open: tuple[str, str, int] | None = None
        self.answers: list[Mark] = []
        self.tools: dict[str, dict] = {}
        self.prompt_only = False

    def fail(self, what: str, expected: str = "") -> ProtocolError:
        return ProtocolError(what, where=f"{self.path}, line {self.number}", expected=expected)

    @property
    def offset(self) -> int:
        return len("".join(self.body).encode("utf-8"))

    def directive(self, words: list[str]) -> None:
        match words:
            case [role] if role in ROLES:
                self.close_turn()
                self.body.append(f"{TURN_START}{role}\n")
                self.turn_open = True
                if self.answer_waits:
                    self.answer_open = (*self.answer_waits, self.offset)
                    self.answer_waits = None
            case ["close"]:
                if not self.turn_open:
                    raise self.fail("no turn is open", "'%% close' after a chat turn")
                self.close_turn()
            case ["tools", *names] if names:
                for name in names:
                    for tool in self.schemas(name):
                        self.body.append(json.dumps(tool, ensure_ascii=False) + "\n")
            case ["schemas", *names] if names:
                for name in names:
                    self.schemas(name)
            case ["range", kind, name]:
                if kind not in KINDS:
                    raise self.fail(f"unknown range kind {kind!r}", f"one of {', '.join(KINDS)}")
                if self.range_open:
                    raise self.fail(f"range {self.range_open[1]!r} is still open", "'%% end' first")
                self.range_open = (kind, name, self.offset)
            case ["end"]:
                if not self.range_open:
                    raise self.fail("no range is open", "'%% range KIND NAME' before '%% end'")
                self.end_range(*self.range_open)
                self.range_open = None
            case ["answer", form, name]:
                if form not in FORMS:
                    raise self.fail(f"unknown form {form!r}", f"one of {', '.join(FORMS)}")
                if not self.range_open:
                    raise self.fail("no range is open", "'%% range KIND NAME' before '%% answer'")
                self.answer_waits = (form, name)
            case ["include", name, "to", label]:
                if self.body:
                    raise self.fail("an include must come first", "nothing above '%% include'")
                part = render(self.path.parent / name, until=label)
                self.body.append(part.text)
                self.turn_open = not part.text.endswith(f"{TURN_END}\n") and TURN_START in part.text
                self.keep(part.tools)
            case ["label", _]:
                pass
            case ["generate"]:
                self.drop_newline()
                self.prompt_only = True
            case _:
                raise self.fail(f"unknown directive {' '.join(words)!r}", f"one of {DIRECTIVES}")

    def end_range(self, kind: str, name: str, start: int) -> None:
        """An answer that is open ends with its turn, and the range with it."""
        if self.answer_open:
            self.close_turn()
        inside = [answer for answer in self.answers if answer.start >= start]
        edges = (inside[0].start, inside[-1].end) if inside else (start, self.offset)
        self.marks.append(Mark(kind, name, *edges))

    def schemas(self, name: str) -> list[dict]:
        """The schemas of a file, one or a list; they are kept with the text."""
        file = self.path.parent / "tools" / f"{name}.json"
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.fail(f"no tool {name!r}", f"a file tools/{name}.json") from None
        tools = content if isinstance(content, list) else [content]
        self.keep(tools)
        return tools

    def keep(self, tools: Iterable[dict]) -> None:
        """A schema once; another one of the same name beside it, because a tool may change while a text goes on."""
        self.tools.update({json.dumps(tool, sort_keys=True): tool for tool in tools})

    def close_turn(self) -> None:
        if not self.turn_open:
            return
        self.drop_newline()
        self.body.append(TURN_END)
        if self.answer_open:
            self.answers.append(Mark(*self.answer_open, self.offset))
            self.answer_open = None
        self.body.append("\n")
        self.turn_open = False

    def drop_newline(self) -> None:
        # The last newline of a turn or prompt belongs to the file, not to the text. A prompt that kept it would also
        # cut a token in two: newlines and the indentation after them are one token.
        if self.body and self.body[-1].endswith("\n") and not self.body[-1].startswith(TURN_START):
            self.body[-1] = self.body[-1][:-1]

    def cut(self) -> Rendered:
        return Rendered(
            text="".join(self.body), marks=(), answers=(), tools=tuple(self.tools.values()), prompt_only=True
        )

    def finish(self) -> Rendered:
        if self.answer_waits:
            raise self.fail(f"answer {self.answer_waits[1]!r} has no turn", "'%% assistant' in the next line")
        if self.range_open:
            raise self.fail(f"range {self.range_open[1]!r} is not closed", "'%% end'")
        if self.prompt_only and self.marks:
            raise self.fail("a prompt has no ranges of its own", "ranges in authored texts only")
        if not self.prompt_only:
            self.close_turn()
            if not self.marks:
                raise self.fail("nothing is scored", "a '%% range' or '%% generate'")
        return Rendered(
            text="".join(self.body),
            marks=tuple(self.marks),
            answers=tuple(self.answers),
            tools=tuple(self.tools.values()),
            prompt_only=self.prompt_only,
        )
