"""Points: which there are, the class of each measurement, medians within a class, and the bars for the ratios."""
import collections
import statistics

TWIN_NS, NEAR_NS = 30, 120  # as in measure.h
COLLECTIVES = ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
               "barrier", "send_recv"]
IN_PLACE = {"all_reduce", "reduce_scatter", "all_gather"}  # that may be either; a broadcast always is
KIB, MIB = 1 << 10, 1 << 20

Point = collections.namedtuple("Point", "transport ranks collective place memory bytes")


def line_class(row):
    """twin, near or far, by the time of a cache line between the processors before and after; None: it changed."""
    if 0 in row["line_ns"]:
        return "one core"
    kinds = {"twin" if ns <= TWIN_NS else "near" if ns <= NEAR_NS else "far" for ns in row["line_ns"]}
    return kinds.pop() if len(kinds) == 1 else None


def bus_factor(collective, n):
    if collective == "all_reduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if collective in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter") else 1


def four_digits(value):
    return float(f"{value:.4g}")


def condense(rows):
    """One entry per point, library and class: the medians over starts. Starts that changed class fall out."""
    grouped = collections.defaultdict(list)
    for row in rows:
        if line_class(row):
            grouped[(Point(*(row[f] for f in Point._fields)), row["library"], line_class(row))].append(row)
    entries = []
    for (point, library, kind), found in sorted(grouped.items()):
        entry = dict(point._asdict(), library=library, kind=kind, starts=len(found))
        for field in ("us", "p50_us", "p99_us", "least_us"):
            entry[field] = four_digits(statistics.median(row[field] for row in found))
        entry["line_ns"] = four_digits(statistics.median(ns for row in found for ns in row["line_ns"]))
        entries.append(entry)
    return entries


def point_of(entry):
    return Point(*(entry[f] for f in Point._fields))


def group_of(point):
    return point.transport, point.ranks, point.collective


def bar(point, kind):
    """The ratio to the best peer that issue and README promise; None where none is."""
    size, n = point.bytes, point.ranks
    if point.transport.startswith("netns-"):
        return None  # the wire is the limit, of all
    if point.collective != "all_reduce":
        return 1.05 if n in (2, 4) else None
    if point.transport != "shm":
        return 0.9 if size <= 16 * KIB else 0.75 if size >= 64 * MIB else 0.8 if size >= MIB else None
    if n > 2:
        return 0.8 if size <= KIB else 0.6 if size >= 256 * KIB else None
    if point.memory == "shared" and 64 * KIB <= size < 16 * MIB:
        return 0.35
    if size <= 56:
        return 0.6
    if size <= 16 * KIB:
        return 0.7
    if size >= 16 * MIB:
        return 0.5 if point.place == "in" else 0.8
    return 1.0 if kind == "far" else 0.75


Ratio = collections.namedtuple("Ratio", "point kind ours peer ratio bar")


def ratios(entries, ours="ringtree"):
    """One Ratio per point and class: the entry of `ours`, that of the fastest peer or None, and their quotient. Peers
    have no memory that others can reach: their own, private, is what it is compared with."""
    found = {(point_of(e), e["kind"], e["library"]): e for e in entries}
    for (point, kind, library), mine in found.items():
        if library != ours:
            continue
        peers = [e for (p, k, name), e in found.items()
                 if p == point._replace(memory="private") and k == kind and not name.startswith("ringtree")]
        best = min(peers, key=lambda e: e["us"], default=None)
        yield Ratio(point, kind, mine, best, mine["us"] / best["us"] if best else None, bar(point, kind))


def size_name(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def sizes_of(text):
    """"4,1K,64M" in bytes."""
    units = {"K": KIB, "M": MIB, "G": 1 << 30}
    return [int(word[:-1]) * units[word[-1].upper()] if word[-1].upper() in units else int(word)
            for word in text.split(",")]
