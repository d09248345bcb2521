"""Commands in one house form: router and switch consoles, SQL, containers, and the shell.

House form. Consoles: the lines as a running configuration shows them (one space before a line under its header), in a
fence. SQL: one statement on one line, strings and dates in single quotes, numbers bare. Containers and the shell: one
command line, no fence; flags in one fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ops_tasks.tasks import Task, simple
from ops_tasks.values import NOUNS, WORDS, Values

T = TypeVar("T")
MASKS = ("255.255.255.0", "255.255.254.0", "255.255.252.0", "255.255.255.128", "255.255.255.252", "255.255.255.240")
WILDCARDS = ("0.0.0.255", "0.0.1.255", "0.0.3.255", "0.0.0.127", "0.0.0.15")


def _ask(v: Values, options: Sequence[str], tails: Sequence[str]) -> str:
    """One of the wordings, at times with a word about the form after it."""
    text = v.pick(options)
    if not v.chance(0.35):
        return text
    between = "\n" if "\n" in text else " "
    return f"{text}{between}{v.pick(tails)}"


def _an(word: str) -> str:
    return "an" if word[0] in "AEIO" else "a"


def _several(draw: Callable[[], T], count: int) -> list[T]:
    """``count`` draws, less what came twice."""
    return list(dict.fromkeys(draw() for _ in range(count)))


def _listed(items: Sequence[object]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# --- Consoles ---------------------------------------------------------------------------------------------------------

CLI_TAILS = ("Config lines only.", "Just the lines.", "Lines only, please.", "No explanation.")
IOS = ("Cisco IOS", "IOS", "Cisco", "Cisco IOS-XE")
EOS = ("Arista EOS", "Arista", "EOS")
JUNOS = ("Junos", "Juniper", "JunOS")


def _cli(v: Values, name: str, options: Sequence[str], lines: Sequence[str], *literals: object) -> Task:
    return simple("cli", name, _ask(v, options, CLI_TAILS), "```\n" + "\n".join(lines) + "\n```", literals=literals)


def _ios_port(v: Values) -> str:
    return v.literal(
        lambda: v.pick(
            ("GigabitEthernet{s}/0/{p}", "GigabitEthernet0/{p}", "TenGigabitEthernet{s}/1/{p}", "FastEthernet0/{p}")
        ).format(s=v.integer(1, 8), p=v.integer(1, 48))
    )


def _eos_port(v: Values) -> str:
    return v.literal(lambda: f"Ethernet{v.integer(1, 64)}/{v.integer(1, 8)}")


def _junos_port(v: Values) -> str:
    return v.literal(lambda: f"{v.pick(('ge', 'xe', 'et'))}-{v.integer(0, 7)}/{v.integer(0, 3)}/{v.integer(0, 47)}")


def _note(v: Values) -> str:
    """A port description without spaces."""
    return v.pick((f"{v.host()}", f"uplink-{v.host()}", f"{v.unit()}", f"to-{v.host()}", f"{v.ticket()}"))


def _name(v: Values) -> str:
    return v.literal(
        lambda: f"{v.pick(WORDS)}-{v.pick(('in', 'out', 'mgmt', 'users', 'voice', 'guest', 'srv', 'lan'))}".upper()
    )


def _net(v: Values) -> str:
    return v.literal(lambda: f"10.{v.integer(0, 255)}.{v.integer(0, 63) * 4}.0")


def ios_access(v: Values) -> Task:
    d, port, vlan = v.pick(IOS), _ios_port(v), v.vlan()
    options = (
        f"{d}: put {port} in access VLAN {vlan}.",
        f"Make {port} an access port in VLAN {vlan} ({d}).",
        f"On {_an(d)} {d} switch, {port} should be an access port of VLAN {vlan}.",
        f"Need VLAN {vlan} untagged on access port {port}, {d} syntax.",
        f"Which {d} config makes {port} an access port on VLAN {vlan}?",
    )
    return _cli(
        v,
        "ios_access",
        options,
        (f"interface {port}", " switchport mode access", f" switchport access vlan {vlan}"),
        port,
        vlan,
    )


def ios_trunk(v: Values) -> Task:
    d, port, vlans = v.pick(IOS), _ios_port(v), _several(v.vlan, v.integer(1, 4))
    said, word = _listed(vlans), "VLAN" if len(vlans) == 1 else "VLANs"
    options = (
        f"{d}: trunk on {port}, allow {word} {said}.",
        f"Make {port} a trunk that carries only {word} {said} ({d}).",
        f"On {_an(d)} {d} switch set {port} to trunk with allowed {word} {said}.",
        f"{port} must be a trunk for {word} {said}. {d} config please.",
    )
    listed = ",".join(str(vlan) for vlan in vlans)
    lines = (f"interface {port}", " switchport mode trunk", f" switchport trunk allowed vlan {listed}")
    return _cli(v, "ios_trunk", options, lines, port, *vlans)


def description(v: Values) -> Task:
    d, port = v.pick(((v.pick(IOS), _ios_port(v)), (v.pick(EOS), _eos_port(v))))
    note = _note(v)
    options = (
        f"{d}: describe {port} as {note}.",
        f"Set the description of {port} to {note} ({d}).",
        f"Label interface {port} with {note} on {d}.",
        f"{d} switch: {port} needs the description {note}.",
    )
    return _cli(v, "description", options, (f"interface {port}", f" description {note}"), port, note)


def ios_route(v: Values) -> Task:
    d, net, mask, gateway = v.pick(IOS), _net(v), v.pick(MASKS), v.address()
    options = (
        f"{d}: static route to {net} mask {mask} via {gateway}.",
        f"Route {net} {mask} to next hop {gateway} on {_an(d)} {d} router.",
        f"Add {_an(d)} {d} static route: network {net}, mask {mask}, next hop {gateway}.",
        f"{net} with mask {mask} must go to {gateway}. {d} static route, please.",
    )
    return _cli(v, "ios_route", options, (f"ip route {net} {mask} {gateway}",), net, mask, gateway)


def bgp_neighbour(v: Values) -> Task:
    d, own, peer, asn = v.pick(IOS + EOS), v.asn(), v.address(), v.asn()
    note = _note(v) if v.yes() else ""
    more = f", description {note}" if note else ""
    options = (
        f"{d}: in BGP {own} add neighbour {peer} with AS {asn}{more}.",
        f"Add BGP peer {peer} (remote AS {asn}{more}) to our AS {own} on {d}.",
        f"Our AS is {own}. Configure BGP neighbor {peer}, remote AS {asn}{more}. {d}.",
        f"New BGP session on {_an(d)} {d} router of AS {own}: peer {peer}, peer AS {asn}{more}.",
    )
    lines = [f"router bgp {own}", f" neighbor {peer} remote-as {asn}"]
    if note:
        lines.append(f" neighbor {peer} description {note}")
    return _cli(v, "bgp_neighbour", options, lines, own, peer, asn, note or own)


def ios_address(v: Values) -> Task:
    d, port, address, mask = v.pick(IOS), _ios_port(v), v.address(), v.pick(MASKS)
    options = (
        f"{d}: give {port} the address {address} mask {mask} and bring it up.",
        f"Configure {address} {mask} on {port} and enable the port ({d}).",
        f"On {_an(d)} {d} router, interface {port} gets IP {address} with mask {mask}; no shut it too.",
        f"Assign {address}, mask {mask}, to {port} and turn it on. {d}.",
    )
    return _cli(
        v,
        "ios_address",
        options,
        (f"interface {port}", f" ip address {address} {mask}", " no shutdown"),
        port,
        address,
        mask,
    )


def ios_acl(v: Values) -> Task:
    d, acl, proto, target, port = v.pick(IOS), _name(v), v.pick(("tcp", "udp")), v.address(), v.port()
    act = v.pick(("permit", "deny"))
    say = v.pick(("permit", "allow", "let through")) if act == "permit" else v.pick(("deny", "block", "drop"))
    if v.yes():
        source_said = source = "any"
        source_said = v.pick(("any source", "anywhere"))
    elif v.yes():
        host = v.address()
        source_said, source = f"host {host}", f"host {host}"
    else:
        net, wild = _net(v), v.pick(WILDCARDS)
        source_said, source = f"{net} wildcard {wild}", f"{net} {wild}"
    options = (
        f"{d}: in extended ACL {acl} {say} {proto} from {source_said} to host {target} port {port}.",
        f"Extended access list {acl} on {d}: {say} {proto} port {port} to host {target} from {source_said}.",
        f"Add one entry to the extended ACL {acl} ({d}) to {say} {proto} from {source_said} to host {target}, "
        f"destination port {port}.",
    )
    lines = (f"ip access-list extended {acl}", f" {act} {proto} {source} host {target} eq {port}")
    return _cli(v, "ios_acl", options, lines, acl, target, port)


def ios_servers(v: Values) -> Task:
    d, servers = v.pick(IOS + EOS), _several(v.address, v.integer(1, 3))
    command, whats = v.pick((("ntp server", ("NTP", "time")), ("logging host", ("syslog", "logging"))))
    what = v.pick(whats)
    many = "servers" if len(servers) > 1 else "server"
    options = (
        f"{d}: set {what} {many} {_listed(servers)}.",
        f"Point {_an(d)} {d} box at the {what} {many} {_listed(servers)}.",
        f"Configure {_listed(servers)} as {what} {many} on {d}.",
        f"{what} {many} for this {d} switch: {_listed(servers)}. Write the config.",
    )
    return _cli(v, "ios_servers", options, [f"{command} {server}" for server in servers], *servers)


def port_channel(v: Values) -> Task:
    d, group = v.pick(IOS + EOS), v.literal(lambda: v.integer(1, 256))
    draw = _eos_port if d in EOS else _ios_port
    ports = _several(lambda: draw(v), v.integer(1, 2))
    mode = v.pick(("active", "passive"))
    options = (
        f"{d}: add {_listed(ports)} to port-channel {group}, LACP {mode}.",
        f"Bundle {_listed(ports)} into port-channel {group} with LACP mode {mode} ({d}).",
        f"On {d}, {_listed(ports)} should join channel group {group} in {mode} mode.",
    )
    lines = [line for port in ports for line in (f"interface {port}", f" channel-group {group} mode {mode}")]
    return _cli(v, "port_channel", options, lines, group, *ports)


def shut(v: Values) -> Task:
    d = v.pick(IOS + EOS)
    draw = _eos_port if d in EOS else _ios_port
    ports, down = _several(lambda: draw(v), v.integer(1, 2)), v.yes()
    verb = (
        v.pick(("shut down", "disable", "turn off", "shut"))
        if down
        else v.pick(("bring up", "enable", "turn on", "no shut"))
    )
    options = (
        f"{d}: {verb} {_listed(ports)}.",
        f"Please {verb} {_listed(ports)} on the {d} switch.",
        f"I want to {verb} {_listed(ports)}; which lines on {d}?",
    )
    lines = [line for port in ports for line in (f"interface {port}", " shutdown" if down else " no shutdown")]
    return _cli(v, "shut", options, lines, *ports)


def vlan_named(v: Values) -> Task:
    d, vlan, name = v.pick(IOS + EOS), v.vlan(), _name(v)
    options = (
        f"{d}: create VLAN {vlan} named {name}.",
        f"Add VLAN {vlan} with the name {name} on {d}.",
        f"New VLAN on the {d} switch: id {vlan}, name {name}.",
        f"Define {name} as VLAN {vlan} ({d}).",
    )
    return _cli(v, "vlan_named", options, (f"vlan {vlan}", f" name {name}"), vlan, name)


def eos_route(v: Values) -> Task:
    d, net, gateway = v.pick(EOS), v.subnet(), v.address()
    options = (
        f"{d}: static route to {net} via {gateway}.",
        f"Route {net} to next hop {gateway} on {d}.",
        f"Add {_an(d)} {d} static route for {net}, next hop {gateway}.",
        f"{net} should go through {gateway}. {d} config?",
    )
    return _cli(v, "eos_route", options, (f"ip route {net} {gateway}",), net, gateway)


def junos_address(v: Values) -> Task:
    d, port, unit, address = v.pick(JUNOS), _junos_port(v), v.number(), f"{v.address()}/{v.pick((24, 30, 31, 29))}"
    note = _note(v) if v.yes() else ""
    more = f" and description {note}" if note else ""
    options = (
        f"{d}: address {address}{more} on {port} unit {unit}.",
        f"Configure {port} unit {unit} with {address}{more} ({d} set lines).",
        f"{d} set commands: unit {unit} of {port} gets address {address}{more}.",
    )
    lines = [f"set interfaces {port} unit {unit} family inet address {address}"]
    if note:
        lines.append(f"set interfaces {port} unit {unit} description {note}")
    return _cli(v, "junos_address", options, lines, port, unit, address, note or port)


def junos_route(v: Values) -> Task:
    d, net, gateway = v.pick(JUNOS), v.subnet(), v.address()
    options = (
        f"{d}: static route to {net} via {gateway}.",
        f"Add a static route for {net} with next hop {gateway} on {d}.",
        f"{d} set line to route {net} to {gateway}.",
    )
    return _cli(
        v, "junos_route", options, (f"set routing-options static route {net} next-hop {gateway}",), net, gateway
    )


def junos_bgp(v: Values) -> Task:
    d, group, peer, asn = v.pick(JUNOS), _name(v), v.address(), v.asn()
    options = (
        f"{d}: add BGP neighbour {peer} with AS {asn} to group {group}.",
        f"In BGP group {group} on {d}, configure peer {peer}, peer AS {asn}.",
        f"BGP peer {peer} (AS {asn}) goes in group {group}. {d} set line.",
    )
    return _cli(
        v, "junos_bgp", options, (f"set protocols bgp group {group} neighbor {peer} peer-as {asn}",), group, peer, asn
    )


def junos_servers(v: Values) -> Task:
    d, servers = v.pick(JUNOS), _several(v.address, v.integer(1, 3))
    many = "servers" if len(servers) > 1 else "server"
    options = (
        f"{d}: set NTP {many} {_listed(servers)}.",
        f"Use {_listed(servers)} as NTP {many} on {_an(d)} {d} router.",
        f"{d} set lines for the time {many} {_listed(servers)}.",
    )
    return _cli(v, "junos_servers", options, [f"set system ntp server {server}" for server in servers], *servers)


def held_port_sheet(v: Values) -> Task:
    d, port, vlan, note, down = v.pick(IOS), _ios_port(v), v.vlan(), _note(v), v.yes()
    state = "shut" if down else "no shut"
    request = (
        f"Port sheet, {d}; write the lines in the order of the sheet.\nport: {port}\ndescription: {note}\n"
        f"access VLAN: {vlan}\nstate: {state}"
    )
    lines = (
        f"interface {port}",
        f" description {note}",
        " switchport mode access",
        f" switchport access vlan {vlan}",
        " shutdown" if down else " no shutdown",
    )
    return _cli(v, "held_port_sheet", (request,), lines, port, vlan, note)


def held_helper(v: Values) -> Task:
    d, vlan, servers = v.pick(IOS), v.vlan(), _several(v.address, v.integer(1, 2))
    shown = "interface Vlan7\n ip helper-address 192.0.2.7"
    options = (
        f"On {d}, DHCP relay looks like this:\n{shown}\nDo the same for VLAN {vlan} with {_listed(servers)}.",
        f"Relay DHCP of VLAN {vlan} to {_listed(servers)} ({d}). For VLAN 7 and 192.0.2.7 we have:\n{shown}",
    )
    lines = [f"interface Vlan{vlan}", *(f" ip helper-address {server}" for server in servers)]
    return _cli(v, "held_helper", options, lines, vlan, *servers)


def held_junos_syslog(v: Values) -> Task:
    d, servers, level = (
        v.pick(JUNOS),
        _several(v.address, v.integer(1, 3)),
        v.pick(("info", "notice", "warning", "error")),
    )
    shown = "set system syslog host 192.0.2.9 any critical"
    options = (
        f"{d} sends logs of level critical to 192.0.2.9 with `{shown}`. Send level {level} to {_listed(servers)}.",
        f"Example ({d}, level critical): {shown}\nNow the same with level {level} for {_listed(servers)}.",
    )
    return _cli(
        v,
        "held_junos_syslog",
        options,
        [f"set system syslog host {server} any {level}" for server in servers],
        level,
        *servers,
    )


def held_eos_pair(v: Values) -> Task:
    d, gateway, nets = v.pick(EOS), v.address(), _several(v.subnet, v.integer(2, 3))
    options = (
        f"All of these go to {gateway} as static routes on {d}:\n" + "\n".join(nets),
        f"next hop: {gateway}\nnetworks: {', '.join(nets)}\nWrite the static routes for {d}.",
    )
    return _cli(v, "held_eos_pair", options, [f"ip route {net} {gateway}" for net in nets], gateway, *nets)


# --- SQL --------------------------------------------------------------------------------------------------------------

SQL_TAILS = ("SQL only.", "One statement.", "Just the SQL.", "Only the statement, please.")
TEXT_COLUMNS = ["host", "owner", "state", "region", "service", "email", "code", "label", "city", "team"]
NUMBER_COLUMNS = [
    "port",
    "size_gb",
    "replicas",
    "vlan",
    "retries",
    "latency_ms",
    "total",
    "attempts",
    "weight",
    "quota",
]
DATE_COLUMNS = ["created_on", "updated_on", "closed_on", "due_on", "seen_on"]


class _Table:
    """A drawn table: its name and columns by type."""

    def __init__(self, v: Values, name: str = "") -> None:
        self.v = v
        self.name = name or (v.table() if v.chance(0.6) else v.literal(lambda: v.pick(NOUNS)))
        self.text = [
            *v.some(TEXT_COLUMNS, 2),
            v.literal(lambda: f"{v.pick(WORDS)}_{v.pick(('name', 'code', 'state'))}"),
        ]
        self.number = [*v.some(NUMBER_COLUMNS, 1), v.literal(lambda: f"{v.pick(WORDS)}_{v.pick(('count', 'total'))}")]
        self.date = v.some(DATE_COLUMNS, 1)
        every = ["id", *v.some(self.text + self.number + self.date, 6)]
        self.columns = every
        self.line = f"{self.name}({', '.join(every)})"

    def some(self, count: int) -> list[str]:
        return self.v.some(self.columns, count)

    def value(self, column: str) -> tuple[str, str]:
        """A value of a column as it is said, and as SQL."""
        v = self.v
        if column in self.text:
            said = v.pick((v.host, v.user, v.unit, v.zone, lambda: v.literal(lambda: v.pick(WORDS)), v.ticket))()
            return said, f"'{said}'"
        if column in self.date:
            said = v.date()
            return said, f"'{said}'"
        said = str(v.number())
        return said, said


def _sql(v: Values, name: str, table: str, options: Sequence[str], answer: str, *literals: object) -> Task:
    asked = _ask(v, options, SQL_TAILS)
    request = v.pick((f"{table}\n{asked}", f"Table: {table}\n{asked}", f"{asked}\n{table}", f"Given {table}:\n{asked}"))
    return simple("sql", name, request, answer, literals=literals)


def _condition(v: Values, t: _Table) -> tuple[str, str, str]:
    """A condition as it is said, as SQL, and its column."""
    column = v.pick(t.columns)
    said, value = t.value(column)
    if column in t.text or column == "id" or v.chance(0.3):
        return f"{column} is {said}", f"{column} = {value}", column
    if column in t.date:
        word, sign = v.pick((("after", ">"), ("before", "<")))
        return f"{column} is {word} {said}", f"{column} {sign} {value}", column
    word, sign = v.pick(
        (("above", ">"), ("below", "<"), ("more than", ">"), ("less than", "<"), ("at least", ">="), ("at most", "<="))
    )
    return f"{column} is {word} {said}", f"{column} {sign} {value}", column


def _compared(where: str) -> str:
    """The value that a condition compares with, as it is said."""
    return where.split()[-1].strip("'")


def sql_where(v: Values) -> Task:
    t = _Table(v)
    columns, (said, where, _) = t.some(v.integer(1, 3)), _condition(v, t)
    options = (
        f"Show {_listed(columns)} where {said}.",
        f"Give me {_listed(columns)} of the rows whose {said}.",
        f"Select {_listed(columns)} when {said}.",
        f"For rows where {said}, list {_listed(columns)}.",
    )
    answer = f"SELECT {', '.join(columns)} FROM {t.name} WHERE {where};"
    return _sql(v, "sql_where", t.line, options, answer, t.name, *columns, _compared(where))


def sql_where_two(v: Values) -> Task:
    t = _Table(v)
    columns, (said, where, column), (also, second, other) = t.some(v.integer(1, 2)), _condition(v, t), _condition(v, t)
    while other == column:
        also, second, other = _condition(v, t)
    word = v.pick(("and", "or"))
    options = (
        f"Show {_listed(columns)} where {said} {word} {also}.",
        f"Rows where {said} {word} {also}: list {_listed(columns)}.",
        f"Select {_listed(columns)} if {said} {word} {also}.",
    )
    answer = f"SELECT {', '.join(columns)} FROM {t.name} WHERE {where} {word.upper()} {second};"
    return _sql(v, "sql_where_two", t.line, options, answer, t.name, *columns, _compared(where), _compared(second))


def sql_top(v: Values) -> Task:
    t = _Table(v)
    columns, order, limit, down = t.some(v.integer(1, 3)), v.pick(t.number + t.date), v.number(), v.yes()
    word = (
        v.pick(("highest", "largest"))
        if order in t.number and down
        else "latest"
        if down
        else "lowest"
        if order in t.number
        else "earliest"
    )
    has, (said, where, _) = v.yes(), _condition(v, t)
    more, clause = (f" where {said}", f" WHERE {where}") if has else ("", "")
    options = (
        f"Show {_listed(columns)}{more}, {word} {order} first, only {limit} rows.",
        f"First {limit} rows{more}, {word} {order} first: give {_listed(columns)}.",
        f"List {_listed(columns)}{more}, sorted by {order} with the {word} first, at most {limit}.",
    )
    answer = (
        f"SELECT {', '.join(columns)} FROM {t.name}{clause} ORDER BY {order}{' DESC' if down else ''} LIMIT {limit};"
    )
    return _sql(v, "sql_top", t.line, options, answer, t.name, *columns, order, limit)


def sql_count(v: Values) -> Task:
    t = _Table(v)
    said, where, _ = _condition(v, t)
    options = (
        f"How many rows are there where {said}?",
        f"Count the rows whose {said}.",
        f"Number of {t.name} rows where {said}?",
        f"Count where {said}.",
    )
    return _sql(
        v, "sql_count", t.line, options, f"SELECT COUNT(*) FROM {t.name} WHERE {where};", t.name, _compared(where)
    )


def sql_group(v: Values) -> Task:
    t = _Table(v)
    column = v.pick(t.text)
    if v.yes():
        options = (f"Count the rows per {column}.", f"How many rows for each {column}?", f"Row count by {column}.")
        return _sql(
            v,
            "sql_group",
            t.line,
            options,
            f"SELECT {column}, COUNT(*) FROM {t.name} GROUP BY {column};",
            t.name,
            column,
        )
    number, (word, function) = v.pick(t.number), v.pick((("sum", "SUM"), ("average", "AVG")))
    options = (
        f"{word.capitalize()} of {number} per {column}.",
        f"Give the {word} of {number} for each {column}.",
        f"What is the {word} of {number} by {column}?",
    )
    answer = f"SELECT {column}, {function}({number}) FROM {t.name} GROUP BY {column};"
    return _sql(v, "sql_group", t.line, options, answer, t.name, column, number)


def sql_distinct(v: Values) -> Task:
    t = _Table(v)
    column = v.pick(t.columns)
    has, (said, where, _) = v.yes(), _condition(v, t)
    more, clause = (f" where {said}", f" WHERE {where}") if has else ("", "")
    options = (
        f"List the distinct {column} values{more}.",
        f"Which different values of {column} exist{more}?",
        f"Unique {column} values{more}, please.",
    )
    return _sql(v, "sql_distinct", t.line, options, f"SELECT DISTINCT {column} FROM {t.name}{clause};", t.name, column)


def sql_update(v: Values) -> Task:
    t = _Table(v)
    column = v.pick(t.text + t.number + t.date)
    (said, value), (which, where, _) = t.value(column), _condition(v, t)
    options = (
        f"Set {column} to {said} where {which}.",
        f"Change {column} to {said} for rows where {which}.",
        f"Where {which}, {column} should become {said}.",
        f"Update {column} to {said} for every row whose {which}.",
    )
    return _sql(
        v,
        "sql_update",
        t.line,
        options,
        f"UPDATE {t.name} SET {column} = {value} WHERE {where};",
        t.name,
        column,
        said,
        _compared(where),
    )


def sql_insert(v: Values) -> Task:
    t = _Table(v)
    columns = t.some(v.integer(2, 4))
    values = [t.value(column) for column in columns]
    pairs = _listed([f"{column} {said}" for column, (said, _) in zip(columns, values, strict=True)])
    options = (
        f"Insert a row with {pairs}.",
        f"Add a row: {pairs}.",
        f"New row, {pairs}.",
        f"Put in one row that has {pairs}.",
    )
    answer = f"INSERT INTO {t.name} ({', '.join(columns)}) VALUES ({', '.join(value for _, value in values)});"
    return _sql(v, "sql_insert", t.line, options, answer, t.name, *columns, *(said for said, _ in values))


def sql_delete(v: Values) -> Task:
    t = _Table(v)
    said, where, _ = _condition(v, t)
    options = (
        f"Delete the rows where {said}.",
        f"Remove every row whose {said}.",
        f"Drop rows where {said}.",
        f"Get rid of all rows where {said}.",
    )
    return _sql(v, "sql_delete", t.line, options, f"DELETE FROM {t.name} WHERE {where};", t.name, _compared(where))


def _two(v: Values) -> tuple[str, str, str, list[str], str]:
    """Two tables to join: left, right, their line, columns to show (qualified), and the key of the left one."""
    left, right = v.literal(lambda: v.pick(NOUNS)), v.table()
    key = v.literal(lambda: f"{v.pick(WORDS)}_id")
    mine, theirs = v.some(TEXT_COLUMNS + NUMBER_COLUMNS, 3), v.some(TEXT_COLUMNS + NUMBER_COLUMNS, 3)
    line = f"{left}(id, {key}, {', '.join(mine)}); {right}(id, {', '.join(theirs)})"
    shown = v.some([f"{left}.{v.pick(mine)}", f"{right}.{v.pick(theirs)}"], 2)
    return left, right, line, shown, key


def sql_join(v: Values) -> Task:
    left, right, line, shown, key = _two(v)
    options = (
        f"Join {left} with {right} on {left}.{key} = {right}.id and show {_listed(shown)}.",
        f"Show {_listed(shown)}: {left} joined to {right}, {left}.{key} = {right}.id.",
        f"Give {_listed(shown)} from {left} join {right}; the keys are {left}.{key} = {right}.id.",
    )
    answer = f"SELECT {', '.join(shown)} FROM {left} JOIN {right} ON {left}.{key} = {right}.id;"
    return _sql(v, "sql_join", line, options, answer, left, right, key, *shown)


def sql_index(v: Values) -> Task:
    t = _Table(v)
    columns, unique = t.some(v.integer(1, 2)), v.chance(0.3)
    name = v.literal(lambda: f"{v.pick(WORDS)}_{v.pick(WORDS)}_idx")
    word = "unique index" if unique else "index"
    options = (
        f"Create {'a' if unique else 'an'} {word} {name} on {_listed(columns)}.",
        f"Add the {word} {name} over {_listed(columns)}.",
        f"We need {'a' if unique else 'an'} {word} on {_listed(columns)}; call it {name}.",
    )
    answer = f"CREATE {'UNIQUE ' if unique else ''}INDEX {name} ON {t.name} ({', '.join(columns)});"
    return _sql(v, "sql_index", t.line, options, answer, t.name, name, *columns)


def sql_alter(v: Values) -> Task:
    t = _Table(v)
    column, kind = v.column(), v.pick(("integer", "text", "date", "boolean", "timestamp", "bigint"))
    options = (
        f"Add a {kind} column {column}.",
        f"The table needs a new column {column} of type {kind}.",
        f"Extend {t.name} by {column} ({kind}).",
        f"Alter the table: new column {column}, type {kind}.",
    )
    return _sql(
        v, "sql_alter", t.line, options, f"ALTER TABLE {t.name} ADD COLUMN {column} {kind.upper()};", t.name, column
    )


def held_between(v: Values) -> Task:
    t = _Table(v)
    columns, column = t.some(v.integer(1, 2)), v.pick(t.date + t.number)
    low, high = sorted((t.value(column), t.value(column)), key=lambda pair: (len(pair[0]), pair[0]))
    options = (
        f"Show {_listed(columns)} with {column} between {low[0]} and {high[0]}.",
        f"Use BETWEEN: {_listed(columns)} of rows with {column} from {low[0]} to {high[0]}.",
    )
    answer = f"SELECT {', '.join(columns)} FROM {t.name} WHERE {column} BETWEEN {low[1]} AND {high[1]};"
    return _sql(v, "held_between", t.line, options, answer, t.name, column, *columns, low[0], high[0])


def held_update_two(v: Values) -> Task:
    t = _Table(v)
    first, second = v.some(t.text + t.number + t.date, 2)
    (one, one_sql), (two, two_sql), (said, where, _) = t.value(first), t.value(second), _condition(v, t)
    options = (
        f"Set {first} to {one} and {second} to {two} where {said}.",
        f"Rows where {said} get two changes: {first} becomes {one}, {second} becomes {two}.",
    )
    answer = f"UPDATE {t.name} SET {first} = {one_sql}, {second} = {two_sql} WHERE {where};"
    return _sql(v, "held_update_two", t.line, options, answer, t.name, first, second, one, two)


def held_having(v: Values) -> Task:
    t = _Table(v)
    column, number = v.pick(t.text), v.number()
    options = (
        f"Count the rows per {column}, but keep only those having COUNT(*) > {number}.",
        f"Row count by {column}, HAVING COUNT(*) > {number}.",
    )
    answer = f"SELECT {column}, COUNT(*) FROM {t.name} GROUP BY {column} HAVING COUNT(*) > {number};"
    return _sql(v, "held_having", t.line, options, answer, t.name, column, number)


def held_join_where(v: Values) -> Task:
    left, right, line, shown, key = _two(v)
    number = v.number()
    options = (
        f"LEFT JOIN {left} with {right} on {left}.{key} = {right}.id, show {_listed(shown)}, only where "
        f"{left}.id is above {number}.",
        f"Show {_listed(shown)} of {left} left join {right}, keys {left}.{key} = {right}.id, where {left}.id is "
        f"above {number}.",
    )
    joined = f"{left} LEFT JOIN {right} ON {left}.{key} = {right}.id"
    answer = f"SELECT {', '.join(shown)} FROM {joined} WHERE {left}.id > {number};"
    return _sql(v, "held_join_where", line, options, answer, left, right, key, number)


def held_drop_column(v: Values) -> Task:
    t = _Table(v)
    column = v.pick(t.text + t.number + t.date)
    options = (
        f"Drop the column {column} from the table.",
        f"Alter {t.name}: drop column {column}.",
        f"We no longer need the column {column}; drop it.",
    )
    return _sql(v, "held_drop_column", t.line, options, f"ALTER TABLE {t.name} DROP COLUMN {column};", t.name, column)


# --- Containers -------------------------------------------------------------------------------------------------------

LINE_TAILS = ("Command only.", "Just the command.", "One line.", "Only the command line, please.")


def _container(v: Values, name: str, options: Sequence[str], answer: str, *literals: object) -> Task:
    return simple("container", name, _ask(v, options, LINE_TAILS), answer, literals=literals)


def _run(v: Values, engine: str, template: str) -> Task:
    name, image = v.container(), f"{v.image()}:{v.version()}"
    said: list[str] = []
    flags = f" --name {name}"
    literals: list[object] = [name, image]
    if v.chance(0.4):
        network = v.unit()
        said.append(v.pick((f"network {network}", f"on network {network}")))
        flags += f" --network {network}"
        literals.append(network)
    if v.chance(0.6):
        outer, inner = v.port(), v.port()
        said.append(
            v.pick(
                (f"host port {outer} to container port {inner}", f"publish {outer} to {inner}", f"port {outer}:{inner}")
            )
        )
        flags += f" -p {outer}:{inner}"
        literals += [outer, inner]
    if v.chance(0.5):
        outer, inner = v.folder(), v.folder()
        said.append(v.pick((f"mount {outer} at {inner}", f"host folder {outer} as {inner}", f"volume {outer}:{inner}")))
        flags += f" -v {outer}:{inner}"
        literals += [outer, inner]
    if v.chance(0.5):
        variable, value = v.variable(), v.pick((v.number, v.host, v.zone))()
        said.append(v.pick((f"{variable} set to {value}", f"env {variable}={value}", f"variable {variable} = {value}")))
        flags += f" -e {variable}={value}"
        literals += [variable, value]
    said = v.some(said, len(said))
    more = f", {', '.join(said)}" if said else ""
    options = (
        f"Run {image} with {engine}, detached, named {name}{more}.",
        f"Start a {engine} container {name} in the background from {image}{more}.",
        f"{engine} run: image {image}, name {name}{more}, detached.",
        f"I need a detached {engine} container {name} of {image}{more}.",
    )
    return _container(v, template, options, f"{engine} run -d{flags} {image}", *literals)


def docker_run(v: Values) -> Task:
    return _run(v, "docker", "docker_run")


def docker_exec(v: Values) -> Task:
    engine, name = v.pick(("docker", "docker", "podman")), v.container()
    command = v.pick(
        (
            "sh",
            f"cat {v.path()}",
            f"ls -l {v.folder()}",
            "env",
            f"ping -c 3 {v.address()}",
            f"tail -n {v.number()} {v.path()}",
        )
    )
    shell = command == "sh"
    options = (
        (
            "Open an interactive sh in the {e} container {n}.",
            "Get me a shell (sh) inside {n}, {e}.",
            "{e}: interactive sh in {n}.",
        )
        if shell
        else (
            "Run `{c}` inside the {e} container {n}.",
            "In {n} ({e}), execute `{c}`.",
            "{e} exec `{c}` in container {n}.",
        )
    )
    asked = [option.format(e=engine, n=name, c=command) for option in options]
    return _container(
        v, "docker_exec", asked, f"{engine} exec {'-it ' if shell else ''}{name} {command}", name, command
    )


def docker_logs(v: Values) -> Task:
    engine, name, lines, follow = v.pick(("docker", "docker", "podman")), v.container(), v.number(), v.yes()
    more = v.pick((" and follow", " and keep following")) if follow else ""
    options = (
        f"Show the last {lines} log lines of the {engine} container {name}{more}.",
        f"{engine}: logs of {name}, last {lines} lines{more}.",
        f"Tail {lines} lines of the logs of {engine} container {name}{more}.",
    )
    return _container(
        v, "docker_logs", options, f"{engine} logs {'-f ' if follow else ''}--tail {lines} {name}", lines, name
    )


def docker_state(v: Values) -> Task:
    engine, names = v.pick(("docker", "docker", "podman")), _several(v.container, v.integer(1, 3))
    verb, says = v.pick(
        (
            ("stop", ("stop",)),
            ("start", ("start",)),
            ("rm -f", ("remove by force", "force remove")),
            ("pause", ("pause",)),
            ("inspect", ("inspect",)),
        )
    )
    say = v.pick(says)
    word = "containers" if len(names) > 1 else "container"
    options = (
        f"{engine}: {say} {_listed(names)}.",
        f"Please {say} the {engine} {word} {_listed(names)}.",
        f"Which command will {say} the {word} {_listed(names)} ({engine})?",
    )
    return _container(v, "docker_state", options, f"{engine} {verb} {' '.join(names)}", *names)


def docker_cp(v: Values) -> Task:
    engine, name, inside, outside, out = (
        v.pick(("docker", "docker", "podman")),
        v.container(),
        v.path(),
        v.path(),
        v.yes(),
    )
    if out:
        options = (
            f"Copy {inside} out of the {engine} container {name} to {outside} on the host.",
            f"{engine}: fetch {inside} from {name} into host file {outside}.",
        )
        answer = f"{engine} cp {name}:{inside} {outside}"
    else:
        options = (
            f"Copy host file {outside} into the {engine} container {name} as {inside}.",
            f"{engine}: put {outside} from the host into {name} at {inside}.",
        )
        answer = f"{engine} cp {outside} {name}:{inside}"
    return _container(v, "docker_cp", options, answer, name, inside, outside)


def docker_image(v: Values) -> Task:
    engine, image, version = v.pick(("docker", "docker", "podman")), v.image(), v.version()
    verb = v.pick(("pull", "push", "build", "tag"))
    full = f"{image}:{version}"
    if verb == "build":
        folder = v.folder()
        options = (
            f"Build {full} with {engine} from {folder}.",
            f"{engine}: build the image in {folder} and tag it {full}.",
        )
        return _container(v, "docker_image", options, f"{engine} build -t {full} {folder}", full, folder)
    if verb == "tag":
        other = v.version()
        options = (
            f"Tag {full} also as {image}:{other} ({engine}).",
            f"{engine}: give {full} the extra tag {image}:{other}.",
        )
        return _container(v, "docker_image", options, f"{engine} tag {full} {image}:{other}", full, other)
    options = (
        f"{verb.capitalize()} {full} with {engine}.",
        f"{engine}: {verb} version {version} of {image}.",
        f"{verb} image {image}, tag {version} ({engine}).",
    )
    return _container(v, "docker_image", options, f"{engine} {verb} {full}", image, version)


def compose_service(v: Values) -> Task:
    service = v.unit()
    file = f"{v.folder()}/compose.yaml"
    verb, say = v.pick(
        (
            ("up -d", "bring up (detached)"),
            ("restart", "restart"),
            ("stop", "stop"),
            ("pull", "pull"),
            ("logs", "show the logs of"),
        )
    )
    options = (
        f"docker compose with {file}: {say} {service}.",
        f"Using the compose file {file}, {say} the service {service}.",
        f"Compose project {file}, please {say} {service}.",
    )
    return _container(v, "compose_service", options, f"docker compose -f {file} {verb} {service}", file, service)


def kube_scale(v: Values) -> Task:
    deployment, namespace, count = v.deployment(), v.namespace(), v.small()
    options = (
        f"Scale {deployment} in {namespace} to {count} replicas.",
        f"kubectl: {count} replicas for deployment {deployment}, namespace {namespace}.",
        f"Deployment {deployment} (namespace {namespace}) should run {count} replicas.",
        f"In {namespace}, set the replicas of {deployment} to {count}.",
    )
    answer = f"kubectl -n {namespace} scale deployment/{deployment} --replicas={count}"
    return _container(v, "kube_scale", options, answer, namespace, deployment, count)


def kube_image(v: Values) -> Task:
    deployment, namespace, container, image = v.deployment(), v.namespace(), v.unit(), f"{v.image()}:{v.version()}"
    options = (
        f"Set container {container} of deployment {deployment} in {namespace} to {image}.",
        f"kubectl: deployment {deployment}, namespace {namespace}, container {container}, new image {image}.",
        f"Roll {deployment} ({namespace}) to {image}; the container is {container}.",
    )
    answer = f"kubectl -n {namespace} set image deployment/{deployment} {container}={image}"
    return _container(v, "kube_image", options, answer, namespace, deployment, container, image)


def kube_rollout(v: Values) -> Task:
    deployment, namespace = v.deployment(), v.namespace()
    verb = v.pick(("undo", "status", "to"))
    if verb == "to":
        revision = v.small()
        options = (
            f"Roll {deployment} in {namespace} back to revision {revision}.",
            f"kubectl: undo the rollout of {deployment} (namespace {namespace}) to revision {revision}.",
        )
        return _container(
            v,
            "kube_rollout",
            options,
            f"kubectl -n {namespace} rollout undo deployment/{deployment} --to-revision={revision}",
            namespace,
            deployment,
        )
    say = (
        v.pick(("undo the rollout of", "roll back"))
        if verb == "undo"
        else v.pick(("show the rollout status of", "check the rollout status of"))
    )
    options = (
        f"kubectl: {say} deployment {deployment} in {namespace}.",
        f"Please {say} {deployment}, namespace {namespace}.",
        f"In {namespace}, {say} {deployment}.",
    )
    return _container(
        v,
        "kube_rollout",
        options,
        f"kubectl -n {namespace} rollout {verb} deployment/{deployment}",
        namespace,
        deployment,
    )


def kube_logs(v: Values) -> Task:
    namespace, deployment, lines, container = v.namespace(), v.deployment(), v.number(), v.unit() if v.yes() else ""
    more = f", container {container}" if container else ""
    options = (
        f"Last {lines} log lines of deployment {deployment} in {namespace}{more}.",
        f"kubectl logs of {deployment}, namespace {namespace}{more}, {lines} lines.",
        f"Show {lines} lines of the logs of {deployment} ({namespace}){more}.",
    )
    answer = (
        f"kubectl -n {namespace} logs deployment/{deployment}{f' -c {container}' if container else ''} --tail={lines}"
    )
    return _container(v, "kube_logs", options, answer, namespace, deployment, lines)


def kube_node(v: Values) -> Task:
    node = v.host()
    if v.yes():
        options = (
            f"Drain node {node}, ignoring daemon sets and deleting emptyDir data.",
            f"kubectl drain {node}: ignore daemonsets, delete emptyDir data.",
            f"Empty node {node} for maintenance; daemon sets are ignored and emptyDir data may go.",
        )
        return _container(
            v, "kube_node", options, f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data", node
        )
    verb, say = v.pick((("cordon", "cordon"), ("uncordon", "uncordon"), ("describe node", "describe")))
    options = (
        f"{say.capitalize()} node {node}.",
        f"kubectl: {say} the node {node}.",
        f"Please {say} {node} in the cluster.",
    )
    return _container(v, "kube_node", options, f"kubectl {verb} {node}", node)


def kube_get(v: Values) -> Task:
    namespace, what = (
        v.namespace(),
        v.pick(("pods", "services", "deployments", "events", "configmaps", "secrets", "ingresses")),
    )
    options = (
        f"List the {what} in {namespace}.",
        f"kubectl: get {what}, namespace {namespace}.",
        f"Which {what} are in namespace {namespace}?",
    )
    return _container(v, "kube_get", options, f"kubectl -n {namespace} get {what}", namespace)


def held_podman_run(v: Values) -> Task:
    return _run(v, "podman", "held_podman_run")


def held_kube_restart(v: Values) -> Task:
    deployment, namespace = v.deployment(), v.namespace()
    verb = v.pick(("restart", "pause", "resume", "history"))
    options = (
        f"kubectl rollout {verb} for deployment {deployment} in namespace {namespace}.",
        f"namespace: {namespace}\ndeployment: {deployment}\nrollout action: {verb}\nWrite the kubectl command.",
    )
    return _container(
        v,
        "held_kube_restart",
        options,
        f"kubectl -n {namespace} rollout {verb} deployment/{deployment}",
        namespace,
        deployment,
    )


def held_network_connect(v: Values) -> Task:
    name, network, off = v.container(), v.unit(), v.yes()
    verb = "disconnect" if off else "connect"
    shown = f"docker network {verb} backbone web-1"
    options = (
        f"`{shown}` {'takes' if off else 'puts'} web-1 {'off' if off else 'on'} the network backbone. Do it for "
        f"container {name} and network {network}.",
        f"Example: {shown} (network backbone, container web-1). Now network {network}, container {name}.",
    )
    return _container(v, "held_network_connect", options, f"docker network {verb} {network} {name}", network, name)


def held_autoscale(v: Values) -> Task:
    deployment, namespace, low, high = v.deployment(), v.namespace(), v.integer(1, 4), v.integer(5, 40)
    shown = "kubectl -n blog autoscale deployment/front --min=2 --max=9"
    options = (
        f"We autoscale like this: {shown}\nDo {deployment} in {namespace} with min {low} and max {high}.",
        f"Autoscale {deployment} ({namespace}) between {low} and {high} replicas, in the form of `{shown}`.",
    )
    answer = f"kubectl -n {namespace} autoscale deployment/{deployment} --min={low} --max={high}"
    return _container(v, "held_autoscale", options, answer, namespace, deployment, low, high)


# --- Shell ------------------------------------------------------------------------------------------------------------


def _shell(v: Values, name: str, options: Sequence[str], answer: str, *literals: object) -> Task:
    return simple("shell", name, _ask(v, options, LINE_TAILS), answer, literals=literals)


def _archive(v: Values) -> str:
    return f"{v.folder()}/{v.unit()}.tar.gz"


def _ending(v: Values) -> str:
    return v.pick(("log", "gz", "tmp", "bak", "conf", "csv", "json", "dump"))


def find_files(v: Values) -> Task:
    folder, ending, days, delete = v.folder(), _ending(v), v.number(), v.yes()
    verb = v.pick(("delete", "remove")) if delete else v.pick(("find", "list"))
    options = (
        f"{verb.capitalize()} .{ending} files under {folder} older than {days} days.",
        f"Use find to {verb} all *.{ending} in {folder} that are older than {days} days.",
        f"In {folder}, {verb} every .{ending} file not modified for more than {days} days.",
    )
    answer = f"find {folder} -type f -name '*.{ending}' -mtime +{days}{' -delete' if delete else ''}"
    return _shell(v, "find_files", options, answer, folder, days)


def find_big(v: Values) -> Task:
    folder, size, unit = v.folder(), v.number(), v.pick(("M", "G"))
    word = "MB" if unit == "M" else "GB"
    options = (
        f"Find files under {folder} bigger than {size} {word}.",
        f"Which files in {folder} are over {size} {word}? Use find.",
        f"List all files larger than {size} {word} below {folder}.",
    )
    return _shell(v, "find_big", options, f"find {folder} -type f -size +{size}{unit}", folder, size)


def tar_files(v: Values) -> Task:
    archive, folder = _archive(v), v.folder()
    if v.yes():
        options = (
            f"Pack {folder} into {archive}.",
            f"Create the gzip tar {archive} from {folder}.",
            f"tar up {folder} as {archive}.",
        )
        return _shell(v, "tar_files", options, f"tar -czf {archive} {folder}", archive, folder)
    options = (
        f"Unpack {archive} into {folder}.",
        f"Extract {archive} to {folder}.",
        f"Untar {archive} under {folder}.",
    )
    return _shell(v, "tar_files", options, f"tar -xzf {archive} -C {folder}", archive, folder)


def rsync_push(v: Values) -> Task:
    source, target, user, host, delete = v.folder(), v.folder(), v.user(), v.host(), v.yes()
    more = v.pick((", deleting what is gone", " and delete extra files there", ", with delete")) if delete else ""
    options = (
        f"rsync {source} to {target} on {host} as {user}{more}.",
        f"Sync folder {source} to {user}@{host}, folder {target}{more}.",
        f"Use rsync to copy {source} to {host}:{target}, user {user}{more}.",
    )
    answer = f"rsync -az {'--delete ' if delete else ''}{source}/ {user}@{host}:{target}/"
    return _shell(v, "rsync_push", options, answer, source, target, user, host)


def scp_file(v: Values) -> Task:
    here, there, user, host, port = v.path(), v.path(), v.user(), v.host(), v.port() if v.yes() else 0
    more, flag = (f", SSH port {port}", f"-P {port} ") if port else ("", "")
    if v.yes():
        options = (
            f"scp {here} to {there} on {host} as {user}{more}.",
            f"Copy the local file {here} to {user}@{host}, path {there}, with scp{more}.",
        )
        answer = f"scp {flag}{here} {user}@{host}:{there}"
    else:
        options = (
            f"scp {there} from {host} as {user} to local {here}{more}.",
            f"Fetch {there} from {user}@{host} with scp into {here}{more}.",
        )
        answer = f"scp {flag}{user}@{host}:{there} {here}"
    return _shell(v, "scp_file", options, answer, here, there, user, host)


def chmod_path(v: Values) -> Task:
    deep = v.yes()
    mode, path = (
        v.pick(("600", "640", "644", "700", "750", "755", "660", "770", "400", "440")),
        v.folder() if deep else v.path(),
    )
    more = v.pick((" recursively", " and everything below it")) if deep else ""
    options = (
        f"Set mode {mode} on {path}{more}.",
        f"chmod {path}{more} to {mode}.",
        f"Give {path}{more} the permissions {mode}.",
    )
    return _shell(v, "chmod_path", options, f"chmod {'-R ' if deep else ''}{mode} {path}", mode, path)


def chown_path(v: Values) -> Task:
    deep = v.yes()
    user, group, path = v.user(), v.unit(), v.folder() if deep else v.path()
    more = v.pick((" recursively", " and everything below it")) if deep else ""
    options = (
        f"Make user {user} and group {group} own {path}{more}.",
        f"Change the owner of {path}{more} to {user}, group {group}.",
        f"chown {path}{more}: user {user}, group {group}.",
    )
    return _shell(v, "chown_path", options, f"chown {'-R ' if deep else ''}{user}:{group} {path}", user, group, path)


def systemctl_unit(v: Values) -> Task:
    unit = v.unit() if v.chance(0.7) else v.service()
    verb, says = v.pick(
        (
            ("restart", ("restart", "bounce")),
            ("stop", ("stop", "halt")),
            ("start", ("start",)),
            ("reload", ("reload",)),
            ("status", ("show the status of", "check the status of")),
            ("enable --now", ("enable and start", "start now and at boot")),
            ("disable --now", ("disable and stop", "stop now and keep from boot")),
            ("enable", ("enable, but do not start,",)),
        )
    )
    say = v.pick(says)
    options = (
        f"{say.capitalize()} {unit}.",
        f"systemctl: {say} {unit}.",
        f"Please {say} the service {unit}.",
        f"How do I {say} the unit {unit}?",
    )
    return _shell(v, "systemctl_unit", options, f"systemctl {verb} {unit}", unit)


def journal(v: Values) -> Task:
    unit, way = v.unit() if v.chance(0.7) else v.service(), v.pick(("lines", "since", "follow"))
    if way == "lines":
        lines = v.number()
        options = (
            f"Last {lines} journal lines of {unit}.",
            f"Show {lines} log lines of the unit {unit} from the journal.",
            f"journalctl for {unit}, {lines} lines.",
        )
        return _shell(v, "journal", options, f"journalctl -u {unit} -n {lines}", unit, lines)
    if way == "since":
        when = f"{v.date()} {v.time()}"
        options = (
            f"Journal of {unit} since {when}.",
            f"Show the logs of unit {unit} from {when} on.",
            f"journalctl for {unit}, since {when}.",
        )
        return _shell(v, "journal", options, f"journalctl -u {unit} --since '{when}'", unit, when)
    options = (
        f"Follow the journal of {unit}.",
        f"Watch the logs of unit {unit} live.",
        f"journalctl for {unit}, following.",
    )
    return _shell(v, "journal", options, f"journalctl -u {unit} -f", unit)


def grep_text(v: Values) -> Task:
    text, deep = v.pick((v.ticket, v.address, v.uuid, v.host, v.variable))(), v.yes()
    if deep:
        folder = v.folder()
        options = (
            f"Search {folder} recursively for {text}, with line numbers.",
            f"grep for {text} in everything under {folder}, show line numbers.",
            f"Where under {folder} does {text} occur? Line numbers please.",
        )
        return _shell(v, "grep_text", options, f"grep -rn '{text}' {folder}", text, folder)
    path = v.path()
    options = (
        f"Count the lines with {text} in {path}.",
        f"How many lines of {path} contain {text}? Use grep.",
        f"grep: number of lines with {text} in {path}.",
    )
    return _shell(v, "grep_text", options, f"grep -c '{text}' {path}", text, path)


def sed_file(v: Values) -> Task:
    path = v.path()
    if v.yes():
        old, new = v.host(), v.host()
        options = (
            f"Replace every {old} with {new} in {path}, in place.",
            f"sed: change all {old} to {new} in {path}.",
            f"In the file {path}, {old} should become {new} everywhere.",
        )
        return _shell(v, "sed_file", options, f"sed -i 's/{old}/{new}/g' {path}", old, new, path)
    key, value = v.variable(), v.number()
    options = (
        f"In {path} set the line {key}=... to {key}={value} with sed.",
        f"sed: whatever {key}= holds in {path}, make it {value}.",
        f"Change the value of {key}= in {path} to {value} in place.",
    )
    return _shell(v, "sed_file", options, f"sed -i 's/^{key}=.*/{key}={value}/' {path}", key, value, path)


def curl_url(v: Values) -> Task:
    url, way = v.url(), v.pick(("save", "head", "post"))
    if way == "save":
        path = v.path()
        options = (
            f"Download {url} to {path} with curl.",
            f"curl {url} and save it as {path}.",
            f"Fetch {url} into {path}.",
        )
        return _shell(v, "curl_url", options, f"curl -fsS -o {path} {url}", path, url)
    if way == "head":
        options = (
            f"Show only the response headers of {url}.",
            f"curl: headers of {url} only.",
            f"HEAD request to {url} with curl.",
        )
        return _shell(v, "curl_url", options, f"curl -fsS -I {url}", url)
    path = v.path()
    options = (
        f"POST the file {path} to {url} with curl.",
        f"curl: send {path} as the body of a POST to {url}.",
        f"Post {path} to {url}.",
    )
    return _shell(v, "curl_url", options, f"curl -fsS -X POST -d @{path} {url}", path, url)


def openssl_cert(v: Values) -> Task:
    if v.yes():
        path = f"{v.folder()}/{v.unit()}.pem"
        flag, say = v.pick((("enddate", "expiry date"), ("subject", "subject"), ("fingerprint", "fingerprint")))
        options = (
            f"Print the {say} of the certificate {path}.",
            f"openssl: {say} of {path}.",
            f"What is the {say} of the certificate file {path}?",
        )
        return _shell(v, "openssl_cert", options, f"openssl x509 -in {path} -noout -{flag}", path)
    name, port = v.fqdn(), v.port()
    options = (
        f"Open a TLS connection to {name} port {port} with openssl.",
        f"openssl s_client to {name}:{port} with SNI.",
        f"Test TLS on {name}, port {port}.",
    )
    return _shell(v, "openssl_cert", options, f"openssl s_client -connect {name}:{port} -servername {name}", name, port)


def dig_name(v: Values) -> Task:
    name, kind, server = (
        v.pick((v.fqdn, v.domain))(),
        v.pick(("A", "AAAA", "MX", "TXT", "NS", "CNAME", "SOA")),
        v.address() if v.yes() else "",
    )
    more = v.pick((f" from server {server}", f" at {server}", f" using the resolver {server}")) if server else ""
    options = (
        f"Look up the {kind} record of {name}{more}, short output.",
        f"dig {kind} for {name}{more}, short.",
        f"Query {name}{more} for {kind}; short answer.",
    )
    return _shell(
        v, "dig_name", options, f"dig +short {name} {kind}{f' @{server}' if server else ''}", name, server or name
    )


def ip_net(v: Values) -> Task:
    nic, remove, way = v.nic(), v.yes(), v.pick(("route", "addr", "link"))
    verb = "del" if remove else "add"
    if way == "route":
        net, gateway = v.subnet(), v.address()
        say = v.pick(("Remove", "Delete")) if remove else "Add"
        options = (
            f"{say} the route to {net} via {gateway} on {nic}.",
            f"ip: {say.lower()} route {net}, gateway {gateway}, device {nic}.",
        )
        return _shell(v, "ip_net", options, f"ip route {verb} {net} via {gateway} dev {nic}", net, gateway, nic)
    if way == "addr":
        address = f"{v.address()}/{v.pick((24, 25, 28, 32))}"
        say = v.pick(("Remove", "Delete")) if remove else "Add"
        options = (
            f"{say} the address {address} on {nic}.",
            f"ip: {say.lower()} {address} on device {nic}.",
            f"{say} {address}, interface {nic}.",
        )
        return _shell(v, "ip_net", options, f"ip addr {verb} {address} dev {nic}", address, nic)
    state = "down" if remove else "up"
    options = (
        f"Bring {nic} {state}.",
        f"ip: set link {nic} {state}.",
        f"Take the interface {nic} {state}." if remove else f"Bring the interface {nic} up.",
    )
    return _shell(v, "ip_net", options, f"ip link set {nic} {state}", nic)


def ufw_allow(v: Values) -> Task:
    port, proto = v.port(), v.pick(("tcp", "udp"))
    if v.yes():
        source = v.pick((v.subnet, v.address))()
        options = (
            f"ufw: allow {proto} port {port} from {source}.",
            f"Open {port}/{proto} for {source} only, with ufw.",
            f"Let {source} reach {proto} port {port} (ufw).",
        )
        return _shell(
            v, "ufw_allow", options, f"ufw allow from {source} to any port {port} proto {proto}", source, port
        )
    deny = v.yes()
    say = v.pick(("deny", "block")) if deny else v.pick(("allow", "open"))
    options = (
        f"ufw: {say} {proto} port {port}.",
        f"{say.capitalize()} {port}/{proto} with ufw.",
        f"Firewall (ufw): {say} {proto} port {port} for everyone.",
    )
    return _shell(v, "ufw_allow", options, f"ufw {'deny' if deny else 'allow'} {port}/{proto}", port)


def mount_share(v: Values) -> Task:
    host, share, folder, only = v.host(), v.folder(), v.folder(), v.yes()
    more = " read-only" if only else ""
    options = (
        f"Mount the NFS share {share} of {host} at {folder}{more}.",
        f"NFS: mount {host}, export {share}, on {folder}{more}.",
        f"Attach {host}:{share} (NFS) to {folder}{more}.",
    )
    return _shell(
        v,
        "mount_share",
        options,
        f"mount -t nfs {'-o ro ' if only else ''}{host}:{share} {folder}",
        host,
        share,
        folder,
    )


def user_add(v: Values) -> Task:
    user, group = v.user(), v.unit() if v.yes() else ""
    shell = v.pick(("/bin/bash", "/bin/sh", "/bin/zsh", "/usr/sbin/nologin"))
    more = f", extra group {group}" if group else ""
    options = (
        f"Create the user {user} with a home folder and shell {shell}{more}.",
        f"useradd {user}: home folder, shell {shell}{more}.",
        f"New account {user} with a home folder, {shell} as shell{more}.",
    )
    return _shell(
        v, "user_add", options, f"useradd -m -s {shell}{f' -G {group}' if group else ''} {user}", user, group or user
    )


def held_rsync_pull(v: Values) -> Task:
    there, here, user, host, delete = v.folder(), v.folder(), v.user(), v.host(), v.yes()
    options = (
        f"The other way round: pull {there} from {host} (user {user}) into the local folder {here} with "
        f"rsync{', with delete' if delete else ''}.",
        f"rsync job\nfrom: {user}@{host}, folder {there}\nto: local folder {here}\ndelete extra files: "
        f"{'yes' if delete else 'no'}",
    )
    answer = f"rsync -az {'--delete ' if delete else ''}{user}@{host}:{there}/ {here}/"
    return _shell(v, "held_rsync_pull", options, answer, there, here, user, host)


def held_journal_between(v: Values) -> Task:
    unit = v.unit()
    start, end = sorted((f"{v.date()} {v.time()}", f"{v.date()} {v.time()}"))
    options = (
        f"journalctl of {unit} with --since {start} and --until {end}.",
        f"Journal of unit {unit} since {start} until {end} (options --since and --until, in this order).",
    )
    return _shell(
        v, "held_journal_between", options, f"journalctl -u {unit} --since '{start}' --until '{end}'", unit, start, end
    )


def held_link_mtu(v: Values) -> Task:
    nic, mtu = v.nic(), v.literal(lambda: v.integer(1280, 9216))
    options = (
        f"`ip link set lo mtu 1400` sets the MTU of lo to 1400. Set that of {nic} to {mtu}.",
        f"MTU {mtu} for {nic}, please; for lo and 1400 it was: ip link set lo mtu 1400",
    )
    return _shell(v, "held_link_mtu", options, f"ip link set {nic} mtu {mtu}", nic, mtu)


def held_usermod(v: Values) -> Task:
    user, group = v.user(), v.unit()
    options = (
        f"To add alice to the group wheel we run `usermod -aG wheel alice`. Add {user} to {group}.",
        f"Example: usermod -aG wheel alice (user alice, group wheel). Now for user {user} and group {group}.",
    )
    return _shell(v, "held_usermod", options, f"usermod -aG {group} {user}", user, group)


def held_ufw_deny_from(v: Values) -> Task:
    source, port, proto = v.pick((v.subnet, v.address))(), v.port(), v.pick(("tcp", "udp"))
    options = (
        f"ufw: deny {proto} port {port} from {source}.",
        f"ufw rule\naction: deny\nsource: {source}\nport: {port}\nprotocol: {proto}",
    )
    return _shell(
        v, "held_ufw_deny_from", options, f"ufw deny from {source} to any port {port} proto {proto}", source, port
    )


TRAIN: tuple[Callable[[Values], Task], ...] = (
    ios_access,
    ios_trunk,
    description,
    ios_route,
    bgp_neighbour,
    ios_address,
    ios_acl,
    ios_servers,
    port_channel,
    shut,
    vlan_named,
    eos_route,
    junos_address,
    junos_route,
    junos_bgp,
    junos_servers,
    sql_where,
    sql_where_two,
    sql_top,
    sql_count,
    sql_group,
    sql_distinct,
    sql_update,
    sql_insert,
    sql_delete,
    sql_join,
    sql_index,
    sql_alter,
    docker_run,
    docker_exec,
    docker_logs,
    docker_state,
    docker_cp,
    docker_image,
    compose_service,
    kube_scale,
    kube_image,
    kube_rollout,
    kube_logs,
    kube_node,
    kube_get,
    find_files,
    find_big,
    tar_files,
    rsync_push,
    scp_file,
    chmod_path,
    chown_path,
    systemctl_unit,
    journal,
    grep_text,
    sed_file,
    curl_url,
    openssl_cert,
    dig_name,
    ip_net,
    ufw_allow,
    mount_share,
    user_add,
)

HELD_OUT: tuple[Callable[[Values], Task], ...] = (
    held_port_sheet,
    held_helper,
    held_junos_syslog,
    held_eos_pair,
    held_between,
    held_update_two,
    held_having,
    held_join_where,
    held_drop_column,
    held_podman_run,
    held_kube_restart,
    held_network_connect,
    held_autoscale,
    held_rsync_pull,
    held_journal_between,
    held_link_mtu,
    held_usermod,
    held_ufw_deny_from,
)
