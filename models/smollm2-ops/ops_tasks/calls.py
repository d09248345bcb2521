"""Conversations with tools: one call, several at once, recovery from an error, and requests that need no call.

A schema is drawn for every conversation: the tool and its parameters go by one of several names, so that names have to
be read from the system turn and cannot be learned by heart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ops_tasks import tools_a, tools_b
from ops_tasks.catalogue import Tool
from ops_tasks.tasks import Split, Task, Turn, call_text, tool_line
from ops_tasks.values import Values

TOOLS = tools_a.TOOLS + tools_b.TOOLS
HELD_OUT_TOOLS = tools_a.HELD_OUT_TOOLS + tools_b.HELD_OUT_TOOLS

_RULES = 'If no tool fits, answer "No tool fits." If a value is missing, ask for it: "Which NAME?"'
_SYSTEMS = (
    "You are an operations agent. Make tool calls as <tool_call>. " + _RULES + " Tools:",
    "You run a fleet of hosts. " + _RULES + " Write each call in <tool_call> tags. You may use:",
    "Help with operations by calling tools in <tool_call> tags. " + _RULES + " The tools are:",
)
_HELD_OUT_SYSTEM = (
    "You are on duty for a data centre. Act only through <tool_call> blocks. " + _RULES + " Available tools:"
)

_NO_TOOL_REQUESTS = (
    "Order two new chairs for the office",
    "Book a table for six at noon",
    "Translate the welcome page into Dutch",
    "Print the badge of the visitor",
    "Water the plants in the meeting room",
    "Send flowers to the night shift",
    "Play some quiet music in the lobby",
    "Buy a train ticket for Friday",
    "Repaint the loading bay",
    "Write a poem about the rack",
    "Call a taxi to the north gate",
    "Count the spare cables in the store room",
)
_HELD_OUT_NO_TOOL = ("Bake a cake for the release", "Clean the windows of the control room", "Hang up the new clock")


class Offer(NamedTuple):
    """A tool under the names that one conversation gives it."""

    tool: Tool
    name: str
    shown: dict[str, str]
    """Parameter to the name that the schema shows."""
    schema: dict


class Asked(NamedTuple):
    """One request, its call and what the tool reports."""

    offer: Offer
    text: str
    arguments: dict[str, object]
    """By shown name, in the order of the schema."""
    values: dict[str, object]
    """By the parameter's own name, optional ones that are not asked for included."""
    done: str

    @property
    def call(self) -> str:
        return call_text(self.offer.name, self.arguments)

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(_written(value) for value in self.arguments.values())


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _offer(v: Values, tool: Tool) -> Offer:
    name = v.pick((tool.name, *tool.aliases)) if v.chance(0.7) else tool.name
    shown, properties = {}, {}
    for param in tool.params:
        free = [alias for alias in (param.name, *param.aliases) if alias not in properties]
        own = v.pick(free) if v.chance(0.6) else free[0]
        shown[param.name] = own
        example = param.draw(v)
        kinds = {bool: "boolean", int: "integer", float: "number"}
        properties[own] = {"type": kinds.get(type(example), "string")}
        if param.choices:
            properties[own] = {"type": "string", "enum": list(param.choices)}
    required = [shown[param.name] for param in tool.params if not param.also]
    schema = {
        "type": "function",
        "function": {
            "name": name,
            "description": tool.about,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }
    return Offer(tool, name, shown, schema)


def _ask(v: Values, offer: Offer, *, missing: str = "") -> Asked:
    drawn = {param.name: param.draw(v) for param in offer.tool.params}
    said = {name: _spoken(value) for name, value in drawn.items()}
    if missing:
        said[missing] = f"<{offer.shown[missing]}>"
    text = v.pick(offer.tool.asks).format(**said)
    arguments = {}
    for param in offer.tool.params:
        if param.also:
            if missing or not v.chance(0.5):
                continue
            text += param.also.format(**said)
        arguments[offer.shown[param.name]] = drawn[param.name]
    if not text.endswith("?"):
        text += v.pick((".", ".", "", " please."))
    return Asked(offer, text, arguments, drawn, offer.tool.done.format(**said).rstrip("."))


def _spoken(value: object) -> object:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _offers(v: Values, split: Split, targets: int) -> list[Offer]:
    """The tools of one conversation in the order of the system turn; which of them are asked for is drawn apart."""
    pool = HELD_OUT_TOOLS if split == "templates" else TOOLS
    count = targets + v.pick((0, 1, 1, 2, 2))
    offers, names = [], set()
    for tool in v.some(pool, len(pool)):
        offer = _offer(v, tool)
        if offer.name not in names:
            offers.append(offer)
            names.add(offer.name)
        if len(offers) == count:
            break
    return offers


def _system(v: Values, split: Split, offers: Sequence[Offer]) -> Turn:
    head = _HELD_OUT_SYSTEM if split == "templates" else v.pick(_SYSTEMS)
    return Turn(role="system", text="\n".join([head, *(tool_line(offer.schema) for offer in offers)]))


def _user(text: str) -> Turn:
    return Turn(role="user", text=text)


def _answer(text: str, literals: Sequence[str] = ()) -> Turn:
    return Turn(role="assistant", text=text, literals=tuple(one for one in literals if one in text))


def _report(asked: Asked) -> list[Turn]:
    """The tool's good result, and the answer that passes it on."""
    result = json.dumps({"ok": True, "message": asked.done}, ensure_ascii=False)
    return [Turn(role="tool", text=result), _answer(f"{asked.done}.", asked.literals)]


def _task(kind: str, template: str, offers: Sequence[Offer], turns: list[Turn]) -> Task:
    return Task(kind=kind, template=template, turns=tuple(turns), tools=tuple(offer.schema for offer in offers))


def tool_calls(v: Values, split: Split) -> Task:
    """One to three requests, one call each; every other result is passed on in words."""
    count = v.pick((1, 2, 2, 3))
    offers = _offers(v, split, v.pick((1, 2, 2)))
    turns = [_system(v, split, offers)]
    for _ in range(count):
        asked = _ask(v, v.pick(offers))
        turns += [_user(asked.text), _answer(asked.call, asked.literals)]
        report = _report(asked)
        turns += report if v.chance(0.5) else []
    return _task("tool-call", "tool-calls", offers, turns)


_JOINED = (
    lambda parts: " ".join(_stopped(part) for part in parts),
    lambda parts: "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1)),
    lambda parts: "\n".join(f"- {part}" for part in parts),
    lambda parts: "Do all of this at once. " + " ".join(_stopped(part) for part in parts),
)
_HELD_OUT_JOINED = (
    lambda parts: "Together, please: " + " / ".join(part.rstrip(".") for part in parts),
    lambda parts: "\n".join(f"{letter}) {part}" for letter, part in zip("abcd", parts, strict=False)),
)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def parallel_calls(v: Values, split: Split) -> Task:
    """Two or three calls for one request, of one tool or of several."""
    offers = _offers(v, split, v.pick((1, 2, 2, 3)))
    count = v.pick((2, 2, 3))
    asked = [_ask(v, v.pick(offers)) for _ in range(count)]
    request = v.pick(_HELD_OUT_JOINED if split == "templates" else _JOINED)([one.text for one in asked])
    literals = [literal for one in asked for literal in one.literals]
    turns = [_system(v, split, offers), _user(request), _answer("\n".join(one.call for one in asked), literals)]
    if v.chance(0.3):
        results = "\n".join(json.dumps({"ok": True, "message": one.done}, ensure_ascii=False) for one in asked)
        turns += [Turn(role="tool", text=results), _answer(" ".join(f"{one.done}." for one in asked), literals)]
    return _task("multi-tool", "parallel-calls", offers, turns)


class _Fault(NamedTuple):
    """An error result and the arguments that follow from it."""

    error: str
    name: str
    arguments: dict[str, object]


_DID_YOU_MEAN = (
    "unknown {name} {old}; did you mean {new}?",
    "no {name} {old} here, the nearest is {new}",
    "{name} {old} was renamed to {new}",
    "{old} is only an alias: the {name} is {new}",
)
_DID_YOU_MEAN_HELD_OUT = (
    "cannot resolve {name} {old}. Candidates: {new}",
    "{name}={old} is obsolete, its successor is {new}",
)
_LIMITED = (
    "{name} {old} is not allowed; the nearest allowed value is {new}",
    "{name} {old} is already in use, {new} is free",
    "{name} must be {new}",
    "{name} {old} is out of range; use {new}",
)
_LIMITED_HELD_OUT = (
    "{name}: {old} conflicts with another entry, next free value {new}",
    "policy sets {name} to {new}, not {old}",
)
_RENAMED = (
    "unknown argument {old}; it is called {new} now",
    "argument {old} was renamed to {new}",
    "unexpected key {old}, expected {new}",
)
_RENAMED_HELD_OUT = ("no such parameter: {old} (did you mean {new}?)",)
_MOVED = (
    "{old} was retired; call {new} with the same arguments",
    "{old} is disabled here, use {new} instead",
    "deprecated: {old} is now {new}",
)
_MOVED_HELD_OUT = ("{old} has moved to {new}",)


def _fault(v: Values, split: Split, asked: Asked) -> _Fault:
    held = split == "templates"
    arguments = dict(asked.arguments)
    params = {shown: param for param, shown in asked.offer.shown.items()}
    by_name = {param.name: param for param in asked.offer.tool.params}
    # A value that has two words for yes has no other value to be corrected to.
    open_ones = [name for name in arguments if by_name[params[name]].draws not in ("", "yes")]
    way = v.pick(("value", "value", "value", "argument", "tool")) if open_ones else v.pick(("argument", "tool"))
    if way == "value":
        shown = v.pick(open_ones)
        old, new = arguments[shown], by_name[params[shown]].draw(v)
        while new == old:
            new = by_name[params[shown]].draw(v)
        numeric = not isinstance(old, str)
        patterns = (
            (_LIMITED_HELD_OUT if held else _LIMITED)
            if numeric
            else (_DID_YOU_MEAN_HELD_OUT if held else _DID_YOU_MEAN)
        )
        arguments[shown] = new
        return _Fault(v.pick(patterns).format(name=shown, old=old, new=new), asked.offer.name, arguments)
    if way == "argument":
        shown = v.pick(list(arguments))
        own = params[shown]
        taken = set(arguments) | set(asked.offer.shown.values())
        others = [name for name in (own, *by_name[own].aliases, f"{own}_id", f"target_{own}") if name not in taken]
        new_name = v.pick(others)
        renamed = {new_name if name == shown else name: value for name, value in arguments.items()}
        text = v.pick(_RENAMED_HELD_OUT if held else _RENAMED).format(old=shown, new=new_name)
        return _Fault(text, asked.offer.name, renamed)
    tool = asked.offer.tool
    others = [name for name in (tool.name, *tool.aliases, f"{tool.name}_v2") if name != asked.offer.name]
    new_tool = v.pick(others)
    text = v.pick(_MOVED_HELD_OUT if held else _MOVED).format(old=asked.offer.name, new=new_tool)
    return _Fault(text, new_tool, arguments)


def recovery(v: Values, split: Split) -> Task:
    """A call that fails, with an error that says what is right, and the corrected call."""
    offers = _offers(v, split, v.pick((1, 1, 2)))
    turns = [_system(v, split, offers)]
    # Each tool fails once: after a new name was learned, whether the next call must use it is anybody's guess.
    for offer in v.some(offers, v.pick((1, 1, 2))):
        turns += _failed(v, split, offer)
    return _task("recovery", "recovery", offers, turns)


def _failed(v: Values, split: Split, offer: Offer) -> list[Turn]:
    """A request, its call, the error and the corrected call."""
    asked = _ask(v, offer)
    fault = _fault(v, split, asked)
    said = tuple(_written(value) for value in fault.arguments.values())
    return [
        _user(asked.text),
        _answer(asked.call, asked.literals),
        Turn(role="tool", text=json.dumps({"error": fault.error}, ensure_ascii=False)),
        _answer(call_text(fault.name, fault.arguments), said),
    ]


def no_calls(v: Values, split: Split) -> Task:
    """Requests that no tool serves, requests that lack a value, and one that is served, in drawn order."""
    offers = _offers(v, split, 1)
    turns = [_system(v, split, offers)]
    ways = v.some(("none", "missing", "served"), v.pick((1, 2, 2)))
    if ways == ["served"]:
        ways = ["missing"]
    for way in ways:
        if way == "none":
            turns += [
                _user(f"{v.pick(_HELD_OUT_NO_TOOL if split == 'templates' else _NO_TOOL_REQUESTS)}."),
                _answer("No tool fits."),
            ]
        elif way == "missing":
            offer = v.pick(offers)
            lacking = v.pick([param.name for param in offer.tool.params if not param.also])
            asked = _ask(v, offer, missing=lacking)
            turns += [_user(asked.text), _answer(f"Which {offer.shown[lacking]}?")]
        else:
            asked = _ask(v, v.pick(offers))
            turns += [_user(asked.text), _answer(asked.call, asked.literals)]
    return _task("no-call", "no-calls", offers, turns)


class Talk(NamedTuple):
    """How a conversation of any length begins: its tools are drawn once, exchanges follow one by one."""

    offers: tuple[Offer, ...]
    system: Turn


def talk(v: Values, split: Split, tools: int) -> Talk:
    """A conversation that offers this many tools."""
    offers: list[Offer] = []
    while len(offers) < tools:  # two tools may have drawn one name
        offers = _offers(v, split, tools)[:tools]
    return Talk(tuple(offers), _system(v, split, offers))


def exchange(v: Values, split: Split, kind: str, offers: Sequence[Offer]) -> list[Turn]:
    """What follows one request about ``offers``: of kind ``tool-call`` a call, at times with its result passed on; of
    ``multi-tool`` two calls or three; of ``recovery`` a call to the first of them, its error and the corrected call."""
    if kind == "recovery":
        return _failed(v, split, offers[0])
    if kind == "tool-call":
        asked = _ask(v, v.pick(offers))
        report = _report(asked) if v.chance(0.3) else []
        return [_user(asked.text), _answer(asked.call, asked.literals), *report]
    several = [_ask(v, v.pick(offers)) for _ in range(v.pick((2, 2, 3)))]
    literals = [literal for one in several for literal in one.literals]
    request = v.pick(_HELD_OUT_JOINED if split == "templates" else _JOINED)([one.text for one in several])
    return [_user(request), _answer("\n".join(one.call for one in several), literals)]


BY_KIND: dict[str, Callable[[Values, Split], Task]] = {
    "tool-call": tool_calls,
    "multi-tool": parallel_calls,
    "recovery": recovery,
    "no-call": no_calls,
}
