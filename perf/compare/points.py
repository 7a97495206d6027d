"""Points: which there are, the class of each measurement, medians within a class, and the bars that ratios are held to."""
import collections
import statistics

NEAR_NS = 120
COLLECTIVES = ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
               "barrier", "send_recv"]
IN_PLACE = {"all_reduce", "reduce_scatter", "all_gather"}  # that may be either; a broadcast always is
KIB, MIB = 1 << 10, 1 << 20

Point = collections.namedtuple("Point", "transport ranks collective place memory bytes")


def line_class(row):
    """near or far, by the time of a cache line between the cores before and after; None: it changed under way."""
    if 0 in row["line_ns"]:
        return "one core"
    kinds = {"near" if ns <= NEAR_NS else "far" for ns in row["line_ns"]}
    return kinds.pop() if len(kinds) == 1 else None


def bus_factor(collective, n):
    if collective == "all_reduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if collective in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter") else 1


def median_of(rows, kind, field="us"):
    values = [row[field] for row in rows if line_class(row) == kind]
    return (statistics.median(values), len(values)) if values else (None, 0)


def bar(point, kind):
    """The ratio to the best peer that issue and README promise; None where none is."""
    size, n = point.bytes, point.ranks
    if point.collective != "all_reduce":
        return 1.05 if n in (2, 4) and point.transport == "shm" else None
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
    return 0.75 if kind == "near" else 1.0


Ratio = collections.namedtuple("Ratio", "point kind ours peer peer_name ratio bar counts")


def ratios(rows, ours="ringtree"):
    """One Ratio per point and class: `ours` against the fastest other. Peers have no memory of their own to share."""
    grouped = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        grouped[Point(*(row[f] for f in Point._fields))][row["library"]].append(row)
    for point in sorted(grouped, key=lambda p: (p.transport, p.ranks, p.collective, p.place, p.memory, p.bytes)):
        for kind in ("near", "far", "one core"):
            us, count = median_of(grouped[point][ours], kind)
            if not us:
                continue
            others = grouped[point._replace(memory="private")]
            found = [(*median_of(others[name], kind), name) for name in others if not name.startswith("ringtree")]
            found = [entry for entry in found if entry[0]]
            if found:
                best = min(found)
                yield Ratio(point, kind, us, best[0], best[2], us / best[0], bar(point, kind), (count, best[1]))
            else:
                yield Ratio(point, kind, us, None, "", None, bar(point, kind), (count, 0))


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
