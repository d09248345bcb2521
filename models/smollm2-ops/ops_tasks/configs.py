"""Reading, extracting from and rewriting short configurations and listings.

House style: a question is answered by the value alone; JSON is one line with the separators of ``json.dumps``, a value
of digits alone is an integer; a block or file comes in a fence without a language, a list comes as bare lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from ops_tasks.tasks import Task, simple
from ops_tasks.values import Values

T = TypeVar("T")

VALUE_ONLY = (
    "Answer with the value only.",
    "Reply with the value only.",
    "Only the value, please.",
    "Just the value.",
    "Give the value and nothing else.",
    "No explanation, only the value.",
)


def _distinct(draw: Callable[[], T], count: int) -> list[T]:
    """``count`` different literals, in drawn order."""
    found: list[T] = []
    while len(found) < count:
        value = draw()
        if value not in found:
            found.append(value)
    return found


def _fence(text: str) -> str:
    return f"```\n{text}\n```"


def _show(v: Values, text: str) -> str:
    """A listing as a prompt shows it: bare or in a fence."""
    return _fence(text) if v.chance(0.4) else text


def _wrap(v: Values, words: str, text: str) -> str:
    """The request before or after the listing."""
    shown = _show(v, text)
    return f"{words}\n\n{shown}" if v.chance(0.5) else f"{shown}\n\n{words}"


def _columns(rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns."""
    widths = [max(len(str(row[index])) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _table(v: Values, rows: Sequence[Sequence[object]]) -> str:
    """The same rows as aligned columns, CSV or a table of bars."""
    form = v.integer(0, 2)
    if form == 0:
        return _columns(rows)
    if form == 1:
        return "\n".join(",".join(str(cell) for cell in row) for row in rows)
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


# Questions


def _question(v: Values, template: str, text: str, asked: Sequence[tuple[Sequence[str], object]]) -> Task:
    """A question about one of ``asked``: its wordings and its answer."""
    wordings, answer = v.pick(asked)
    words = v.pick(wordings)
    request = _wrap(v, f"{words} {v.pick(VALUE_ONLY)}", text)
    return simple("question", template, request, str(answer), literals=(answer,))


def _port_words(name: object) -> tuple[str, ...]:
    return (
        f"Which port does {name} listen on?",
        f"What is the port of {name}?",
        f"What port is {name} on?",
        f"I need the port number of {name}.",
    )


def _address_words(name: object) -> tuple[str, ...]:
    return (
        f"What is the address of {name}?",
        f"Which address does {name} have?",
        f"What IP address belongs to {name}?",
        f"I need the address of {name}.",
    )


def _key_words(key: object) -> tuple[str, ...]:
    return (
        f"What is {key} set to?",
        f"What is the value of {key}?",
        f"Which value does {key} have here?",
        f"To what is {key} set?",
    )


def q_nginx(v: Values) -> Task:
    count = v.integer(1, 2)
    ports, names, backs = _distinct(v.port, count * 2), _distinct(v.fqdn, count), _distinct(v.address, count)
    logs = _distinct(v.path, count)
    blocks, asked = [], []
    for index in range(count):
        listen, back = ports[index], ports[count + index]
        name = names[index]
        blocks.append(
            f"server {{\n    listen {listen};\n    server_name {name};\n    access_log {logs[index]};\n"
            f"    location / {{\n        proxy_pass http://{backs[index]}:{back};\n    }}\n}}"
        )
        asked += [
            (_port_words(name), listen),
            (
                (
                    f"To which address does {name} proxy, without the port?",
                    f"What is the backend address of {name}, without the port?",
                ),
                backs[index],
            ),
            ((f"To which port of the backend does {name} proxy?", f"What is the backend port of {name}?"), back),
            ((f"Which access log does {name} write?", f"Where does {name} log its requests?"), logs[index]),
            ((f"Which server_name listens on port {listen}?", f"Which server answers on port {listen}?"), name),
        ]
    return _question(v, "q_nginx", "\n".join(blocks), asked)


def q_ini(v: Values) -> Task:
    sections, hosts, ports = _distinct(v.unit, 3), _distinct(v.host, 3), _distinct(v.port, 3)
    times = _distinct(v.seconds, 3)
    text, asked = [], []
    sign = v.pick((" = ", "="))
    for section, host, port, time in zip(sections, hosts, ports, times, strict=True):
        text.append(f"[{section}]\nhost{sign}{host}\nport{sign}{port}\ntimeout{sign}{time}")
        asked += [
            (_port_words(section), port),
            (
                (
                    f"On which host does {section} run?",
                    f"What is the host of {section}?",
                    f"Which host is set for {section}?",
                ),
                host,
            ),
            (
                (
                    f"What is the timeout of {section}?",
                    f"Which timeout does {section} have?",
                    f"What is timeout in [{section}]?",
                ),
                time,
            ),
            ((f"Which section uses port {port}?", f"Which section has port {port}?"), section),
            ((f"Which section runs on {host}?", f"Which section names host {host}?"), section),
        ]
    return _question(v, "q_ini", v.pick(("\n\n", "\n")).join(text), asked)


def q_yaml(v: Values) -> Task:
    names, images, ports = _distinct(v.deployment, 3), _distinct(v.version, 3), _distinct(v.port, 3)
    users = _distinct(v.user, 3)
    text, asked = [v.pick(("services:", "apps:", "workloads:"))], []
    for name, version, port, user in zip(names, images, ports, users, strict=True):
        text.append(f"  {name}:\n    version: {version}\n    port: {port}\n    owner: {user}")
        asked += [
            (_port_words(name), port),
            (
                (f"Which version of {name} is set?", f"What is the version of {name}?", f"At which version is {name}?"),
                version,
            ),
            ((f"Who owns {name}?", f"Who is the owner of {name}?"), user),
            ((f"What does {user} own?", f"Which entry belongs to {user}?"), name),
            ((f"Which entry has port {port}?", f"What is on port {port}?"), name),
        ]
    return _question(v, "q_yaml", "\n".join(text), asked)


def q_env(v: Values) -> Task:
    names = _distinct(v.variable, 5)
    values = [v.pick((v.port, v.host, v.address, v.path, v.url, v.database, v.seconds))() for _ in names]
    text = "\n".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
    return _question(v, "q_env", text, [(_key_words(name), value) for name, value in zip(names, values, strict=True)])


def q_ip_addr(v: Values) -> Task:
    nics, macs, addresses, sixes = (
        _distinct(v.nic, 2),
        _distinct(v.mac, 2),
        _distinct(v.address, 2),
        _distinct(v.address6, 2),
    )
    mtus = v.some((1280, 1420, 1500, 4096, 9000), 2)
    text, asked = [], []
    for index, nic in enumerate(nics):
        prefix = v.integer(22, 30)
        text.append(
            f"{index + 2}: {nic}: <BROADCAST,UP> mtu {mtus[index]} state UP\n    link/ether {macs[index]}\n"
            f"    inet {addresses[index]}/{prefix} scope global {nic}\n    inet6 {sixes[index]}/64 scope global"
        )
        asked += [
            (
                (
                    f"What is the IPv4 address of {nic}, without the prefix length?",
                    f"Which IPv4 address does {nic} have? Leave the prefix length out.",
                ),
                addresses[index],
            ),
            (
                (
                    f"What is the IPv4 address of {nic}, with the prefix length?",
                    f"Which IPv4 address and prefix length does {nic} have?",
                ),
                f"{addresses[index]}/{prefix}",
            ),
            ((f"What is the MAC address of {nic}?", f"Which MAC address does {nic} have?"), macs[index]),
            ((f"What is the MTU of {nic}?", f"Which MTU does {nic} use?"), mtus[index]),
            (
                (
                    f"What is the IPv6 address of {nic}, without the prefix length?",
                    f"Which IPv6 address is on {nic}? Leave the prefix length out.",
                ),
                sixes[index],
            ),
            (
                (f"Which interface has the address {addresses[index]}?", f"On which interface is {addresses[index]}?"),
                nic,
            ),
        ]
    return _question(v, "q_ip_addr", "\n".join(text), asked)


def q_host_table(v: Values) -> Task:
    count = v.integer(3, 5)
    hosts, addresses, zones, users = (
        _distinct(v.host, count),
        _distinct(v.address, count),
        _distinct(v.zone, count),
        _distinct(v.user, count),
    )
    order = v.some((0, 1, 2, 3), 4)
    rows = [
        [(host, address, zone, user)[at] for at in order]
        for host, address, zone, user in zip(hosts, addresses, zones, users, strict=True)
    ]
    asked = []
    for host, address, zone, user in zip(hosts, addresses, zones, users, strict=True):
        asked += [
            (_address_words(host), address),
            ((f"In which zone is {host}?", f"What is the zone of {host}?", f"Which zone does {host} stand in?"), zone),
            ((f"Who owns {host}?", f"Who is the owner of {host}?"), user),
            (
                (
                    f"Which host has the address {address}?",
                    f"To which host does {address} belong?",
                    f"On which host is {address}?",
                ),
                host,
            ),
            ((f"Which host is in {zone}?", f"Which host does {user} own?"), host),
        ]
    head = [("host", "address", "zone", "owner")[at] for at in order]
    return _question(v, "q_host_table", _table(v, [head, *rows]), asked)


def q_systemd(v: Values) -> Task:
    (unit, after), user, folder, path, seconds = _distinct(v.unit, 2), v.user(), v.folder(), v.path(), v.seconds()
    port = v.port()
    text = (
        f"[Unit]\nDescription={unit}\nAfter={after}.service\n\n[Service]\nUser={user}\nWorkingDirectory={folder}\n"
        f"ExecStart=/usr/bin/{unit} --config {path} --port {port}\nRestartSec={seconds}"
    )
    return _question(
        v,
        "q_systemd",
        text,
        [
            ((f"As which user does {unit} run?", "Which user runs this service?", "What is User set to?"), user),
            (("After which unit does this one start?", "What is After set to?"), f"{after}.service"),
            ((f"What is the working directory of {unit}?", "In which directory does the service run?"), folder),
            ((f"Which configuration file does {unit} read?", "Which file is given with --config?"), path),
            (_port_words(unit), port),
            (("What is RestartSec?", "How many seconds pass before a restart?"), seconds),
        ],
    )


def q_compose(v: Values) -> Task:
    names, images, folders = _distinct(v.deployment, 2), _distinct(v.image, 2), _distinct(v.folder, 2)
    ports = _distinct(v.port, 4)
    text, asked = ["services:"], []
    for index, name in enumerate(names):
        outer, inner = ports[index * 2], ports[index * 2 + 1]
        version = v.version()
        text.append(
            f"  {name}:\n    image: {images[index]}:{version}\n    ports:"
            f'\n      - "{outer}:{inner}"\n    volumes:\n      - {folders[index]}:/data'
        )
        asked += [
            (
                (
                    f"On which host port is {name} published?",
                    f"What is the host port of {name}?",
                    f"Which port of the host leads to {name}?",
                ),
                outer,
            ),
            (
                (f"What is the container port of {name}?", f"On which port inside the container does {name} listen?"),
                inner,
            ),
            (
                (f"Which image does {name} use, with its tag?", f"What is the image of {name}, tag included?"),
                f"{images[index]}:{version}",
            ),
            ((f"Which tag of the image does {name} use?", f"What is the image tag of {name}?"), version),
            (
                (f"Which host folder is mounted in {name}?", f"What host path does {name} mount at /data?"),
                folders[index],
            ),
        ]
    return _question(v, "q_compose", "\n".join(text), asked)


def q_hosts_file(v: Values) -> Task:
    count = v.integer(3, 5)
    addresses, names, shorts = _distinct(v.address, count), _distinct(v.fqdn, count), _distinct(v.host, count)
    gap = v.pick(("\t", " ", "    "))
    rows = ["127.0.0.1" + gap + "localhost"] if v.chance(0.5) else []
    asked = []
    for address, name, short in zip(addresses, names, shorts, strict=True):
        rows.append(f"{address}{gap}{name} {short}")
        asked += [
            (_address_words(name), address),
            (_address_words(short), address),
            ((f"What is the short name of {name}?", f"Which alias does {name} have?"), short),
            ((f"What is the full name of {short}?", f"Which full name stands for {address}?"), name),
        ]
    return _question(v, "q_hosts_file", "\n".join(rows), asked)


def q_directives(v: Values) -> Task:
    """Lines of ``key value``, as sshd or redis read them, some commented out."""
    keys = _distinct(v.key, 5)
    values = [v.pick((v.number, v.path, v.address, v.seconds, v.gigabytes, v.host))() for _ in keys]
    old = v.number()
    lines = [f"{key} {value}" for key, value in zip(keys, values, strict=True)]
    if v.chance(0.4) and old != values[2]:
        lines.insert(2, f"# {keys[2]} {old}")
    return _question(
        v, "q_directives", "\n".join(lines), [(_key_words(key), value) for key, value in zip(keys, values, strict=True)]
    )


def q_toml(v: Values) -> Task:
    names, hosts, ports, bases = (
        _distinct(v.unit, 2),
        _distinct(v.fqdn, 2),
        _distinct(v.port, 2),
        _distinct(v.database, 2),
    )
    text, asked = [], []
    for name, host, port, base in zip(names, hosts, ports, bases, strict=True):
        text.append(f'[backend.{name}]\nserver = "{host}"\nport = {port}\ndatabase = "{base}"\nenabled = true')
        asked += [
            (_port_words(name), port),
            ((f"Which server does {name} use?", f"What is the server of {name}?"), host),
            ((f"Which database does {name} use?", f"What is the database of {name}?"), base),
            ((f"Which backend uses the database {base}?", f"Which backend has port {port}?"), name),
        ]
    return _question(v, "q_toml", "\n\n".join(text), asked)


def q_leases(v: Values) -> Task:
    addresses, macs, hosts = _distinct(v.address, 2), _distinct(v.mac, 2), _distinct(v.host, 2)
    text, asked = [], []
    for address, mac, host in zip(addresses, macs, hosts, strict=True):
        end = f"{v.date()} {v.time()}"
        text.append(f'lease {address} {{\n  ends {end};\n  hardware ethernet {mac};\n  client-hostname "{host}";\n}}')
        asked += [
            (_address_words(host), address),
            ((f"What is the MAC address of {host}?", f"Which MAC address holds the lease {address}?"), mac),
            ((f"Which host holds the lease of {address}?", f"Which host has the MAC address {mac}?"), host),
            ((f"When does the lease of {host} end?", f"Until when is {address} leased?"), end),
        ]
    return _question(v, "q_leases", "\n".join(text), asked)


def q_crontab(v: Values) -> Task:
    paths, users = _distinct(v.folder, 4), _distinct(v.user, 4)
    times = _distinct(lambda: (v.integer(0, 59), v.integer(0, 23)), 4)
    text, asked = [], []
    for path, user, (minute, hour) in zip(paths, users, times, strict=True):
        script = f"{path}.sh"
        text.append(f"{minute} {hour} * * * {user} {script}")
        asked += [
            ((f"As which user does {script} run?", f"Which user runs {script}?"), user),
            ((f"Which script does {user} run?", f"What does {user} run?"), script),
            (
                (
                    f"Which script runs every day at {hour:02d}:{minute:02d}?",
                    f"What is started at {hour:02d}:{minute:02d}?",
                ),
                script,
            ),
        ]
    return _question(v, "q_crontab", "\n".join(text), asked)


def q_sockets(v: Values) -> Task:
    count = v.integer(3, 4)
    names, addresses, ports, pids = (
        _distinct(v.unit, count),
        _distinct(v.address, count),
        _distinct(v.port, count),
        _distinct(v.number, count),
    )
    rows: list[tuple[object, ...]] = [("State", "Recv-Q", "Local Address:Port", "Process")]
    asked = []
    for name, address, port, pid in zip(names, addresses, ports, pids, strict=True):
        rows.append(("LISTEN", 0, f"{address}:{port}", f'users:(("{name}",pid={pid},fd=6))'))
        asked += [
            (_port_words(name), port),
            (
                (
                    f"On which address does {name} listen, without the port?",
                    f"Which local address does {name} use? Leave the port out.",
                ),
                address,
            ),
            ((f"What is the pid of {name}?", f"Which process id does {name} have?"), pid),
            ((f"Which process listens on port {port}?", f"What holds port {port}?"), name),
        ]
    return _question(v, "q_sockets", _columns(rows), asked)


# JSON


def _json_words(v: Values, names: Sequence[str]) -> str:
    fields = _and(names) if v.chance(0.6) else ", ".join(names)
    return v.pick(
        (
            f"Write this as one line of JSON with the fields {fields}, in this order.",
            f"Extract {fields} as one line of JSON, in that order.",
            f"Give me a JSON object on one line. Fields, in order: {fields}.",
            f"Turn it into JSON (one line) with the keys {fields}.",
            f"As JSON on a single line, please; keys in this order: {fields}.",
            f"I need {fields} from this, as one line of JSON.",
        )
    )


def _list_words(v: Values, names: Sequence[str]) -> str:
    fields = _and(names) if v.chance(0.6) else ", ".join(names)
    return v.pick(
        (
            f"Write these as a JSON list on one line, one object for each, with the fields {fields}, in this order.",
            f"Turn them into a list of JSON objects on one line. Fields, in order: {fields}.",
            f"Give me one line of JSON: a list of objects with the keys {fields}.",
            f"As a JSON list on a single line, please; each object has the keys {fields}, in this order.",
        )
    )


Fields = Sequence[tuple[Sequence[str], object]]


def _record(v: Values, template: str, text: str, fields: Fields) -> Task:
    """Some of ``fields`` (the names each may have, its value), in drawn order, as one object."""
    chosen = v.some(fields, v.integer(2, min(5, len(fields))))
    made = {v.pick(names): value for names, value in chosen}
    request = _wrap(v, _json_words(v, list(made)), text)
    return simple("json", template, request, json.dumps(made), literals=tuple(made.values()))


def _records(
    v: Values, template: str, text: str, names: Sequence[Sequence[str]], rows: Sequence[Sequence[object]]
) -> Task:
    """The rows as a list of objects, some of the fields in drawn order."""
    chosen = v.some(range(len(names)), v.integer(2, min(3, len(names))))
    keys = [v.pick(names[at]) for at in chosen]
    made = [{key: row[at] for key, at in zip(keys, chosen, strict=True)} for row in rows]
    request = _wrap(v, _list_words(v, keys), text)
    return simple(
        "json", template, request, json.dumps(made), literals=tuple(value for item in made for value in item.values())
    )


HOST = ("host", "server", "machine", "hostname")
PORT = ("port", "port_number")
ADDRESS = ("address", "ip", "ip_address")
USER = ("user", "username", "login")
TICKET = ("ticket", "ticket_id", "reference")


def j_mail(v: Values) -> Task:
    host, port, address, ticket, mail = v.host(), v.port(), v.address(), v.ticket(), v.email()
    text = v.pick(
        (
            f"From: {mail}\n\nHello, please open port {port} on {host} for {address}. The ticket is {ticket}. Thanks!",
            f"From: {mail}\nSubject: {ticket}\n\nHi, {address} cannot reach {host} on port {port} any more.",
            f"Hi team, for {ticket} we need {address} to reach port {port} of {host}. Questions to {mail}.",
        )
    )
    return _record(
        v,
        "j_mail",
        text,
        [
            (HOST, host),
            (PORT, port),
            (("source", "client", "from_address"), address),
            (TICKET, ticket),
            (("mail", "email", "sender"), mail),
        ],
    )


def j_auth_log(v: Values) -> Task:
    date, time, host, user, address, port, pid = (
        v.date(),
        v.time(),
        v.host(),
        v.user(),
        v.address(),
        v.port(),
        v.number(),
    )
    what = v.pick(("Failed password", "Accepted publickey", "Accepted password", "Invalid key"))
    text = f"{date} {time} {host} sshd[{pid}]: {what} for {user} from {address} port {port} ssh2"
    return _record(
        v,
        "j_auth_log",
        text,
        [
            (("date", "day"), date),
            (("time", "at"), time),
            (HOST, host),
            (USER, user),
            (ADDRESS, address),
            (PORT, port),
            (("pid", "process_id"), pid),
        ],
    )


def j_alert(v: Values) -> Task:
    host, path, used, zone, ticket = v.host(), v.folder(), v.percent(), v.zone(), v.ticket()
    level = v.pick(("critical", "warning", "major", "minor"))
    text = v.pick(
        (
            f"[{level}] {host} ({zone}): {path} is at {used} % ({ticket})",
            f"Alert {ticket}: level {level}, {path} on {host} in {zone} is {used} percent full.",
            f"{ticket} {zone}/{host} disk {path} used {used} % severity {level}",
        )
    )
    return _record(
        v,
        "j_alert",
        text,
        [
            (HOST, host),
            (("path", "mount", "folder"), path),
            (("used", "percent", "used_percent"), used),
            (("zone", "location"), zone),
            (("level", "severity"), level),
            (TICKET, ticket),
        ],
    )


def j_table_row(v: Values) -> Task:
    fields: list[tuple[Sequence[str], object]] = [
        (("host",), v.host()),
        (("address",), v.address()),
        (("port",), v.port()),
        (("owner",), v.user()),
        (("zone",), v.zone()),
        (("vlan",), v.vlan()),
        (("mac",), v.mac()),
    ]
    shown = v.some(fields, v.integer(4, 6))
    text = _table(v, [[names[0] for names, _ in shown], [value for _, value in shown]])
    return _record(v, "j_table_row", text, shown)


def j_logfmt(v: Values) -> Task:
    fields: list[tuple[Sequence[str], object]] = [
        (("service",), v.unit()),
        (("host",), v.host()),
        (("port",), v.port()),
        (("status",), v.pick((200, 204, 400, 403, 404, 500, 502, 503))),
        (("took_ms",), v.number()),
        (("path",), v.path()),
        (("client",), v.address()),
        (("commit",), f"c{v.commit()}"),
    ]
    shown = v.some(fields, v.integer(4, 6))
    level = v.pick(("info", "warn", "error"))
    text = f"level={level} " + " ".join(f"{names[0]}={value}" for names, value in shown)
    return _record(v, "j_logfmt", text, [(("level",), level), *shown])


def j_volume(v: Values) -> Task:
    volume, size, instance, zone, snapshot = v.volume(), v.gigabytes(), v.instance(), v.zone(), v.snapshot()
    text = v.pick(
        (
            f"Volume {volume} has {size} GB and is attached to {instance} in {zone}. Its last snapshot is {snapshot}.",
            f"{instance} ({zone}) uses {volume}, size {size} GB, last snapshot {snapshot}.",
            f"Note: we took {snapshot} of {volume} ({size} GB) before {instance} in {zone} was stopped.",
        )
    )
    return _record(
        v,
        "j_volume",
        text,
        [
            (("volume", "volume_id"), volume),
            (("size_gb", "gigabytes", "size"), size),
            (("instance", "instance_id"), instance),
            (("zone",), zone),
            (("snapshot", "snapshot_id"), snapshot),
        ],
    )


def j_service_list(v: Values) -> Task:
    count = v.integer(2, 3)
    rows = list(zip(_distinct(v.unit, count), _distinct(v.host, count), _distinct(v.port, count), strict=True))
    pattern = v.pick(
        ("{0} runs on {1}, port {2}", "{0} is on {1} and listens on {2}", "on {1} there is {0} with port {2}")
    )
    text = v.pick(("; ", "\n", ". ")).join(pattern.format(*row) for row in rows)
    return _records(v, "j_service_list", text, [("service", "name", "unit"), HOST, PORT], rows)


def j_rows_list(v: Values) -> Task:
    count = v.integer(2, 3)
    rows = list(
        zip(
            _distinct(v.host, count),
            _distinct(v.address, count),
            _distinct(v.vlan, count),
            _distinct(v.user, count),
            strict=True,
        )
    )
    text = _table(v, [("host", "address", "vlan", "owner"), *rows])
    return _records(v, "j_rows_list", text, [("host",), ("address",), ("vlan",), ("owner",)], rows)


def j_access_log(v: Values) -> Task:
    address, user, date, time, size, site = v.address(), v.user(), v.date(), v.time(), v.number(), v.fqdn()
    status, method, path = (
        v.pick((200, 201, 301, 403, 404, 500, 502)),
        v.pick(("GET", "POST", "PUT", "DELETE")),
        v.folder(),
    )
    text = f'{site} {address} - {user} [{date} {time}] "{method} {path} HTTP/1.1" status {status} bytes {size}'
    return _record(
        v,
        "j_access_log",
        text,
        [
            (("site", "vhost"), site),
            (("client", "address"), address),
            (("user",), user),
            (("method", "verb"), method),
            (("path",), path),
            (("status",), status),
            (("bytes",), size),
        ],
    )


def j_release_note(v: Values) -> Task:
    name, version, space, user, ticket, replicas = (
        v.deployment(),
        v.version(),
        v.namespace(),
        v.user(),
        v.ticket(),
        v.small(),
    )
    text = v.pick(
        (
            f"{user} rolled out version {version} of {name} to {space} with {replicas} replicas, see {ticket}.",
            f"{ticket}: {name} in {space} now runs version {version} ({replicas} replicas). Done by {user}.",
        )
    )
    return _record(
        v,
        "j_release_note",
        text,
        [
            (("deployment", "app"), name),
            (("version",), version),
            (("namespace",), space),
            (("user", "by"), user),
            (("ticket", "change"), ticket),
            (("replicas",), replicas),
        ],
    )


def j_peer_list(v: Values) -> Task:
    count = v.integer(2, 3)
    rows = list(zip(_distinct(v.address, count), _distinct(v.asn, count), _distinct(v.interface, count), strict=True))
    pattern = v.pick(("neighbour {0} in AS {1} over {2}", "{2}: peer {0}, AS {1}"))
    text = v.pick(("\n", "; ")).join(pattern.format(*row) for row in rows)
    return _records(
        v, "j_peer_list", text, [("peer", "neighbour", "address"), ("asn", "as_number"), ("interface",)], rows
    )


# Copies and rewrites


def _copy_words(v: Values, block: str) -> str:
    return v.pick(
        (
            f"Copy {block} to the letter, in a code block.",
            f"Show only {block}, unchanged, in a code block.",
            f"Repeat {block} exactly as it stands, in a code block.",
            f"Print {block} in a code block and change nothing.",
        )
    )


def _change_words(v: Values, what: str, new: object) -> str:
    return v.pick(
        (
            f"Set {what} to {new} and show the whole file in a code block.",
            f"Change {what} to {new}. Give me the whole new file in a code block.",
            f"The same file in a code block, but with {what} set to {new}.",
            f"Write the file again in a code block with {what} changed to {new}; leave the rest as it is.",
        )
    )


def _lines_words(v: Values, what: str) -> str:
    return v.pick(
        (
            f"List {what}, one a line, in order of occurrence.",
            f"Give me {what}, one per line, in the order in which they occur. Nothing else.",
            f"Write out {what}, each on its own line, in order.",
            f"Only {what} from this, please: one a line, in the same order.",
        )
    )


def _copied(v: Values, template: str, blocks: Sequence[str], at: int, words: str, literals: Sequence[object]) -> Task:
    request = _wrap(v, words, v.pick(("\n\n", "\n")).join(blocks))
    return simple("literal-copy", template, request, _fence(blocks[at]), literals=tuple(literals))


def _changed(
    v: Values, template: str, lines: Sequence[str], at: int, line: str, words: str, literals: Sequence[object]
) -> Task:
    request = _wrap(v, words, "\n".join(lines))
    answer = _fence("\n".join([*lines[:at], line, *lines[at + 1 :]]))
    return simple("literal-copy", template, request, answer, literals=tuple(literals))


def _other(draw: Callable[[], T], old: object) -> T:
    """A literal whose text is not that of ``old``."""
    while str(new := draw()) == str(old):
        pass
    return new


def c_ssh_block(v: Values) -> Task:
    names, addresses, users, ports = (
        _distinct(v.host, 3),
        _distinct(v.address, 3),
        _distinct(v.user, 3),
        _distinct(v.port, 3),
    )
    pad = v.pick(("  ", "    "))
    rows = list(zip(names, addresses, users, ports, strict=True))
    blocks = [
        f"Host {name}\n{pad}HostName {address}\n{pad}User {user}\n{pad}Port {port}"
        for name, address, user, port in rows
    ]
    at = v.integer(0, 2)
    words = _copy_words(
        v, v.pick((f"the block of host {names[at]}", f"the entry of {names[at]}", f"the block for {names[at]}"))
    )
    return _copied(v, "c_ssh_block", blocks, at, words, rows[at])


def c_ini_section(v: Values) -> Task:
    names, hosts, paths, numbers = (
        _distinct(v.unit, 3),
        _distinct(v.host, 3),
        _distinct(v.path, 3),
        _distinct(v.seconds, 3),
    )
    sign = v.pick((" = ", "="))
    rows = list(zip(names, hosts, paths, numbers, strict=True))
    blocks = [
        f"[{name}]\nhost{sign}{host}\nlog{sign}{path}\ninterval{sign}{number}" for name, host, path, number in rows
    ]
    at = v.integer(0, 2)
    words = _copy_words(
        v, v.pick((f"the section {names[at]}", f"the section [{names[at]}]", f"the block of {names[at]}"))
    )
    return _copied(v, "c_ini_section", blocks, at, words, rows[at])


def c_env_change(v: Values) -> Task:
    names = _distinct(v.variable, v.integer(4, 6))
    draws = [v.pick((v.port, v.host, v.address, v.path, v.database, v.seconds)) for _ in names]
    values = [str(draw()) for draw in draws]
    at = v.integer(0, len(names) - 1)
    new = str(_other(draws[at], values[at]))
    lines = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
    return _changed(
        v, "c_env_change", lines, at, f"{names[at]}={new}", _change_words(v, names[at], new), [*names, *values, new]
    )


def c_yaml_change(v: Values) -> Task:
    draws: dict[str, Callable[[], object]] = {
        "host": v.fqdn,
        "port": v.port,
        "user": v.user,
        "database": v.database,
        "timeout": v.seconds,
        "log": v.path,
        "version": v.version,
        "zone": v.zone,
    }
    keys = v.some(list(draws), v.integer(3, 6))
    head = v.unit()
    values = {key: draws[key]() for key in keys}
    key = v.pick(keys)
    new = _other(draws[key], values[key])
    pad = v.pick(("  ", "    "))
    lines = [f"{head}:", *(f"{pad}{name}: {value}" for name, value in values.items())]
    what = v.pick((key, f"the {key}", f"{key} of {head}"))
    literals = [head, *values.values(), new]
    return _changed(
        v, "c_yaml_change", lines, keys.index(key) + 1, f"{pad}{key}: {new}", _change_words(v, what, new), literals
    )


def c_addresses(v: Values) -> Task:
    addresses = _distinct(v.address, v.integer(3, 5))
    form = v.integer(0, 3)
    if form == 0:
        text = "\n".join(f"{address} {v.host()}" for address in addresses)
    elif form == 1:
        text = "\n".join(
            f"{v.date()} {v.time()} {v.host()}: connection from {address} port {v.port()}" for address in addresses
        )
    elif form == 2:
        text = "\n".join(f"{v.host()}: address {address}, owner {v.user()}" for address in addresses)
    else:
        text = f"Allow {_and(addresses)} to reach {v.host()} on port {v.port()}."
    words = _lines_words(v, v.pick(("all addresses", "the IP addresses", "the addresses")))
    return simple("literal-copy", "c_addresses", _wrap(v, words, text), "\n".join(addresses), literals=tuple(addresses))


def c_ports(v: Values) -> Task:
    ports = _distinct(v.port, v.integer(3, 5))
    form = v.integer(0, 3)
    if form == 0:
        text = "\n".join(f"{v.unit()}: port {port}" for port in ports)
    elif form == 1:
        text = "\n".join(f"LISTEN {v.address()}:{port} {v.unit()}" for port in ports)
    elif form == 2:
        text = "\n".join(f"allow tcp from {v.subnet()} to port {port}" for port in ports)
    else:
        text = f"On {v.host()} the ports {_and([str(port) for port in ports])} are open."
    words = _lines_words(v, v.pick(("all ports", "the port numbers", "the ports")))
    return simple(
        "literal-copy", "c_ports", _wrap(v, words, text), "\n".join(str(port) for port in ports), literals=tuple(ports)
    )


def c_export(v: Values) -> Task:
    names = _distinct(v.variable, v.integer(2, 4))
    values = [v.pick((v.port, v.host, v.address, v.path, v.url, v.database))() for _ in names]
    lines = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
    words = v.pick(
        (
            "Turn each line into `export KEY=value`. Only the lines.",
            "Write these as export lines for a shell: `export KEY=value`, one a line.",
            "Put `export ` before each of these lines and give me the result.",
            "Make shell export lines of these variables (`export KEY=value`). Nothing else.",
        )
    )
    return simple(
        "literal-copy",
        "c_export",
        _wrap(v, words, "\n".join(lines)),
        "\n".join(f"export {line}" for line in lines),
        literals=(*names, *values),
    )


def c_table_lines(v: Values) -> Task:
    count = v.integer(3, 4)
    rows = list(zip(_distinct(v.host, count), _distinct(v.port, count), _distinct(v.user, count), strict=True))
    order = v.some((0, 1, 2), 3)
    shown = [[("host", "port", "owner")[at] for at in order], *([row[at] for at in order] for row in rows)]
    form, made = v.pick(
        (
            ("host:port", "{0}:{1}"),
            ("host:port", "{0}:{1}"),
            ("owner@host", "{2}@{0}"),
            ("port host", "{1} {0}"),
            ("host=owner", "{0}={2}"),
        )
    )
    words = v.pick(
        (
            f"Turn the table into lines `{form}`, one for each row.",
            f"Write each row as `{form}`, one a line. Nothing else.",
            f"From this table I need one line per row: `{form}`.",
            f"Give me `{form}` for every row, each on its own line.",
        )
    )
    lines = [made.format(*row) for row in rows]
    literals = tuple(value for row in rows for value in row)
    return simple(
        "literal-copy", "c_table_lines", _wrap(v, words, _table(v, shown)), "\n".join(lines), literals=literals
    )


def c_dhcp_block(v: Values) -> Task:
    rows = list(zip(_distinct(v.host, 3), _distinct(v.mac, 3), _distinct(v.address, 3), strict=True))
    blocks = [
        f"host {host} {{\n  hardware ethernet {mac};\n  fixed-address {address};\n}}" for host, mac, address in rows
    ]
    at = v.integer(0, 2)
    words = _copy_words(v, v.pick((f"the block of host {rows[at][0]}", f"the host block for {rows[at][0]}")))
    return _copied(v, "c_dhcp_block", blocks, at, words, rows[at])


def c_unit_change(v: Values) -> Task:
    draws: dict[str, Callable[[], object]] = {
        "User": v.user,
        "WorkingDirectory": v.folder,
        "EnvironmentFile": v.path,
        "RestartSec": v.seconds,
        "LimitNOFILE": v.number,
    }
    keys = v.some(list(draws), v.integer(3, 5))
    values = {key: draws[key]() for key in keys}
    key = v.pick(keys)
    new = _other(draws[key], values[key])
    unit = v.unit()
    lines = ["[Service]", f"ExecStart=/usr/bin/{unit}", *(f"{name}={value}" for name, value in values.items())]
    return _changed(
        v,
        "c_unit_change",
        lines,
        keys.index(key) + 2,
        f"{key}={new}",
        _change_words(v, key, new),
        [unit, *values.values(), new],
    )


def c_hosts_lines(v: Values) -> Task:
    count = v.integer(3, 4)
    rows = list(zip(_distinct(v.fqdn, count), _distinct(v.address, count), strict=True))
    pattern = v.pick(("{0} has the address {1}", "{0} -> {1}", "name {0}, address {1}"))
    text = v.pick(("; ", "\n")).join(pattern.format(*row) for row in rows)
    words = v.pick(
        (
            "Write each of these as `address name`, one a line, as in a hosts file.",
            "Turn them into lines `address name`, one for each.",
            "For a hosts file I need one line each: `address name`. Nothing else.",
        )
    )
    lines = [f"{address} {name}" for name, address in rows]
    literals = tuple(value for row in rows for value in row)
    return simple("literal-copy", "c_hosts_lines", _wrap(v, words, text), "\n".join(lines), literals=literals)


TRAIN: tuple[Callable[[Values], Task], ...] = (
    q_nginx,
    q_ini,
    q_yaml,
    q_env,
    q_ip_addr,
    q_host_table,
    q_systemd,
    q_compose,
    q_hosts_file,
    q_directives,
    j_mail,
    j_auth_log,
    j_alert,
    j_table_row,
    j_logfmt,
    j_volume,
    j_service_list,
    j_rows_list,
    c_ssh_block,
    c_ini_section,
    c_env_change,
    c_yaml_change,
    c_addresses,
    c_ports,
    c_export,
    c_table_lines,
)
HELD_OUT: tuple[Callable[[Values], Task], ...] = (
    q_toml,
    q_leases,
    q_crontab,
    q_sockets,
    j_access_log,
    j_release_note,
    j_peer_list,
    c_dhcp_block,
    c_unit_change,
    c_hosts_lines,
)
