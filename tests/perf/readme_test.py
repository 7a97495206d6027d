"""The figures in the tables of README.md are those of the recorded baselines.

Usage: readme_test.py REPOSITORY. A table is known by its first column's name; figures may differ by what rounding of
the recorded values does.
"""
import collections
import csv
import json
import os
import re
import statistics
import sys

ROOT = sys.argv[1]
BASELINE = os.path.join(ROOT, "perf", "baseline")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "perf", "compare"))
import points  # noqa: E402
import report  # noqa: E402

TRANSPORTS = {"shared memory": "shm", "TCP over loopback": "tcp", "TCP between two network namespaces": "netns"}
UNITS = {"us": 1, "ms": 1e3, "KiB": 1 << 10, "MiB": 1 << 20}


def tables(text):
    """{first column's name: rows of cells}"""
    found, name = {}, None
    for line in text.splitlines():
        if not line.startswith("|"):
            name = None
        elif name is None:
            name = line.split("|")[1].strip()
            found[name] = []
        elif not line.startswith("|---"):
            found[name].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def value(text):
    """The first number of a cell, with its unit."""
    match = re.match(r"([0-9.]+)(?: (us|ms|KiB|MiB|%))?", text)
    return float(match[1]) * UNITS.get(match[2], 1)


class Findings(list):
    def near(self, what, told, recorded, slack):
        if abs(told - recorded) > slack:
            self.append(f"{what}: the README says {told:g}, recorded is {recorded:.4g}")


def check_ratios(rows, entries, findings):
    recorded = {(r[2], int(r[1])): r for r in report.summary(report.by_group(entries, "ringtree")) if
                r[0] == "all_reduce"}
    for name, count, median, worst in rows:
        words, ranks = re.match(r"(.*), (\d+) ranks", name).groups()
        row = recorded[TRANSPORTS[words], int(ranks)]
        for told, index in ((count, 3), (median, 4), (worst, 5)):
            findings.near(f"all_reduce, {name}", value(told), float(row[index]), 1e-9)


def check_times(rows, entries, findings):
    shown = ("all_reduce", 2, "out", "near")  # "far", "twin": where the host had put the two cores otherwise
    entries = [e for e in entries if (e["collective"], e["ranks"], e["place"], e["kind"]) == shown]

    def least(size, transport, memory, ours):
        return min(e["us"] for e in entries if (e["bytes"], e["transport"], e["memory"]) == (size, transport, memory)
                   and e["library"] in ours)

    peers = {e["library"] for e in entries} - {"ringtree", "ringtree threads"}
    for size, private, shared, peer, tcp, tcp_peer in rows:
        columns = ((private, "shm", "private", {"ringtree"}), (shared, "shm", "shared", {"ringtree"}),
                   (peer, "shm", "private", peers), (tcp, "tcp", "private", {"ringtree"}),
                   (tcp_peer, "tcp", "private", peers))
        for told, *where in columns:
            if told:
                recorded = least(int(value(size)), *where)
                findings.near(f"{size} over {where[0]}, {where[1]}", value(told), recorded, 0.05 * recorded)


def check_predictions(rows, points_, findings):
    groups = collections.defaultdict(list)
    for point in points_:
        groups[point["transport"], point["ranks"]].append(point)
    for name, ranks, count, error, choices, slow, worst in rows:
        chosen = points_ if name == "all" else groups[TRANSPORTS[name], ranks]
        calls, errors = collections.defaultdict(list), []
        for point in chosen:
            predicted, measured = float(point["predicted_us"]), float(point["measured_us"])
            errors.append(100 * abs(predicted - measured) / measured)
            calls[point["transport"], point["ranks"], point["collective"], point["bytes"]].append(
                (measured, point["chosen"] == "1"))
        slower = [100 * (next(us for us, is_chosen in ways if is_chosen) / min(ways)[0] - 1)
                  for ways in calls.values()]
        for told, recorded, slack in ((count, len(chosen), 0), (error, statistics.median(errors), 1),
                                      (choices, len(calls), 0), (slow, sum(s > 15 for s in slower), 0),
                                      (worst, max(slower), 1)):
            findings.near(f"predictions, {name} {ranks}", value(told), recorded, slack)


def check_codecs(rows, links, findings):
    two, four = links["1gbit, 64M, 2 ranks"], links["1gbit, 64M, 4 ranks"]
    for codec, bytes_told, *told in rows:
        findings.near(f"{codec}, bytes", float(bytes_told), statistics.median(two[codec + " wire"]), 0.001)
        references = [(two, "exact"), (two, "gloo float32"), (two, "gloo fp16"), (four, "exact"),
                      (four, "gloo float32")]
        for figure, (link, reference) in zip(told, references):
            ratio = statistics.median(link[reference]) / statistics.median(link[codec])
            findings.near(f"{codec} to {reference}", float(figure), ratio, 0.006)


def check(text):
    found, findings = tables(text), Findings()
    with open(os.path.join(BASELINE, "compare.json")) as file:
        entries = json.load(file)["entries"]
    with open(os.path.join(BASELINE, "predict.csv")) as file:
        predicted = list(csv.DictReader(file))
    with open(os.path.join(BASELINE, "codec.json")) as file:
        links = json.load(file)
    check_ratios(found["all_reduce"], entries, findings)
    check_times(found["bytes"], entries, findings)
    check_predictions(found["transport"], predicted, findings)
    check_codecs(found["codec"], links, findings)
    return findings


def main():
    with open(os.path.join(ROOT, "README.md")) as file:
        text = file.read()
    findings = check(text)
    for finding in findings:
        print(f"FAILED: {finding}")
    # one figure of each table spoilt: the checker can fail
    for table in ("all_reduce", "bytes", "transport", "codec"):
        row = tables(text)[table][0]
        line = next(l for l in text.splitlines() if l.startswith("|") and
                    [c.strip() for c in l.strip("|").split("|")] == row)
        column = 2 if row[2] else 1
        spoilt = line.replace(f"| {row[column]} |", f"| {value(row[column]) * 3 + 7:g} |", 1)
        assert spoilt != line and check(text.replace(line, spoilt)), f"a wrong figure in table {table} is not found"
    return 1 if findings else 0


sys.exit(main())
