"""Which windows are wanted, and what may come next in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from ops_tasks import commands, configs
from ops_tasks.calls import exchange, talk
from ops_tasks.tasks import Split, Task, Turn
from ops_tasks.values import Values

Template = Callable[[Values], Task]


class Wanted(NamedTuple):
    """One window: a conversation with one set of tools, or a chat of several requests of one kind."""

    name: str
    title: str
    kind: Literal["tool-call", "multi-tool", "recovery", "json", "literal-copy", "sql", "cli"]
    """Of its range."""
    split: Split
    tools: int = 0
    templates: tuple[str, ...] = ()
    """Beginnings of template names; for a chat without tools."""


WANTED = (
    Wanted("pt-calls", "One call a request", "tool-call", "values", tools=2),
    Wanted("pt-calls-new", "One call a request, of a tool that training never saw", "tool-call", "templates", tools=1),
    Wanted("pt-several-1", "Several calls of one tool for one request", "multi-tool", "values", tools=1),
    Wanted("pt-several-2", "Several calls for one request, of two tools", "multi-tool", "values", tools=2),
    Wanted("pt-recovery", "A call fails, its error says why, the call is corrected", "recovery", "values", tools=3),
    Wanted("pt-json", "Facts of a text as JSON", "json", "values", templates=("j_",)),
    Wanted(
        "pt-copy-change",
        "Configurations rewritten with one value changed",
        "literal-copy",
        "values",
        templates=("c_env_change", "c_yaml_change"),
    ),
    Wanted(
        "pt-copy-lists",
        "Ports, addresses and names copied into another form",
        "literal-copy",
        "values",
        templates=("c_addresses", "c_ports", "c_table_lines", "c_export"),
    ),
    Wanted("pt-sql", "SQL for a request in words", "sql", "values", templates=("sql_",)),
    Wanted(
        "pt-console",
        "Console lines for routers and switches",
        "cli",
        "values",
        templates=("ios_", "eos_", "junos_", "bgp_", "port_channel", "vlan_named", "shut", "description"),
    ),
    Wanted(
        "pt-shell",
        "Containers and the shell",
        "cli",
        "values",
        templates=(
            *("docker_", "compose_", "kube_", "find_", "tar_", "rsync_", "scp_", "chmod_", "chown_", "systemctl_"),
            *("journal", "grep_", "sed_", "curl_", "openssl_", "dig_", "ip_net", "ufw_", "mount_", "user_add"),
        ),
    ),
)


class Step(NamedTuple):
    """What may come next."""

    turns: list[Turn]
    uses: str
    """Template or tool; a tool is used up by a recovery that is taken."""


class Drawn(NamedTuple):
    """The beginning of a conversation and what may follow."""

    opening: list[Turn]
    tools: tuple[dict, ...]
    steps: Iterator[Step]
    """Each drawn anew."""
    taken: list[str]
    """What the steps that stay used; whoever takes one adds to it."""


def begin(wanted: Wanted, values: Values) -> Drawn:
    """Begin one conversation. Its steps end where nothing is left to draw from."""
    taken: list[str] = []
    if wanted.tools:
        begun = talk(values, wanted.split, wanted.tools)
        schemas = tuple(offer.schema for offer in begun.offers)
        return Drawn([begun.system], schemas, _calls(wanted, values, begun.offers, taken), taken)
    return Drawn([], (), _chat(wanted, values), taken)


def _calls(wanted: Wanted, values: Values, offers: tuple, taken: list[str]) -> Iterator[Step]:
    while True:
        # After a tool or an argument got another name, which one the next call must use is anybody's guess.
        left = [offer for offer in offers if wanted.kind != "recovery" or offer.name not in taken]
        if not left:
            return
        first = values.pick(left)
        yield Step(
            exchange(values, wanted.split, wanted.kind, (first, *(one for one in left if one != first))), first.name
        )


def _chat(wanted: Wanted, values: Values) -> Iterator[Step]:
    pool: list[Template] = [
        template for template in (*configs.TRAIN, *commands.TRAIN) if template.__name__.startswith(wanted.templates)
    ]
    offered = dict.fromkeys((template.__name__ for template in pool), 0)
    while True:
        # In turn: one that the reference cannot do, or whose answers are short, must not stop the rest.
        least = min(offered.values())
        template = values.pick([one for one in pool if offered[one.__name__] == least])
        offered[template.__name__] += 1
        yield Step(list(template(values).turns), template.__name__)
