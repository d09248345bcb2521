"""Literals of operations work, drawn from a seeded generator and split by their own text.

Whether a literal is held out is a property of its text alone (``held_out_text``): training never sees one that is, in
any task, and the held-out tasks are made of nothing else. Small closed sets (protocols, replica counts) are not split:
there is nothing to generalise to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
HELD_OUT_ONE_IN = 6

SERVICES = [
    "nginx",
    "postgresql",
    "redis",
    "haproxy",
    "grafana",
    "prometheus",
    "rabbitmq",
    "keycloak",
    "vault",
    "consul",
    "etcd",
    "kafka",
    "traefik",
    "mariadb",
    "loki",
    "gitea",
    "jenkins",
    "minio",
    "bind9",
    "chrony",
    "sshd",
    "exim",
    "dovecot",
    "squid",
    "memcached",
    "caddy",
    "vector",
    "telegraf",
    "influxdb",
    "clickhouse",
    "zookeeper",
    "nats",
    "tempo",
    "harbor",
    "registry",
    "openvpn",
    "wireguard",
    "frr",
    "snapd",
    "cups",
    "fluentd",
    "mosquitto",
    "unbound",
    "nfs",
    "samba",
]
NOUNS = [
    "orders",
    "invoices",
    "users",
    "sessions",
    "payments",
    "tickets",
    "events",
    "devices",
    "shipments",
    "products",
    "accounts",
    "audits",
    "carts",
    "reviews",
    "alerts",
    "backups",
    "leases",
    "metrics",
    "quotas",
    "refunds",
    "sensors",
    "vendors",
    "visits",
    "coupons",
    "parcels",
    "meters",
    "badges",
    "rooms",
    "trips",
    "claims",
]
SITES = [
    "edge",
    "core",
    "db",
    "web",
    "app",
    "mail",
    "cache",
    "log",
    "queue",
    "build",
    "stage",
    "proxy",
    "vpn",
    "lab",
    "dns",
    "auth",
    "files",
    "api",
    "jobs",
    "mon",
    "rack",
    "node",
]
PEOPLE = [
    "amara",
    "bjorn",
    "chen",
    "dara",
    "elif",
    "farid",
    "greta",
    "hiro",
    "ines",
    "jonas",
    "kofi",
    "lena",
    "mateo",
    "nadia",
    "oskar",
    "priya",
    "quinn",
    "rosa",
    "sven",
    "tomas",
]
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "falcon",
    "garnet",
    "harbor",
    "indigo",
    "jasper",
    "kestrel",
    "lumen",
    "maple",
    "nickel",
    "onyx",
    "pewter",
    "quartz",
    "raven",
    "slate",
    "topaz",
    "umber",
    "violet",
    "willow",
    "xenon",
    "yarrow",
    "zinc",
    "alder",
    "basil",
    "coral",
    "dune",
    "fjord",
    "grove",
    "heron",
    "iris",
    "juniper",
]


def held_out_text(text: str) -> bool:
    """Whether a literal is kept from training: one in six, by CRC-32 of its text."""
    return zlib.crc32(text.encode()) % HELD_OUT_ONE_IN == 0


class Values:
    """Draws literals; every literal of one object is on one side of the split."""

    def __init__(self, rng: np.random.Generator, *, held_out: bool) -> None:
        self.rng = rng
        self.held_out = held_out

    def integer(self, low: int, high: int) -> int:
        """An integer of [low, high], not split."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of a closed set, not split."""
        return options[int(self.rng.integers(len(options)))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """``count`` different ones of a closed set, in drawn order."""
        order = self.rng.permutation(len(options))[:count]
        return [options[int(index)] for index in order]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def literal(self, draw: Callable[[], T]) -> T:
        """Draw until the text is on this object's side of the split."""
        while True:
            value = draw()
            if held_out_text(str(value)) == self.held_out:
                return value

    def _hex(self, digits: int) -> str:
        return "".join("0123456789abcdef"[int(index)] for index in self.rng.integers(16, size=digits))

    # Every method below returns one literal; its name is what a catalogue's parameter calls it by.

    def host(self) -> str:
        return self.literal(lambda: f"{self.pick(SITES)}-{self.integer(1, 99)}")

    def fqdn(self) -> str:
        return self.literal(lambda: f"{self.pick(SITES)}{self.integer(1, 60)}.{self.pick(WORDS)}.example")

    def domain(self) -> str:
        return self.literal(lambda: f"{self.pick(WORDS)}-{self.pick(WORDS)}.example")

    def url(self) -> str:
        return self.literal(
            lambda: (
                f"https://{self.pick(SITES)}.{self.pick(WORDS)}.example:{self.integer(1024, 9999)}/{self.pick(NOUNS)}"
            )
        )

    def email(self) -> str:
        return self.literal(lambda: f"{self.pick(PEOPLE)}@{self.pick(WORDS)}.example")

    def user(self) -> str:
        return self.literal(lambda: f"{self.pick(PEOPLE)}{self.integer(1, 99)}")

    def address(self) -> str:
        """An IPv4 address of the ranges kept for documentation and private use."""
        return self.literal(
            lambda: self.pick(
                ("192.0.2.{d}", "198.51.100.{d}", "203.0.113.{d}", "10.{b}.{c}.{d}", "172.16.{c}.{d}")
            ).format(b=self.integer(0, 255), c=self.integer(0, 255), d=self.integer(1, 254))
        )

    def subnet(self) -> str:
        return self.literal(lambda: f"10.{self.integer(0, 255)}.{self.integer(0, 63) * 4}.0/{self.pick((22, 23, 24))}")

    def address6(self) -> str:
        return self.literal(lambda: f"2001:db8:{self._hex(3)}:{self.integer(1, 9)}::{self._hex(2)}")

    def mac(self) -> str:
        return self.literal(lambda: ":".join(["02", *(self._hex(2) for _ in range(5))]))

    def port(self) -> int:
        return self.literal(lambda: self.integer(1024, 49151) if self.chance(0.4) else self.integer(1024, 9999))

    def vlan(self) -> int:
        return self.literal(lambda: self.integer(2, 4094))

    def asn(self) -> int:
        return self.literal(lambda: self.integer(64512, 65534))

    def interface(self) -> str:
        """A switch or router port."""
        return self.literal(
            lambda: self.pick(
                ("GigabitEthernet0/{a}/{b}", "TenGigE0/{a}/0/{b}", "Ethernet{a}/{b}", "xe-0/{a}/{b}", "ge-1/{a}/{b}")
            ).format(a=self.integer(0, 7), b=self.integer(0, 47))
        )

    def nic(self) -> str:
        """A network interface of a host."""
        return self.literal(
            lambda: self.pick(("eth{n}", "ens{n}", "enp{n}s0", "bond{n}", "wg{n}")).format(n=self.integer(0, 60))
        )

    def volume(self) -> str:
        return self.literal(lambda: f"vol-{self._hex(8)}")

    def snapshot(self) -> str:
        return self.literal(lambda: f"snap-{self._hex(8)}")

    def instance(self) -> str:
        return self.literal(lambda: f"i-{self._hex(8)}")

    def uuid(self) -> str:
        return self.literal(lambda: f"{self._hex(8)}-{self._hex(4)}-4{self._hex(3)}-a{self._hex(3)}-{self._hex(12)}")

    def commit(self) -> str:
        return self.literal(lambda: self._hex(7))

    def ticket(self) -> str:
        return self.literal(lambda: f"{self.pick(('OPS', 'NET', 'INC', 'CHG', 'SEC'))}-{self.integer(100, 9999)}")

    def container(self) -> str:
        return self.literal(lambda: f"{self.pick(SITES)}-{self.pick(WORDS)}-{self.integer(1, 30)}")

    def service(self) -> str:
        return self.literal(lambda: self.pick(SERVICES))

    def unit(self) -> str:
        """A service of our own making: a larger set than ``service``."""
        return self.literal(lambda: f"{self.pick(WORDS)}-{self.pick(SITES)}")

    def image(self) -> str:
        return self.literal(lambda: f"registry.example/{self.pick(SITES)}/{self.pick(WORDS)}")

    def version(self) -> str:
        return self.literal(lambda: f"{self.integer(0, 14)}.{self.integer(0, 30)}.{self.integer(0, 20)}")

    def namespace(self) -> str:
        return self.literal(lambda: f"{self.pick(WORDS)}-{self.pick(('prod', 'stage', 'dev', 'test'))}")

    def deployment(self) -> str:
        return self.literal(lambda: f"{self.pick(NOUNS)}-{self.pick(('api', 'worker', 'web', 'cron', 'sync'))}")

    def database(self) -> str:
        return self.literal(lambda: f"{self.pick(NOUNS)}_{self.pick(('prod', 'stage', 'dev', 'archive'))}")

    def table(self) -> str:
        return self.literal(lambda: f"{self.pick(WORDS)}_{self.pick(NOUNS)}")

    def column(self) -> str:
        return self.literal(
            lambda: f"{self.pick(WORDS)}_{self.pick(('id', 'at', 'count', 'total', 'name', 'code', 'state'))}"
        )

    def key(self) -> str:
        """A configuration key."""
        ends = ("timeout", "limit", "size", "path", "level", "retries")
        return self.literal(lambda: f"{self.pick(SITES)}.{self.pick(WORDS)}_{self.pick(ends)}")

    def variable(self) -> str:
        """An environment variable."""
        return self.literal(lambda: f"{self.pick(WORDS)}_{self.pick(NOUNS)}".upper())

    def path(self) -> str:
        return self.literal(
            lambda: self.pick(
                ("/var/log/{w}/{n}.log", "/etc/{w}/{n}.conf", "/srv/{w}/{n}", "/opt/{w}/{n}.yaml", "/data/{w}/{n}")
            ).format(w=self.pick(WORDS), n=self.pick(NOUNS))
        )

    def folder(self) -> str:
        return self.literal(
            lambda: f"/{self.pick(('srv', 'var/lib', 'opt', 'data', 'mnt'))}/{self.pick(WORDS)}-{self.pick(NOUNS)}"
        )

    def bucket(self) -> str:
        return self.literal(lambda: f"{self.pick(WORDS)}-{self.pick(NOUNS)}-{self.integer(1, 99)}")

    def queue(self) -> str:
        return self.literal(lambda: f"{self.pick(NOUNS)}.{self.pick(WORDS)}")

    def job(self) -> str:
        return self.literal(
            lambda: f"{self.pick(('nightly', 'hourly', 'weekly', 'adhoc'))}-{self.pick(NOUNS)}-{self.integer(1, 99)}"
        )

    def zone(self) -> str:
        parts, sides = ("eu", "us", "ap", "sa", "af"), ("north", "south", "east", "west", "central")
        return self.literal(
            lambda: f"{self.pick(parts)}-{self.pick(sides)}-{self.integer(1, 4)}{self.pick('abc')}",
        )

    def number(self) -> int:
        """A number of two to four digits."""
        return self.literal(lambda: self.integer(11, 9999))

    def small(self) -> int:
        """A count such as replicas; not split."""
        return self.integer(2, 12)

    def seconds(self) -> int:
        return self.literal(lambda: self.integer(5, 900))

    def gigabytes(self) -> int:
        return self.literal(lambda: self.integer(10, 4000))

    def percent(self) -> int:
        return self.integer(5, 98)

    def amount(self) -> float:
        return self.literal(lambda: round(self.integer(100, 99999) / 100, 2))

    def date(self) -> str:
        return self.literal(lambda: f"20{self.integer(19, 29)}-{self.integer(1, 12):02d}-{self.integer(1, 28):02d}")

    def time(self) -> str:
        return self.literal(lambda: f"{self.integer(0, 23):02d}:{self.integer(0, 59):02d}")

    def yes(self) -> bool:
        return self.chance(0.5)
