"""Time and bus bandwidth against size, one picture per collective, ranks and transport, as SVG and PNG."""
import os

import limits
import points
import report


def lines_of(entries, group):
    """{(library, memory): [(bytes, us)]} of the class that has most points; out of place where there is a choice."""
    mine = [e for e in entries if points.group_of(points.point_of(e)) == group]
    kinds = [e["kind"] for e in mine]
    kind = max(set(kinds), key=kinds.count)
    place = "out" if any(e["place"] == "out" for e in mine) else "in"
    lines = {}
    for entry in sorted(mine, key=lambda e: e["bytes"]):
        if entry["kind"] == kind and entry["place"] == place:
            lines.setdefault((entry["library"], entry["memory"]), []).append((entry["bytes"], entry["us"]))
    return lines, kind, place


def add_limit(lines, meters, group):
    """`meters` by size: those of the run that measured it."""
    sizes = sorted({size for line in lines.values() for size, _ in line})
    point = points.Point(*group, "out", "private", 0)
    found = [(size, limits.limit_us(meters[size], point._replace(bytes=size))) for size in sizes]
    if all(us for _, us in found):
        lines[("limit", "")] = found


def style(library, memory):
    if library == "limit":
        return {"color": "black", "linestyle": ":", "label": "limit of the meters"}
    words = {"label": library + (" (memory that is shared)" if memory == "shared" else "")}
    if library == "ringtree":
        return dict(words, color="crimson", linewidth=2.5, marker="o", linestyle="--" if memory == "shared" else "-")
    if library.startswith("ringtree"):
        return dict(words, color="darkorange", marker="s", linestyle="--" if memory == "shared" else "-")
    return dict(words, linewidth=1, marker=".")


def draw(pyplot, lines, group, title, path):
    transport, ranks, collective = group
    factor = points.bus_factor(collective, ranks)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5.5))
    for (library, memory), line in sorted(lines.items()):
        sizes = [size for size, _ in line]
        left.plot(sizes, [us for _, us in line], **style(library, memory))
        right.plot(sizes, [size * factor / us / 1e3 for size, us in line], **style(library, memory))
    for axes, name in ((left, "time, us"), (right, "bus bandwidth, GB/s")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("bytes")
        axes.set_ylabel(name)
        axes.grid(True, which="major", alpha=0.3)
    right.legend(fontsize=7)
    figure.suptitle(title)
    figure.tight_layout()
    for kind in ("svg", "png"):
        figure.savefig(f"{path}.{kind}", metadata={"Date": None} if kind == "svg" else None, dpi=90)
    pyplot.close(figure)


def draw_all(known, directory, groups):
    """{group: name of its files without the ending}; empty, with a sentence, where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is missing (apt-get install python3-matplotlib, or pip install matplotlib)")
        return {}
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "ringtree", "svg.fonttype": "none"})
    from matplotlib import pyplot
    plots = {}
    for group in groups:
        lines, kind, place = lines_of(known["entries"], group)
        if group[2] == "barrier" or not lines:
            continue
        mine = [e for e in known["entries"] if points.group_of(points.point_of(e)) == group]
        add_limit(lines, {e["bytes"]: report.meters_of(known, e) for e in mine}, group)
        name = f"{group[0]}-{group[1]}-{group[2]}"
        draw(pyplot, lines, group, f"{group[2]}, {group[1]} ranks, {group[0]}, {place} of place: {kind}".replace(
            "in of place", "in place"), os.path.join(directory, name))
        plots[group] = name
    return plots
