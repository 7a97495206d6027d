"""Two network namespaces joined by a veth pair stand for two machines; tc tbf may limit the link, both ways alike."""
import collections
import contextlib
import os
import shutil
import subprocess

# hosts: the namespaces; none: all ranks are here. agent: what launchers take for ssh.
Place = collections.namedtuple("Place", "transport interface address hosts agent")
ADDRESSES = ("10.98.0.1", "10.98.0.2")
AGENT = """#!/bin/sh
# Called as ssh is: options, an address, a command. Runs it in that address's namespace, under a host name of its own.
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in %s) host=%s ;; *) host=%s ;; esac
shift
exec ip netns exec $host unshare --uts sh -c "echo $host >/proc/sys/kernel/hostname; $*"
"""


def here(transport):
    return Place(transport, "lo", "127.0.0.1", [], None)


def label(transport, link):
    """What rows are called: a limited link is a transport of its own."""
    return f"netns-{link}" if transport == "netns" and link else transport


def why_not():
    """None, or why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") and shutil.which("unshare") else "ip (iproute2) or unshare is missing"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def write_agent(work, hosts):
    path = os.path.join(work, "agent")
    with open(path, "w") as file:
        file.write(AGENT % (ADDRESSES[0], *hosts))
    os.chmod(path, 0o755)
    return path


def join(hosts, link):
    ip("link", "add", "eth0", "netns", hosts[0], "type", "veth", "peer", "name", "eth0", "netns", hosts[1])
    for host, address in zip(hosts, ADDRESSES):
        ip("-n", host, "link", "set", "lo", "up")
        ip("-n", host, "link", "set", "eth0", "up")
        ip("-n", host, "addr", "add", address + "/24", "dev", "eth0")
        if link:
            words = f"qdisc add dev eth0 root tbf rate {link} burst 256kb latency 50ms".split()
            ip("netns", "exec", host, "tc", *words)


@contextlib.contextmanager
def two_hosts(work, link):
    """A Place of two hosts, while it lasts."""
    hosts = [f"rt{os.getpid()}-{i}" for i in range(2)]
    try:
        for host in hosts:
            ip("netns", "add", host)
        join(hosts, link)
        yield Place("netns", "eth0", ADDRESSES[0], hosts, write_agent(work, hosts))
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host], capture_output=True)


def inside_first(place, words):
    """The words that run a launcher where rank 0 will be."""
    return [place.agent, place.address, *words] if place.hosts else words


def host_list(place, nranks):
    return ",".join(f"{address}:{nranks // 2}" for address in ADDRESSES)
