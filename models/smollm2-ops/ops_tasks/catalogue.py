"""How a tool is described: enough to show its schema, to ask for it in words, and to make its call and its results."""

from __future__ import annotations

from dataclasses import dataclass

from ops_tasks.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a tool."""

    name: str
    draws: str = ""
    """Method of ``Values`` that gives its value."""
    choices: tuple[str, ...] = ()
    """Closed set, in place of ``draws``; shown as an enum."""
    aliases: tuple[str, ...] = ()
    """Other names that a deployment may give it: a schema is drawn with one of them, so that it has to be read."""
    also: str = ""
    """Optional parameter: the words that ask for it, for instance ``" with a timeout of {timeout} seconds"``; it is
    in the call only when they are in the request."""

    def draw(self, values: Values) -> object:
        return values.pick(self.choices) if self.choices else getattr(values, self.draws)()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool.

    ``asks`` and ``done`` are ``str.format`` patterns over the parameters' own names (not the aliases).
    """

    name: str
    about: str
    """One short sentence, shown in the schema."""
    params: tuple[Param, ...]
    asks: tuple[str, ...]
    """Three to five ways to ask for it; every required parameter is in each of them, no full stop at the end."""
    done: str
    """What the tool reports when it worked."""
    aliases: tuple[str, ...] = ()
    """Other names for the tool."""
