"""What the machine allows, from the meters of ringtree-limits in the same run."""
import json
import os
import subprocess

import points

METERS = {"shm": "line,fresh,copy,yield", "tcp": "line,tcp,duplex,yield"}


def measure(build, transports):
    """{name: [[bytes, count, median]]}; empty where there is no ringtree-limits."""
    program = os.path.join(build, "bin", "ringtree-limits")
    if not os.path.exists(program):
        return {}
    names = sorted({name for t in transports for name in METERS.get(t, METERS["tcp"]).split(",")})
    done = subprocess.run([program, "--only", ",".join(names), "--repeats", "3", "--json", "-"], capture_output=True,
                          text=True)
    try:
        figures = json.loads(done.stdout)["figures"]
    except (ValueError, KeyError):
        return {}
    meters = {}
    for figure in figures:
        if "median" in figure:
            meters.setdefault(figure["name"], []).append([figure["bytes"], figure["count"], figure["median"]])
    return meters


def at_size(meters, name, size):
    """The median of the nearest size, the best over counts; None where it was not measured."""
    found = meters.get(name)
    if not found:
        return None
    nearest = min({entry[0] for entry in found}, key=lambda at: abs(at.bit_length() - size.bit_length()))
    return max(entry[2] for entry in found if entry[0] == nearest)


def traffic_gbs(meters):
    """All that both cores read and write: a cached copy moves three bytes for each, a streaming one two."""
    both = [parts * 2 * entry[2] for name, parts in (("copy_memory", 3), ("copy_memory_streaming", 2))
            for entry in meters.get(name, []) if entry[1] == 2]
    return max(both, default=None)


def shm_us(meters, point, moved):
    line = at_size(meters, "line_exchange", 0)
    large = point.collective == "all_reduce" and point.ranks == 2 and point.bytes >= 16 * points.MIB
    if large and traffic_gbs(meters):
        return (4 if point.memory == "shared" else 5) * point.bytes / traffic_gbs(meters) / 1e3
    pace = at_size(meters, "fresh_read", int(moved))
    if not line:
        return None
    return max(line / 1e3, moved / pace / 1e3 if pace else 0)


def wire_gbs(transport):
    """Of netns-1gbit and the like."""
    rate = transport.split("-")[1]
    for unit, gbs in (("gbit", 0.125), ("mbit", 0.125e-3)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * gbs
    raise ValueError(f"--link {rate}: a number and gbit or mbit")


def limit_us(meters, point):
    """A lower bound for this point, us: one exchange, or what a rank must get from others at the pace of data that the
    other core has just written (all_reduce from 16 MiB: five passes over memory at full traffic, four where the ranks
    share it), or of a duplex socket, or of a limited link. More ranks than cores share them. None: not measured, or
    not known (netns without a limit)."""
    crowd = max(1, point.ranks // 2)
    moved = point.bytes * points.bus_factor(point.collective, point.ranks)
    if point.transport == "shm":
        us = shm_us(meters, point, moved)
    elif point.transport.startswith("netns-"):
        return moved / wire_gbs(point.transport) / 1e3
    elif point.transport == "tcp":
        us, pace = at_size(meters, "tcp_one_way_polled", 4), at_size(meters, "tcp_duplex", int(moved))
        us = max(us, moved / pace / 1e3) if us and pace else None
    else:
        us = None
    return us * crowd if us else None
