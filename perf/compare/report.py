"""What the entries say: tables for the terminal, the same and a summary in Markdown, and the file that runs add to."""
import json
import os
import platform
import statistics
import subprocess
import time

import limits
import points

ORDER = ["size", "place", "memory", "class", "ringtree us", "best us", "best peer", "ratio", "bar", "verdict",
         "p99/p50", "peer's", "x limit", "starts"]


def verdict(ratio):
    if ratio.ratio is None or ratio.bar is None:
        return ""
    return "ok" if ratio.ratio <= ratio.bar else "MISSED"


def tail(entry):
    return f"{entry['p99_us'] / entry['p50_us']:.1f}" if entry and entry["p50_us"] else "-"


def number(value, form=".4g"):
    return format(value, form) if value else "-"


def cells(ratio, meters):
    point, mine, peer = ratio.point, ratio.ours, ratio.peer
    limit = limits.limit_us(meters, point)
    return [points.size_name(point.bytes), point.place, point.memory, ratio.kind, number(mine["us"]),
            number(peer and peer["us"]), peer["library"] if peer else "no peer", number(ratio.ratio, ".2f"),
            number(ratio.bar, ".2f"), verdict(ratio), tail(mine), tail(peer),
            number(limit and mine["us"] / limit, ".2f"), f"{mine['starts']}/{peer['starts'] if peer else 0}"]


def by_group(entries, ours):
    """{(transport, ranks, collective): [Ratio]}, sizes in order."""
    groups = {}
    for ratio in sorted(points.ratios(entries, ours), key=lambda r: (r.point, r.kind)):
        groups.setdefault(points.group_of(ratio.point), []).append(ratio)
    return groups


def times(entries, ratios):
    """Every library's time at the points of these ratios."""
    names = sorted({e["library"] for e in entries if points.group_of(points.point_of(e)) ==
                    points.group_of(ratios[0].point)})
    found = {(points.point_of(e), e["kind"], e["library"]): e["us"] for e in entries}
    rows = [["size", "place", "memory", "class", *names]]
    for ratio in ratios:
        point = ratio.point
        rows.append([points.size_name(point.bytes), point.place, point.memory, ratio.kind,
                     *(number(found.get((point, ratio.kind, name))) for name in names)])
    return rows


# ---- terminal

def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


def print_report(entries, meters, ours):
    for (transport, ranks, collective), ratios in by_group(entries, ours).items():
        print(f"\n{collective}, {ranks} ranks, {transport}: us")
        print_table(times(entries, ratios))
        print(f"\n{collective}, {ranks} ranks, {transport}: {ours} against the best peer")
        print_table([ORDER] + [cells(ratio, meters) for ratio in ratios])


def judge(rows, failures):
    """0: all results were right and ringtree failed nowhere."""
    for failure in failures:
        print(f"FAILED: {failure}")
    wrong = [row for row in rows if row["wrong"]]
    for row in wrong:
        print(f"WRONG: {row['library']}: {row['wrong']} elements of {row['collective']}, {row['bytes']} bytes")
    return 1 if wrong or any(failure.startswith("ringtree") for failure in failures) else 0


# ---- the file

def machine():
    model = ""
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "kernel": f"{os.uname().sysname} "
            f"{os.uname().release}", "system": " ".join(platform.freedesktop_os_release()[k] for k in ("NAME",
                                                                                                        "VERSION_ID"))}


def commit():
    done = subprocess.run(["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def run_facts(here, missing, options, meters):
    return {"when": time.strftime("%Y-%m-%d %H:%M"), "commit": commit(), "rounds": options.rounds,
            "budget_ms": options.budget_ms, "libraries": {library.name: library.version() for library in here},
            "missing": dict(missing), "limits": meters,
            "settings": {name: value for name, value in os.environ.items()
                         if name.startswith("RINGTREE_") and "SECRET" not in name}}


def merge(path, entries, facts):
    """What was measured now takes the place of what the file has of the same points. Each entry names its run; a run
    of which nothing is left goes."""
    known = {"machine": machine(), "runs": [], "entries": []}
    if os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    fresh = {points.point_of(e) for e in entries}
    number_of_run = 1 + max((run["run"] for run in known["runs"]), default=0)
    known["entries"] = [e for e in known["entries"] if points.point_of(e) not in fresh]
    known["entries"] += [dict(e, run=number_of_run) for e in entries]
    left = {e["run"] for e in known["entries"]}
    known["runs"] = [run for run in [*known["runs"], dict(facts, run=number_of_run)] if run["run"] in left]
    write_json(path, known)
    return known


def write_json(path, known):
    """An entry a line, so that two files can be compared by eye."""
    with open(path + ".new", "w") as file:
        file.write('{"machine": ' + json.dumps(known["machine"]) + ',\n"runs": [\n')
        file.write(",\n".join(json.dumps(run) for run in known["runs"]) + '\n],\n"entries": [\n')
        file.write(",\n".join(json.dumps(entry) for entry in known["entries"]) + "\n]}\n")
    os.replace(path + ".new", path)


def meters_of(known, entry):
    return next((run["limits"] for run in known["runs"] if run["run"] == entry["run"]), {})


# ---- Markdown

def markdown_table(rows):
    yield "| " + " | ".join(rows[0]) + " |"
    yield "|" + "---|" * len(rows[0])
    for row in rows[1:]:
        yield "| " + " | ".join(row) + " |"


def summary(groups):
    rows = [["collective", "ranks", "transport", "points", "median ratio", "worst", "where", "bars missed"]]
    for (transport, ranks, collective), ratios in groups.items():
        known = [ratio for ratio in ratios if ratio.ratio]
        if known:
            worst = max(known, key=lambda r: r.ratio)
            missed = sum(verdict(ratio) == "MISSED" for ratio in known)
            rows.append([collective, str(ranks), transport, str(len(known)),
                         f"{statistics.median(r.ratio for r in known):.2f}", f"{worst.ratio:.2f}",
                         f"{points.size_name(worst.point.bytes)}, {worst.point.place}, {worst.point.memory}, "
                         f"{worst.kind}", f"{missed} of {sum(r.bar is not None for r in known)}"])
    return rows


def markdown(known, ours, plots):
    groups = by_group(known["entries"], ours)
    facts = known["machine"]
    yield f"# {ours} beside its peers\n"
    yield f"{facts['processor']}, {facts['cores']} cores, {facts['kernel']}, {facts['system']}. float32, sum, " \
          f"medians; ratio = {ours} / the fastest peer in the same run and class (twin: a cache line takes up to " \
          f"{points.TWIN_NS} ns between the processors, near: up to {points.NEAR_NS} ns, far: more). How it was " \
          "measured: README.md of perf/baseline.\n"
    libraries = {name: version for run in known["runs"] for name, version in run["libraries"].items()}
    missing = {name: why for run in known["runs"] for name, why in run["missing"].items() if name not in libraries}
    yield from (f"- {name}: {version}" for name, version in libraries.items())
    yield from (f"- Not here: {name}: {why}" for name, why in missing.items())
    yield ""
    for run in known["runs"]:
        found = [points.group_of(points.point_of(e)) for e in known["entries"] if e["run"] == run["run"]]
        taken = ", ".join(sorted({" ".join(map(str, group)) for group in found}))
        settings = f" Settings: {run['settings']}." if run["settings"] else ""
        yield f"- {run['when']}, commit {run['commit']}, {run['rounds']} starts of each: {taken}.{settings}"
    yield "\n## All in short\n"
    yield from markdown_table(summary(groups))
    for group, ratios in groups.items():
        transport, ranks, collective = group
        yield f"\n## {collective}, {ranks} ranks, {transport}\n"
        name = plots.get(group)
        if name:
            yield f"![time and bus bandwidth]({name}.svg)\n"
        yield from markdown_table([ORDER] + [cells(r, meters_of(known, r.ours)) for r in ratios])
        yield "\nAll medians in us:\n"
        yield from markdown_table(times(known["entries"], ratios))


def write_markdown(path, known, ours, plots):
    with open(path, "w") as file:
        for line in markdown(known, ours, plots):
            file.write(line + "\n")
