"""What a recipe file may say: how the windows of a protocol were made (schema ``drift.recipe/1``).

A recipe is read by ``drift record`` alone. A campaign reads the streams that came of it, never the recipe.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from drift_runs.errors import ProtocolError
from drift_runs.protocol.model import Name, Panel, Part, RangeKind
from drift_runs.protocol.problems import Problems, add_validation_errors

SCHEMA = "drift.recipe/1"

EndTokens = Literal["stop", "ordinary", "masked"]


class Generate(Part):
    """How the reference writes the rest of a window."""

    kind: RangeKind
    """Kind of the one range that the output is."""
    range: Name
    tokens: Annotated[int, Field(ge=1)]
    """Tokens to write; with ``end_tokens = "stop"`` the most."""
    at_least: Annotated[int, Field(ge=1)] = 1
    """Fewer tokens than this are an error."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """0 is greedy: the token with the largest logit, the lowest id on a tie."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sampling keeps the smallest set of best tokens that holds this mass."""
    seed: Annotated[int, Field(ge=0)] = 0
    end_tokens: EndTokens = "ordinary"
    """``stop``: an end token ends the output; ``ordinary``: a token as any other; ``masked``: never drawn."""
    never: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """A token that holds one of these texts is never drawn: a closing code fence, for instance."""


class RecipeWindow(Part):
    """One window: a source text, and what is done with it."""

    name: Name
    panel: Name
    document: Name
    title: str
    source: str
    """File below the recipe's ``sources``."""
    generate: Generate | None = None
    """Absent for an authored text, whose ranges are marked in its source."""
    must_pass: bool = True
    """The reference must itself choose every token of the expected answers that the source marks."""
    tasks: bool = False
    """Each expected answer is a task too: calls and JSON are compared by value; of a text, the literals that it repeats
    from what stands before it must be there. An answer that repeats none is no task."""


class Recipe(Part):
    """A whole recipe file."""

    schema_: Annotated[Literal["drift.recipe/1"], Field(alias="schema")]
    protocol: Name
    """The protocol file beside the recipe, without its ending."""
    title: str
    question: str
    panels: tuple[Panel, ...]
    sources: str
    """Folder of the source texts, relative to the recipe."""
    streams: str
    """Folder that the streams are written to, relative to the recipe."""
    context_tokens: Annotated[int, Field(ge=8)] = 2048
    prompts: str = ""
    """Panel of rollout prompts, relative to the recipe; their ids are written to ``prompt_ids``."""
    prompt_ids: str = ""
    windows: tuple[RecipeWindow, ...]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Recipe:
        if bool(self.prompts) != bool(self.prompt_ids):
            raise ValueError("prompts and prompt_ids belong together")
        names = [window.name for window in self.windows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"window {twice[0]!r} is there twice")
        panels = {panel.name: panel.role for panel in self.panels}
        for window in self.windows:
            role = panels.get(window.panel)
            # Answers that the reference passes are its own writing too; whether a source has any is not known here.
            if role is None or (window.generate and role != "generated"):
                wanted = "generated" if window.generate else "prompt"
                raise ValueError(f"window {window.name!r} needs a panel of role {wanted}, {window.panel!r} is not one")
            if role == "generated" and not window.generate and not window.must_pass:
                raise ValueError(
                    f"window {window.name!r} needs generate or must_pass = true, because panel {window.panel!r} holds "
                    "what the reference writes"
                )
        return self


def load_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises ``ProtocolError`` that names the file and the key.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProtocolError("no such file", where=str(path), expected="a recipe (drift.recipe/1)") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not valid TOML: {error}", where=str(path)) from None
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        problems = Problems(str(path), values)
        add_validation_errors(problems, Recipe, error)
        # A misspelt key is missing too: say first what is there and should not be.
        raise min(problems.errors, key=lambda problem: not problem.what.startswith("unknown key")) from None
