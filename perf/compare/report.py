"""What the rows say: a table for the terminal."""
import points


def cells(ratio):
    point = ratio.point
    verdict = "" if ratio.ratio is None or ratio.bar is None else "ok" if ratio.ratio <= ratio.bar else "MISSED"
    return [points.size_name(point.bytes), point.place, point.memory, ratio.kind, f"{ratio.ours:.4g}",
            f"{ratio.peer:.4g}" if ratio.peer else "-", ratio.peer_name or "no peer",
            f"{ratio.ratio:.2f}" if ratio.ratio else "-", f"{ratio.bar:.2f}" if ratio.bar else "-", verdict,
            f"{ratio.counts[0]}/{ratio.counts[1]}"]


HEAD = ["size", "place", "memory", "class", "ringtree us", "best us", "best peer", "ratio", "bar", "verdict", "starts"]


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


def times_table(rows, points_and_kinds):
    """Medians of every library, us."""
    names = sorted({row["library"] for row in rows})
    yield ["size", "place", "memory", "class", *names]
    for point, kind in points_and_kinds:
        mine = [row for row in rows if all(row[f] == getattr(point, f) for f in point._fields)]
        medians = [points.median_of([row for row in mine if row["library"] == name], kind)[0] for name in names]
        yield [points.size_name(point.bytes), point.place, point.memory, kind,
               *(f"{us:.4g}" if us else "-" for us in medians)]


def print_times(rows):
    """All medians in us, one block per collective."""
    groups = {}
    for ratio in points.ratios(rows):
        groups.setdefault((ratio.point.transport, ratio.point.ranks, ratio.point.collective), []).append(
            (ratio.point, ratio.kind))
    for (transport, ranks, collective), wanted in groups.items():
        print(f"\n{collective}, {ranks} ranks, {transport}, us")
        print_table(list(times_table(rows, wanted)))


def print_ratios(rows, ours="ringtree"):
    groups = {}
    for ratio in points.ratios(rows, ours):
        groups.setdefault((ratio.point.transport, ratio.point.ranks, ratio.point.collective), []).append(cells(ratio))
    for (transport, ranks, collective), lines in groups.items():
        print(f"\n{collective}, {ranks} ranks, {transport}, {ours}")
        print_table([HEAD] + lines)
