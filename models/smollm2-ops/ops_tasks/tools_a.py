"""Tools of networking, of hosts and their services, and of storage."""

from __future__ import annotations

from ops_tasks.catalogue import Param, Tool


def _param(name: str, draws: str, *aliases: str, also: str = "") -> Param:
    return Param(name=name, draws=draws, aliases=aliases, also=also)


def _enum(name: str, choices: str, *aliases: str, also: str = "") -> Param:
    return Param(name=name, choices=tuple(choices.split()), aliases=aliases, also=also)


def _tool(name: str, about: str, params: tuple[Param, ...], asks: tuple[str, ...], done: str, *aliases: str) -> Tool:
    return Tool(name=name, about=about, params=params, asks=asks, done=done, aliases=aliases)


HOST = _param("host", "host", "hostname", "server", "node", "target")
MACHINE = _param("host", "fqdn", "hostname", "fqdn", "machine", "target_host")
PORT = _param("port", "port", "port_number", "dst_port", "service_port")
PROTOCOL = _enum("protocol", "tcp udp", "proto", "ip_protocol", "transport")
INTERFACE = _param("interface", "interface", "iface", "port_name", "switchport")
NIC = _param("nic", "nic", "interface", "iface", "device", "link")
ADDRESS = _param("address", "address", "ip", "ip_address", "addr")
SUBNET = _param("subnet", "subnet", "cidr", "network", "prefix")
VLAN = _param("vlan", "vlan", "vlan_id", "vid", "tag")
ASN = _param("asn", "asn", "remote_as", "peer_asn", "as_number")
SERVICE = _param("service", "service", "unit", "service_name", "daemon")
UNIT = _param("unit", "unit", "service", "unit_name", "systemd_unit")
USER = _param("user", "user", "username", "login", "account")
PATH = _param("path", "path", "file", "file_path", "filename")
FOLDER = _param("folder", "folder", "directory", "dir", "dir_path")
VOLUME = _param("volume", "volume", "volume_id", "vol", "disk_id")
SNAPSHOT = _param("snapshot", "snapshot", "snapshot_id", "snap", "snap_id")
INSTANCE = _param("instance", "instance", "instance_id", "vm", "vm_id")
BUCKET = _param("bucket", "bucket", "bucket_name", "container", "store")
SIZE = _param("size", "gigabytes", "size_gb", "gigabytes", "capacity_gb")
ZONE = _param("zone", "zone", "availability_zone", "az", "location")
MOUNT = _param("mount_point", "folder", "mountpoint", "mount_path", "directory")
DOMAIN = _param("domain", "domain", "zone", "dns_zone", "domain_name")


NETWORK = (
    _tool(
        "open_port",
        "Open a port in a host's firewall.",
        (
            HOST,
            PORT,
            PROTOCOL,
            _param("source", "subnet", "from_cidr", "allow_from", also=" only for clients from {source}"),
        ),
        (
            "Open port {port}/{protocol} on {host}",
            "{host}: open {port}/{protocol}",
            "The health checks cannot get in, so please allow {protocol} port {port} on {host}",
            "Can you let {protocol} traffic to port {port} through the firewall of {host}",
        ),
        "{host}: port {port}/{protocol} is open",
        "firewall_open_port", "openPort", "firewall.open", "allow-port",
    ),
    _tool(
        "close_port",
        "Close a port in a host's firewall.",
        (HOST, PORT, PROTOCOL),
        (
            "Close {port}/{protocol} on {host}",
            "On {host}, port {port} ({protocol}) must not be reachable any more, close it",
            "{host}: shut {protocol}/{port}",
            "Nobody uses it since the migration: close {protocol} port {port} on {host}",
        ),
        "{host}: port {port}/{protocol} is closed",
        "firewall_close_port", "closePort", "firewall.close", "deny-port",
    ),
    _tool(
        "block_address",
        "Drop all traffic from an address at a firewall.",
        (
            _param("firewall", "host", "device", "gateway", "fw"),
            ADDRESS,
            _param("duration", "seconds", "duration_s", "ttl_seconds", also=" for {duration} seconds"),
        ),
        (
            "Block {address} on {firewall}",
            "{address} keeps trying passwords, drop it at {firewall}",
            "{firewall}: block {address}",
            "Could you have {firewall} refuse everything from {address}",
        ),
        "{firewall} now drops traffic from {address}",
        "ban_ip", "blockAddress", "firewall.block", "block-ip",
    ),
    _tool(
        "allow_subnet",
        "Allow a subnet to reach a port of a host.",
        (MACHINE, SUBNET, PORT),
        (
            "Allow {subnet} to reach port {port} on {host}",
            "{host}: accept {port} from {subnet}",
            "The new office needs access, so let {subnet} in to {host} on port {port}",
            "Port {port} of {host} should accept connections from {subnet}",
        ),
        "{subnet} may reach {host} on port {port}",
        "add_allow_rule", "allowSubnet", "firewall.allow_subnet", "permit-network",
    ),
    _tool(
        "add_route",
        "Add a static route on a host.",
        (
            HOST,
            _param("subnet", "subnet", "destination", "prefix", "dest_cidr"),
            _param("gateway", "address", "next_hop", "via", "gw"),
            _param("metric", "number", "priority", "cost", also=" with metric {metric}"),
        ),
        (
            "Add a route to {subnet} via {gateway} on {host}",
            "{host}: route {subnet} -> {gateway}",
            "On {host}, send traffic for {subnet} through {gateway}",
            "Packets for {subnet} get lost on {host}; please add a static route with next hop {gateway}",
        ),
        "{host}: {subnet} via {gateway} added",
        "route_add", "addRoute", "route.add", "static-route",
    ),
    _tool(
        "remove_route",
        "Remove a static route from a host.",
        (HOST, _param("subnet", "subnet", "destination", "prefix", "dest_cidr")),
        (
            "Remove the route to {subnet} from {host}",
            "{host}: drop route {subnet}",
            "Can you delete the {subnet} route on {host}",
            "The site behind {subnet} is gone, so take its route off {host}",
        ),
        "{host}: route to {subnet} removed",
        "route_delete", "deleteRoute", "route.remove", "drop-route",
    ),
    _tool(
        "set_access_vlan",
        "Put a switch port into an access VLAN.",
        (_param("switch", "host", "device", "switch_name", "hostname"), INTERFACE, VLAN),
        (
            "Put {interface} of {switch} into VLAN {vlan}",
            "{switch} {interface}: access vlan {vlan}",
            "Can you move port {interface} on {switch} to VLAN {vlan}",
            "VLAN {vlan} is wanted on {interface}, switch {switch}",
            "A phone was plugged in, so set VLAN {vlan} on {switch} port {interface}",
        ),
        "{switch}: {interface} is in VLAN {vlan}",
        "vlan_assign", "setAccessVlan", "switch.set_vlan", "assign-vlan",
    ),
    _tool(
        "set_interface_state",
        "Enable or shut down a port of a network device.",
        (
            _param("device", "host", "switch", "router", "hostname"),
            INTERFACE,
            _enum("state", "up down", "admin_state", "status"),
        ),
        (
            "Set {interface} on {device} {state}",
            "{device} {interface} {state}",
            "Bring {interface} {state} on {device}",
            "We swapped the cable, please set port {interface} of {device} to {state}",
        ),
        "{device}: {interface} is {state}",
        "interface_state", "setInterfaceState", "interface.set_state", "port-state",
    ),
    _tool(
        "describe_interface",
        "Set the description of a port to a ticket.",
        (
            _param("device", "host", "switch", "router", "hostname"),
            INTERFACE,
            _param("ticket", "ticket", "ticket_id", "reference", "description"),
        ),
        (
            "Note {ticket} on {interface} of {device}",
            "{device}: label {interface} with {ticket}",
            "The description of {interface} on {device} should be {ticket}",
            "Can you put ticket {ticket} into the description of {device} {interface}",
        ),
        "{device}: {interface} is described as {ticket}",
        "interface_description", "describeInterface", "interface.describe", "label-port",
    ),
    _tool(
        "set_mtu",
        "Set the MTU of a network interface.",
        (HOST, NIC, _param("mtu", "number", "mtu_bytes", "size")),
        (
            "Set the MTU of {nic} on {host} to {mtu}",
            "{host}: {nic} mtu {mtu}",
            "MTU {mtu} on {host}, interface {nic}",
            "Large packets are dropped, so give {nic} of {host} an MTU of {mtu}",
        ),
        "{host}: {nic} has MTU {mtu}",
        "nic_set_mtu", "setMtu", "nic.mtu", "change-mtu",
    ),
    _tool(
        "assign_address",
        "Assign an IP address to a host's network interface.",
        (HOST, NIC, ADDRESS),
        (
            "Give {nic} on {host} the address {address}",
            "{host}: {nic} = {address}",
            "Assign {address} to {host}, interface {nic}",
            "Could you configure {address} on the {nic} of {host}",
        ),
        "{host}: {nic} has {address}",
        "ip_assign", "assignAddress", "ip.assign", "add-ip",
    ),
    _tool(
        "add_dns_record",
        "Create an address record in DNS.",
        (
            _param("name", "fqdn", "record", "hostname", "fqdn"),
            ADDRESS,
            _param("ttl", "seconds", "ttl_seconds", "time_to_live", also=" with a TTL of {ttl} seconds"),
        ),
        (
            "Point {name} at {address}",
            "Add an A record for {name} with {address}",
            "DNS: {name} -> {address}",
            "The machine has moved, make {name} resolve to {address}",
            "{address} needs a DNS name, please create {name} for it",
        ),
        "{name} resolves to {address}",
        "create_dns_record", "addDnsRecord", "dns.add_record", "dns-create",
    ),
    _tool(
        "delete_dns_record",
        "Delete a record from DNS.",
        (
            _param("name", "fqdn", "record", "hostname", "fqdn"),
            _enum("type", "A AAAA CNAME TXT MX", "record_type", "rtype"),
        ),
        (
            "Delete the {type} record of {name}",
            "DNS: remove {name} {type}",
            "{name} is retired, so drop its {type} record",
            "Can you take the {type} entry for {name} out of DNS",
        ),
        "{type} record of {name} deleted",
        "remove_dns_record", "deleteDnsRecord", "dns.delete_record", "dns-remove",
    ),
    _tool(
        "lookup_dns",
        "Look a name up at a DNS server.",
        (
            _param("name", "fqdn", "hostname", "query", "qname"),
            _param("server", "address", "resolver", "nameserver", also=" using the resolver {server}"),
        ),
        (
            "Look up {name}",
            "What does {name} resolve to",
            "dns {name}",
            "Users say the name is wrong, check what DNS says for {name}",
        ),
        "{name} was found",
        "dns_lookup", "resolveName", "dns.lookup", "resolve-name",
    ),
    _tool(
        "add_port_forward",
        "Forward a public port of a gateway to an inner address.",
        (
            _param("gateway", "host", "router", "firewall", "device"),
            _param("public_port", "port", "outside_port", "external_port", "dport"),
            _param("address", "address", "inner_address", "to_address", "internal_ip"),
            _param("inner_port", "port", "inside_port", "to_port", "internal_port"),
        ),
        (
            "On {gateway}, forward port {public_port} to {address} port {inner_port}",
            "{gateway}: NAT {public_port} -> {address}:{inner_port}",
            "Traffic to port {public_port} of {gateway} should go to {address}:{inner_port}",
            "Please make {address}:{inner_port} reachable through {gateway} on public port {public_port}",
        ),
        "{gateway}: {public_port} goes to {address}:{inner_port}",
        "nat_forward", "addPortForward", "nat.forward", "port-forward",
    ),
    _tool(
        "add_source_nat",
        "Translate a subnet to one outer address.",
        (
            _param("gateway", "host", "router", "firewall", "device"),
            SUBNET,
            _param("address", "address", "outer_address", "snat_ip", "translate_to"),
        ),
        (
            "NAT {subnet} to {address} on {gateway}",
            "{gateway}: snat {subnet} -> {address}",
            "Hosts of {subnet} should leave {gateway} as {address}",
            "The partner only accepts {address}, so translate {subnet} to it on {gateway}",
        ),
        "{gateway}: {subnet} leaves as {address}",
        "nat_source", "addSourceNat", "nat.snat", "source-nat",
    ),
    _tool(
        "add_bgp_neighbor",
        "Configure a BGP neighbour on a router.",
        (
            _param("router", "host", "device", "hostname", "node"),
            _param("neighbor", "address", "peer", "peer_ip", "neighbor_address"),
            ASN,
            _param("hold_time", "seconds", "holdtime", "hold_seconds", also=" with a hold time of {hold_time} seconds"),
        ),
        (
            "Add BGP neighbour {neighbor} with AS {asn} on {router}",
            "{router}: bgp peer {neighbor} as {asn}",
            "Set up peering on {router} to AS {asn} at {neighbor}",
            "AS {asn} is ready on their side, so configure {neighbor} as a neighbour of {router}",
        ),
        "{router}: neighbour {neighbor} (AS {asn}) is configured",
        "bgp_add_peer", "addBgpNeighbor", "bgp.add_neighbor", "bgp-peer",
    ),
    _tool(
        "reset_bgp_session",
        "Reset the BGP session with a neighbour.",
        (
            _param("router", "host", "device", "hostname", "node"),
            _param("neighbor", "address", "peer", "peer_ip", "neighbor_address"),
            _param("soft", "yes", "soft_reset", "is_soft", also=" with soft set to {soft}"),
        ),
        (
            "Reset the BGP session with {neighbor} on {router}",
            "{router}: clear bgp {neighbor}",
            "The session to {neighbor} is stuck, reset it on {router}",
            "Can {router} restart its peering with {neighbor}",
        ),
        "{router}: session with {neighbor} was reset",
        "bgp_clear", "resetBgpSession", "bgp.reset", "clear-bgp",
    ),
    _tool(
        "create_bond",
        "Bond two network interfaces of a host.",
        (
            HOST,
            _param("first", "nic", "primary", "member_a", "slave1"),
            _param("second", "nic", "secondary", "member_b", "slave2"),
            _enum("mode", "active-backup 802.3ad balance-rr", "bond_mode", "policy"),
        ),
        (
            "Bond {first} and {second} on {host} in mode {mode}",
            "{host}: bond {first}+{second}, {mode}",
            "Create a bond in {mode} mode on {host} with {first} first and {second} second",
            "One cable is not enough, so on {host} join {first} and {second} using {mode}",
        ),
        "{host}: {first} and {second} are bonded",
        "bond_create", "createBond", "nic.bond", "make-bond",
    ),
    _tool(
        "ping_host",
        "Ping an address from a host.",
        (
            _param("source", "host", "from_host", "origin", "src"),
            _param("address", "address", "destination", "target_ip", "dest"),
            _param("count", "small", "packets", "tries", also=" with {count} packets"),
        ),
        (
            "Ping {address} from {source}",
            "{source}: ping {address}",
            "Can {source} reach {address}? Please ping it",
            "The tunnel looks dead, check from {source} whether {address} answers pings",
        ),
        "{address} answers {source}",
        "send_ping", "pingHost", "net.ping", "ping-address",
    ),
    _tool(
        "trace_route",
        "Trace the path from a host to an address.",
        (
            _param("source", "host", "from_host", "origin", "src"),
            _param("address", "address", "destination", "target_ip", "dest"),
        ),
        (
            "Trace the path from {source} to {address}",
            "{source}: traceroute {address}",
            "Which hops does {source} take to {address}",
            "Latency to {address} doubled overnight, trace it from {source}",
        ),
        "path from {source} to {address} traced",
        "traceroute", "traceRoute", "net.trace", "trace-path",
    ),
    _tool(
        "check_port",
        "Test whether a port of a host accepts connections.",
        (
            MACHINE,
            PORT,
            _param("timeout", "seconds", "timeout_s", "wait_seconds", also=" with a timeout of {timeout} seconds"),
        ),
        (
            "Check whether {host} listens on {port}",
            "Is port {port} of {host} reachable",
            "{host}:{port} reachable or not",
            "The client gets a refusal, test port {port} on {host}",
        ),
        "{host} accepts connections on {port}",
        "test_port", "checkPort", "net.check_port", "probe-port",
    ),
    _tool(
        "create_tunnel",
        "Create a tunnel between two addresses.",
        (
            HOST,
            _param("local", "address", "local_address", "local_ip", "from_ip"),
            _param("remote", "address", "remote_address", "remote_ip", "to_ip"),
            _enum("type", "gre ipip vxlan", "tunnel_type", "encapsulation"),
        ),
        (
            "Create a {type} tunnel on {host} from {local} to {remote}",
            "{host}: {type} {local} -> {remote}",
            "On {host}, build a tunnel of type {type} with local end {local} and remote end {remote}",
            "The remote end {remote} is up, so add a {type} tunnel on {host} with {local} as the local end",
        ),
        "{host}: {type} tunnel to {remote} is up",
        "tunnel_create", "createTunnel", "tunnel.create", "make-tunnel",
    ),
    _tool(
        "reserve_lease",
        "Reserve a DHCP address for a MAC address.",
        (
            _param("mac", "mac", "mac_address", "hwaddr", "hardware_address"),
            ADDRESS,
            _param("host_name", "host", "label", "client_name", also=" under the name {host_name}"),
        ),
        (
            "Reserve {address} for {mac}",
            "DHCP: {mac} always gets {address}",
            "The machine with MAC {mac} should be given {address} by DHCP",
            "The printer keeps changing its address, so pin {address} to {mac}",
        ),
        "{mac} is given {address}",
        "dhcp_reserve", "reserveLease", "dhcp.reserve", "static-lease",
    ),
    _tool(
        "release_lease",
        "Release the DHCP lease of an address.",
        (_param("server", "host", "dhcp_server", "hostname", "node"), ADDRESS),
        (
            "Release the lease of {address} on {server}",
            "{server}: free lease {address}",
            "Could the DHCP server {server} give up its lease for {address}",
            "{address} is held by a dead laptop, drop the lease at {server}",
        ),
        "{server}: lease of {address} released",
        "dhcp_release", "releaseLease", "dhcp.release", "free-lease",
    ),
)

HOSTS = (
    _tool(
        "restart_service",
        "Restart a service on a host.",
        (SERVICE, HOST, _param("delay", "seconds", "delay_s", "wait", also=" after a delay of {delay} seconds")),
        (
            "Restart {service} on {host}",
            "{host}: restart {service}",
            "It hangs on {host}, can you give {service} a restart",
            "It leaks memory again, so restart the {service} of {host}",
            "On {host}, please restart {service}",
        ),
        "{service} restarted on {host}",
        "service_restart", "restartService", "service.restart", "restart-unit",
    ),
    _tool(
        "stop_service",
        "Stop a service on a host.",
        (UNIT, HOST, _param("force", "yes", "kill", "hard", also=" with force set to {force}")),
        (
            "Stop {unit} on {host}",
            "{host}: stop {unit}",
            "{unit} must not run on {host} during the upgrade, stop it",
            "Would you shut down the {unit} that runs on {host}",
        ),
        "{unit} stopped on {host}",
        "service_stop", "stopService", "service.stop", "halt-unit",
    ),
    _tool(
        "start_service",
        "Start a service on a host.",
        (UNIT, HOST),
        (
            "Start {unit} on {host}",
            "{host}: start {unit}",
            "Please bring {unit} up on {host}",
            "Maintenance is over, so {host} can run {unit} again: start it",
        ),
        "{unit} runs on {host}",
        "service_start", "startService", "service.start", "start-unit",
    ),
    _tool(
        "reload_service",
        "Reload a service's configuration without a restart.",
        (SERVICE, MACHINE),
        (
            "Reload {service} on {host}",
            "{host}: reload {service}",
            "Have {service} on {host} read its configuration again",
            "The certificate was renewed, reload {service} at {host}",
        ),
        "{service} reloaded on {host}",
        "service_reload", "reloadService", "service.reload", "reload-config",
    ),
    _tool(
        "set_service_boot",
        "Set whether a service starts at boot.",
        (SERVICE, HOST, _param("enabled", "yes", "at_boot", "enable", "autostart")),
        (
            "Set start at boot of {service} on {host} to {enabled}",
            "{host}: {service} at boot = {enabled}",
            "For {service} on {host}, starting at boot should be {enabled}",
            "Please change the boot setting of {host}'s {service}: enabled {enabled}",
        ),
        "{host}: {service} at boot is {enabled}",
        "service_boot", "setServiceBoot", "service.set_boot", "boot-setting",
    ),
    _tool(
        "service_status",
        "Show the state of a service on a host.",
        (SERVICE, HOST),
        (
            "Is {service} running on {host}",
            "{host}: status of {service}",
            "Show me how {service} is doing on {host}",
            "Pages load slowly from {host}, check the state of {service} there",
        ),
        "{service} is active on {host}",
        "get_service_status", "serviceStatus", "service.status", "unit-status",
    ),
    _tool(
        "read_file",
        "Read a file of a host.",
        (PATH, HOST, _param("max_lines", "number", "limit", "line_count", also=" with at most {max_lines} lines")),
        (
            "Read {path} on {host}",
            "{host}: show {path}",
            "What is in {path} on {host}",
            "I want to compare settings, print the file {path} from {host}",
        ),
        "{path} read from {host}",
        "get_file", "readFile", "file.read", "cat-file",
    ),
    _tool(
        "copy_file",
        "Copy a file from one host to another.",
        (
            PATH,
            _param("source", "host", "from_host", "src_host", "origin"),
            _param("destination", "host", "to_host", "dst_host", "dest"),
            _param("overwrite", "yes", "replace", "force", also=" with overwrite set to {overwrite}"),
        ),
        (
            "Copy {path} from {source} to {destination}",
            "{path}: {source} -> {destination}",
            "{destination} needs the file {path} that lies on {source}, copy it over",
            "From {source}, can you bring {path} to {destination}",
        ),
        "{path} copied to {destination}",
        "transfer_file", "copyFile", "file.copy", "copy-between",
    ),
    _tool(
        "delete_file",
        "Delete a file of a host.",
        (PATH, HOST),
        (
            "Delete {path} on {host}",
            "{host}: rm {path}",
            "The disk is filling up, so remove {path} from {host}",
            "{path} is not needed on {host} any more, please delete it",
        ),
        "{path} deleted on {host}",
        "remove_file", "deleteFile", "file.delete", "rm-file",
    ),
    _tool(
        "set_file_owner",
        "Set the owner of a file or folder.",
        (FOLDER, USER, HOST, _param("recursive", "yes", "recurse", "deep", also=" with recursive set to {recursive}")),
        (
            "Make {user} the owner of {folder} on {host}",
            "{host}: chown {user} {folder}",
            "On {host}, {folder} should belong to {user}",
            "Uploads fail on {host}, hand {folder} over to {user}",
        ),
        "{host}: {folder} belongs to {user}",
        "change_owner", "setFileOwner", "file.chown", "set-owner",
    ),
    _tool(
        "run_script",
        "Run a script on a host.",
        (
            _param("script", "path", "script_path", "command", "file"),
            HOST,
            _param("user", "user", "run_as", "as_user", also=" as user {user}"),
        ),
        (
            "Run {script} on {host}",
            "{host}: run {script}",
            "Can {host} execute {script}",
            "The cleanup did not happen last night, so start {script} on {host}",
        ),
        "{script} finished on {host}",
        "run_command", "runScript", "host.run", "exec-script",
    ),
    _tool(
        "set_hostname",
        "Set the host name of an instance.",
        (INSTANCE, _param("name", "fqdn", "hostname", "new_name", "fqdn")),
        (
            "Set the hostname of {instance} to {name}",
            "{instance}: hostname {name}",
            "Rename {instance} to {name}",
            "{name} should be the host name of {instance} from now on",
        ),
        "{instance} is now called {name}",
        "rename_host", "setHostname", "host.set_name", "change-hostname",
    ),
    _tool(
        "add_user",
        "Create a user account on a host.",
        (
            USER,
            HOST,
            _enum("group", "sudo docker adm www-data", "primary_group", "role", also=" in the group {group}"),
        ),
        (
            "Add the user {user} on {host}",
            "{host}: add user {user}",
            "{user} needs an account on {host}",
            "On the machine {host}, can you create a login for {user}",
        ),
        "{user} exists on {host}",
        "create_user", "addUser", "user.add", "new-user",
    ),
    _tool(
        "lock_user",
        "Lock a user account on a host.",
        (USER, MACHINE),
        (
            "Lock {user} on {host}",
            "{host}: lock account {user}",
            "{user} left the team, so lock the account at {host}",
            "Please make sure that {user} cannot log in to {host}",
        ),
        "{user} is locked on {host}",
        "disable_user", "lockUser", "user.lock", "lock-account",
    ),
    _tool(
        "add_ssh_key",
        "Install a stored SSH key for a user.",
        (
            USER,
            HOST,
            _param("key_id", "uuid", "ssh_key_id", "public_key_id", "key"),
            _param("expires", "date", "expiry", "valid_until", also=" valid until {expires}"),
        ),
        (
            "Install the SSH key {key_id} for {user} on {host}",
            "{host}: ssh key {key_id} for {user}",
            "Let {user} log in to {host} with key {key_id}",
            "{user} has a new laptop, put key {key_id} on {host} for that account",
        ),
        "{host}: key {key_id} works for {user}",
        "authorize_key", "addSshKey", "ssh.add_key", "install-key",
    ),
    _tool(
        "add_cron_job",
        "Run a script on a host every day at a fixed time.",
        (
            HOST,
            _param("script", "path", "command", "script_path", "program"),
            _param("time", "time", "at", "daily_at", "start_time"),
            _param("user", "user", "run_as", "owner", also=" as user {user}"),
        ),
        (
            "Run {script} every day at {time} on {host}",
            "{host}: cron {time} {script}",
            "At {time} each day, {host} should run {script}",
            "Schedule {script} on {host} daily at {time}",
        ),
        "{host}: {script} runs daily at {time}",
        "schedule_script", "addCronJob", "cron.add", "cron-create",
    ),
    _tool(
        "set_sysctl",
        "Set a kernel parameter of a host.",
        (
            HOST,
            _enum(
                "parameter",
                "vm.swappiness net.core.somaxconn fs.file-max vm.max_map_count net.ipv4.tcp_fin_timeout",
                "key", "name", "setting",
            ),
            _param("value", "number", "new_value", "setting_value"),
            _param("persist", "yes", "permanent", "persistent", also=" with persist set to {persist}"),
        ),
        (
            "Set {parameter} to {value} on {host}",
            "{host}: {parameter}={value}",
            "The kernel of {host} should use {value} for {parameter}",
            "Connections pile up on {host}, so change {parameter} there to {value}",
        ),
        "{host}: {parameter} = {value}",
        "sysctl_set", "setSysctl", "kernel.set", "sysctl-write",
    ),
    _tool(
        "tail_log",
        "Show the last lines of a log file.",
        (
            HOST,
            _param("path", "path", "log_file", "file", "log"),
            _param("lines", "number", "count", "n", "num_lines"),
        ),
        (
            "Show the last {lines} lines of {path} on {host}",
            "{host}: tail -n {lines} {path}",
            "What are the newest {lines} lines in {path}? The host is {host}",
            "Something crashed on {host}, get me {lines} lines from the end of {path}",
        ),
        "{lines} lines of {path} from {host}",
        "get_log_tail", "tailLog", "log.tail", "tail-file",
    ),
    _tool(
        "search_journal",
        "Show journal entries of a unit since a time of day.",
        (UNIT, HOST, _param("since", "time", "start", "from_time", "after")),
        (
            "Show the journal of {unit} on {host} since {since}",
            "{host}: journal {unit} since {since}",
            "What did {unit} log on {host} after {since}",
            "Alerts began at {since}, look into the journal of {host} for {unit} from then on",
        ),
        "journal of {unit} on {host} since {since}",
        "journal_since", "searchJournal", "journal.search", "unit-log",
    ),
    _tool(
        "kill_process",
        "Send a signal to a process.",
        (
            HOST,
            _param("pid", "number", "process_id", "process", "proc_id"),
            _enum("signal", "TERM KILL HUP INT", "sig", "signal_name"),
        ),
        (
            "Send {signal} to process {pid} on {host}",
            "{host}: kill -{signal} {pid}",
            "PID {pid} on {host} eats all the memory, send it {signal}",
            "Process {pid} of {host} should get the signal {signal}",
        ),
        "{host}: {signal} sent to {pid}",
        "signal_process", "killProcess", "process.signal", "kill-pid",
    ),
    _tool(
        "set_timezone",
        "Set the time zone of a host.",
        (HOST, _enum("timezone", "UTC Europe/Oslo Asia/Tokyo America/Lima Africa/Nairobi", "tz", "time_zone")),
        (
            "Set the time zone of {host} to {timezone}",
            "{host}: tz {timezone}",
            "Log times are off, put {host} on {timezone}",
            "Could {host} use {timezone} as its time zone",
        ),
        "{host} uses {timezone}",
        "change_timezone", "setTimezone", "host.set_timezone", "tz-set",
    ),
    _tool(
        "reboot_host",
        "Reboot a host at a time of day.",
        (
            HOST,
            _param("time", "time", "at", "when", "reboot_at"),
            _param("reason", "ticket", "ticket", "reference", also=" citing {reason}"),
        ),
        (
            "Reboot {host} at {time}",
            "{host}: reboot {time}",
            "At {time}, {host} should be restarted",
            "The new kernel waits, please schedule a reboot at {time} for {host}",
        ),
        "{host} will reboot at {time}",
        "schedule_reboot", "rebootHost", "host.reboot", "restart-machine",
    ),
    _tool(
        "install_package",
        "Install a package on a host.",
        (
            _param("package", "service", "package_name", "pkg", "software"),
            HOST,
            _param("version", "version", "package_version", "pin", also=" in version {version}"),
        ),
        (
            "Install {package} on {host}",
            "{host}: install {package}",
            "Please put the package {package} on {host}",
            "{host} is going to need {package}, can you install it",
        ),
        "{package} installed on {host}",
        "package_install", "installPackage", "package.install", "add-package",
    ),
)

STORAGE = (
    _tool(
        "attach_volume",
        "Attach a volume to an instance.",
        (VOLUME, INSTANCE, _param("read_only", "yes", "readonly", "ro", also=" with read-only set to {read_only}")),
        (
            "Attach {volume} to {instance}",
            "{instance}: attach {volume}",
            "{instance} needs more room, so connect {volume} to it",
            "Can you hook the volume {volume} up to {instance}",
        ),
        "{volume} is attached to {instance}",
        "volume_attach", "attachVolume", "volume.attach", "connect-disk",
    ),
    _tool(
        "detach_volume",
        "Detach a volume from an instance.",
        (VOLUME, INSTANCE, _param("force", "yes", "forced", "hard", also=" with force set to {force}")),
        (
            "Detach {volume} from {instance}",
            "{instance}: detach {volume}",
            "Take volume {volume} off {instance}",
            "{instance} will be deleted, so release {volume} from it first",
        ),
        "{volume} is detached from {instance}",
        "volume_detach", "detachVolume", "volume.detach", "disconnect-disk",
    ),
    _tool(
        "resize_volume",
        "Grow a volume to a new size in gigabytes.",
        (VOLUME, SIZE),
        (
            "Resize {volume} to {size} GB",
            "{volume}: grow to {size} GB",
            "Make the volume {volume} {size} GB large",
            "It will be full by tomorrow, please extend {volume} to {size} GB",
            "We need {size} GB on {volume}, can you grow it",
        ),
        "{volume} has {size} GB",
        "volume_resize", "resizeVolume", "volume.resize", "grow-disk",
    ),
    _tool(
        "create_volume",
        "Create an empty volume.",
        (SIZE, ZONE, _enum("type", "ssd hdd nvme", "volume_type", "disk_type")),
        (
            "Create a {type} volume of {size} GB in {zone}",
            "{zone}: new {size} GB {type} volume",
            "I need {size} GB of {type} in {zone}, make a volume",
            "In {zone}, please set up an empty volume, type {type}, {size} GB",
        ),
        "{type} volume of {size} GB created in {zone}",
        "volume_create", "createVolume", "volume.create", "new-disk",
    ),
    _tool(
        "create_snapshot",
        "Take a snapshot of a volume.",
        (VOLUME, _param("label", "ticket", "name", "tag", "description")),
        (
            "Take a snapshot of {volume} labelled {label}",
            "{volume}: snapshot {label}",
            "Before we start {label}, snapshot {volume} with that as the label",
            "With the label {label}, save the state of {volume} as a snapshot",
        ),
        "snapshot of {volume} labelled {label} taken",
        "snapshot_create", "createSnapshot", "snapshot.create", "take-snapshot",
    ),
    _tool(
        "restore_snapshot",
        "Restore a snapshot onto a volume.",
        (SNAPSHOT, VOLUME),
        (
            "Restore {snapshot} onto {volume}",
            "{volume}: roll back to {snapshot}",
            "The upgrade broke the data, so put {snapshot} back on {volume}",
            "Can {volume} be restored from {snapshot}? Please do it",
        ),
        "{volume} restored from {snapshot}",
        "snapshot_restore", "restoreSnapshot", "snapshot.restore", "rollback-volume",
    ),
    _tool(
        "copy_snapshot",
        "Copy a snapshot to another zone.",
        (
            SNAPSHOT,
            _param("zone", "zone", "target_zone", "to_zone", "destination"),
            _param("encrypted", "yes", "encrypt", "with_encryption", also=" with encryption set to {encrypted}"),
        ),
        (
            "Copy {snapshot} to {zone}",
            "{snapshot} -> {zone}",
            "We want a second copy of {snapshot}, make it in {zone}",
            "In {zone} there should be a copy of the snapshot {snapshot}",
        ),
        "{snapshot} copied to {zone}",
        "snapshot_copy", "copySnapshot", "snapshot.copy", "replicate-snapshot",
    ),
    _tool(
        "mount_device",
        "Mount a volume into a folder of a host.",
        (
            HOST,
            VOLUME,
            MOUNT,
            _enum("fs_type", "ext4 xfs btrfs", "filesystem", "fstype", also=" as {fs_type}"),
        ),
        (
            "Mount {volume} at {mount_point} on {host}",
            "{host}: mount {volume} {mount_point}",
            "On {host}, {volume} should be mounted at {mount_point}",
            "The folder {mount_point} of {host} is empty after the reboot, mount {volume} there",
        ),
        "{host}: {volume} is mounted at {mount_point}",
        "mount_volume", "mountDevice", "fs.mount", "mount-disk",
    ),
    _tool(
        "unmount_device",
        "Unmount a folder of a host.",
        (HOST, MOUNT, _param("lazy", "yes", "lazy_unmount", "defer", also=" with lazy set to {lazy}")),
        (
            "Unmount {mount_point} on {host}",
            "{host}: umount {mount_point}",
            "Could you release the mount {mount_point} of {host}",
            "The disk will be swapped, so unmount {mount_point} from {host}",
        ),
        "{host}: {mount_point} is unmounted",
        "unmount_volume", "unmountDevice", "fs.unmount", "umount-disk",
    ),
    _tool(
        "create_bucket",
        "Create an object storage bucket.",
        (
            BUCKET,
            ZONE,
            _param("versioned", "yes", "versioning", "keep_versions", also=" with versioning set to {versioned}"),
        ),
        (
            "Create the bucket {bucket} in {zone}",
            "{zone}: new bucket {bucket}",
            "We need a bucket called {bucket}, place it in {zone}",
            "In {zone}, set up {bucket} for the new exports",
        ),
        "bucket {bucket} created in {zone}",
        "bucket_create", "createBucket", "bucket.create", "make-bucket",
    ),
    _tool(
        "delete_bucket",
        "Delete an object storage bucket.",
        (BUCKET, _param("force", "yes", "delete_contents", "recursive")),
        (
            "Delete the bucket {bucket} with force {force}",
            "bucket {bucket}: delete, force={force}",
            "The project is over, remove {bucket} (force: {force})",
            "With force set to {force}, please drop {bucket}",
        ),
        "bucket {bucket} deleted",
        "bucket_delete", "deleteBucket", "bucket.delete", "drop-bucket",
    ),
    _tool(
        "set_bucket_access",
        "Set the access level of a bucket.",
        (BUCKET, _enum("access", "private public-read authenticated", "acl", "level", "visibility")),
        (
            "Set access of {bucket} to {access}",
            "{bucket}: access {access}",
            "Security asked for it: make the bucket {bucket} {access}",
            "The access level {access} should apply to {bucket}",
        ),
        "{bucket} is {access}",
        "bucket_acl", "setBucketAccess", "bucket.set_access", "bucket-access",
    ),
    _tool(
        "expire_objects",
        "Delete objects of a bucket after a number of days.",
        (BUCKET, _param("days", "number", "after_days", "max_age_days", "ttl_days")),
        (
            "Expire objects in {bucket} after {days} days",
            "{bucket}: expire after {days} d",
            "Storage gets expensive, so let {bucket} delete what is older than {days} days",
            "After {days} days, things in {bucket} can be removed; set that rule",
        ),
        "{bucket} expires objects after {days} days",
        "bucket_lifecycle", "expireObjects", "bucket.expire", "lifecycle-rule",
    ),
    _tool(
        "replicate_bucket",
        "Replicate one bucket to another.",
        (
            _param("source", "bucket", "source_bucket", "from_bucket", "src"),
            _param("destination", "bucket", "target_bucket", "to_bucket", "dst"),
        ),
        (
            "Replicate {source} to {destination}",
            "{source} => {destination}: replicate",
            "Everything in {source} should also be in {destination}, set up replication",
            "Make {destination} a replica of the bucket {source}",
        ),
        "{source} is replicated to {destination}",
        "bucket_replicate", "replicateBucket", "bucket.replicate", "mirror-bucket",
    ),
    _tool(
        "set_user_quota",
        "Set the disk quota of a user in gigabytes.",
        (
            USER,
            HOST,
            _param("quota", "gigabytes", "quota_gb", "limit_gb", "max_gb"),
            _param("grace", "seconds", "grace_seconds", "grace_period", also=" with a grace period of {grace} seconds"),
        ),
        (
            "Limit {user} to {quota} GB on {host}",
            "{host}: quota {user} {quota} GB",
            "On {host}, {user} may use {quota} GB; set the quota",
            "The quota should be {quota} GB for {user}, host {host}",
        ),
        "{host}: quota of {user} is {quota} GB",
        "quota_set", "setUserQuota", "quota.set", "disk-quota",
    ),
    _tool(
        "disk_usage",
        "Show how much space a folder takes on a host.",
        (FOLDER, HOST, _param("depth", "small", "max_depth", "levels", also=" down to {depth} levels")),
        (
            "How much space does {folder} take on {host}",
            "{host}: du {folder}",
            "Show the disk usage of {folder} on {host}",
            "{host} raised a disk alert, see how big {folder} is there",
        ),
        "usage of {folder} on {host} is known",
        "get_disk_usage", "diskUsage", "fs.usage", "folder-size",
    ),
    _tool(
        "export_share",
        "Export a folder over NFS to a subnet.",
        (HOST, FOLDER, SUBNET, _param("read_only", "yes", "readonly", "ro", also=" with read-only set to {read_only}")),
        (
            "Export {folder} of {host} to {subnet}",
            "{host}: nfs {folder} {subnet}",
            "Clients in {subnet} need {folder} from {host} over NFS, export it",
            "From {host}, please share {folder} with {subnet}",
        ),
        "{host}: {folder} is exported to {subnet}",
        "nfs_export", "exportShare", "nfs.export", "share-folder",
    ),
)

TOOLS: tuple[Tool, ...] = NETWORK + HOSTS + STORAGE

HELD_OUT_TOOLS: tuple[Tool, ...] = (
    _tool(
        "limit_bandwidth",
        "Limit the bandwidth of a network interface in megabits.",
        (
            HOST,
            NIC,
            _param("rate", "number", "rate_mbit", "mbps", "limit"),
            _enum("direction", "ingress egress", "dir", "way", also=" for {direction} traffic"),
        ),
        (
            "Limit {nic} on {host} to {rate} Mbit/s",
            "{host}: shape {nic} at {rate} Mbit/s",
            "Backups choke the line, so cap {host} at {rate} Mbit/s on {nic}",
            "No more than {rate} Mbit/s should pass {nic} of {host}",
        ),
        "{host}: {nic} is limited to {rate} Mbit/s",
        "shape_traffic", "limitBandwidth", "qos.limit", "rate-limit",
    ),
    _tool(
        "add_pool_member",
        "Add a backend to a load balancer pool.",
        (
            _param("pool", "deployment", "pool_name", "backend_pool", "upstream"),
            _param("address", "address", "member", "backend_ip", "member_ip"),
            PORT,
            _param("weight", "small", "share", "ratio", also=" with weight {weight}"),
        ),
        (
            "Add {address}:{port} to the pool {pool}",
            "pool {pool}: + {address} port {port}",
            "Load is high, let {pool} also balance to {address} on port {port}",
            "Can the backend at port {port} of {address} join {pool}",
        ),
        "{pool} has the member {address}:{port}",
        "lb_add_member", "addPoolMember", "lb.add_member", "pool-join",
    ),
    _tool(
        "capture_packets",
        "Capture packets of a network interface.",
        (HOST, NIC, _param("duration", "seconds", "seconds", "duration_s", "length")),
        (
            "Capture packets on {nic} of {host} for {duration} seconds",
            "{host}: pcap {nic} {duration}s",
            "For {duration} seconds, record what passes {host} on {nic}",
            "Handshakes fail at random, take a {duration} second capture from {nic} on {host}",
        ),
        "{host}: captured {duration} seconds of {nic}",
        "packet_capture", "capturePackets", "net.capture", "sniff-traffic",
    ),
    _tool(
        "mirror_switch_port",
        "Mirror the traffic of one switch port to another.",
        (
            _param("switch", "host", "device", "switch_name", "hostname"),
            _param("source", "interface", "source_port", "from_port", "src_interface"),
            _param("destination", "interface", "mirror_port", "to_port", "dst_interface"),
        ),
        (
            "Mirror {source} to {destination} on {switch}",
            "{switch}: span {source} -> {destination}",
            "On {switch}, a copy of what passes {source} should leave at {destination}",
            "The probe sits on {destination} of {switch}, send it the traffic of {source}",
        ),
        "{switch}: {source} is mirrored to {destination}",
        "span_port", "mirrorSwitchPort", "switch.mirror", "port-mirror",
    ),
    _tool(
        "set_ipv6_gateway",
        "Set the IPv6 default gateway of a host.",
        (HOST, _param("gateway", "address6", "gateway6", "next_hop", "router")),
        (
            "Set the IPv6 default gateway of {host} to {gateway}",
            "{host}: default6 {gateway}",
            "{gateway} should be where {host} sends its IPv6 traffic by default",
            "IPv6 is down since the router swap, give {host} the default gateway {gateway}",
        ),
        "{host} uses the gateway {gateway}",
        "default_gateway6", "setIpv6Gateway", "ipv6.set_gateway", "gateway6-set",
    ),
    _tool(
        "set_maintenance",
        "Put a host into or out of maintenance.",
        (
            MACHINE,
            _param("enabled", "yes", "active", "on", "maintenance"),
            _param("reason", "ticket", "ticket", "change_id", also=" for {reason}"),
        ),
        (
            "Set maintenance of {host} to {enabled}",
            "{host}: maintenance={enabled}",
            "The maintenance mode should be {enabled} on {host}",
            "Technicians are on site, change the maintenance flag to {enabled} for {host}",
        ),
        "{host}: maintenance is {enabled}",
        "maintenance_mode", "setMaintenance", "host.maintenance", "toggle-maintenance",
    ),
    _tool(
        "limit_memory",
        "Limit the memory of a service in megabytes.",
        (UNIT, HOST, _param("limit", "number", "limit_mb", "memory_mb", "max_mb")),
        (
            "Limit the memory of {unit} on {host} to {limit} MB",
            "{host}: {unit} max {limit} MB",
            "{unit} starves the others, so give it no more than {limit} MB on {host}",
            "With {limit} MB as the ceiling, restrict the memory that {host} grants to {unit}",
        ),
        "{host}: {unit} may use {limit} MB",
        "memory_limit", "limitMemory", "unit.limit_memory", "cap-memory",
    ),
    _tool(
        "sync_clock",
        "Synchronise a host's clock with a time server.",
        (HOST, _param("source", "fqdn", "ntp_server", "time_source", "peer")),
        (
            "Sync the clock of {host} with {source}",
            "{host}: ntp {source}",
            "{host} drifts by minutes, have it take its time from {source}",
            "Use {source} as the time source and correct the clock on {host}",
        ),
        "{host} is in step with {source}",
        "ntp_sync", "syncClock", "time.sync", "clock-sync",
    ),
    _tool(
        "set_environment",
        "Set an environment variable of a service.",
        (
            UNIT,
            _param("variable", "variable", "name", "env_name", "key"),
            _param("value", "url", "env_value", "content"),
        ),
        (
            "Set {variable} to {value} for {unit}",
            "{unit}: {variable}={value}",
            "{unit} should see {value} in the variable {variable}",
            "The endpoint changed, give {unit} the new {variable}, which is {value}",
        ),
        "{unit}: {variable} is set",
        "env_set", "setEnvironment", "env.set", "set-env",
    ),
    _tool(
        "migrate_volume",
        "Move a volume to another storage pool.",
        (
            VOLUME,
            _param("pool", "unit", "storage_pool", "target_pool", "to_pool"),
            _param("priority", "small", "prio", "io_priority", also=" with priority {priority}"),
        ),
        (
            "Move {volume} to the pool {pool}",
            "{volume} => pool {pool}",
            "The old shelf is slow, migrate the volume {volume} to {pool}",
            "Storage pool {pool} has room, so {volume} can go there",
        ),
        "{volume} is in {pool}",
        "volume_migrate", "migrateVolume", "volume.migrate", "relocate-disk",
    ),
    _tool(
        "replace_disk",
        "Replace a failed disk of an array by a spare one.",
        (
            _param("array", "host", "raid", "array_name", "enclosure"),
            _param("failed", "uuid", "failed_disk", "old_disk", "bad"),
            _param("spare", "uuid", "spare_disk", "new_disk", "replacement"),
        ),
        (
            "In {array}, replace {failed} by {spare}",
            "{array}: disk {failed} -> {spare}",
            "Disk {failed} of {array} is dead, use the spare {spare} instead",
            "Can you bring in {spare} for the failed disk {failed}? The array is {array}",
        ),
        "{array}: {failed} was replaced by {spare}",
        "disk_replace", "replaceDisk", "array.replace_disk", "swap-disk",
    ),
    _tool(
        "sign_url",
        "Make a temporary link to an object of a bucket.",
        (
            BUCKET,
            _param("object", "path", "object_key", "key", "object_path"),
            _param("expires", "seconds", "expires_in", "ttl", "valid_seconds"),
        ),
        (
            "Make a link to {object} in {bucket} that works for {expires} seconds",
            "{bucket}: link {object} {expires}s",
            "A customer needs {object} from {bucket}, sign a URL valid for {expires} seconds",
            "For {expires} seconds, allow a download of the object {object}; the bucket is {bucket}",
        ),
        "link to {object} in {bucket} is ready",
        "presign_url", "signUrl", "bucket.sign_url", "temp-link",
    ),
)
