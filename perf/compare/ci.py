"""The short form for CI: fails on wrong results, and where ringtree against its best peer is over twice as slow as the
recorded comparison says. A ratio must be that high in every one of ATTEMPTS runs: such machines have bad seconds."""
import json
import os

import points

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "baseline", "compare.json")
SIZES = "4,1K,64K,1M"
SLACK = 2.0
ATTEMPTS = 3


def recorded_ratios(path=RECORDED):
    """{(point, class): ratio}; empty where nothing has been recorded."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return {(r.point, r.kind): r.ratio for r in points.ratios(json.load(file)["entries"]) if r.ratio}


def too_slow(entries, recorded):
    """{(point, class): sentence}"""
    found = {}
    for ratio in points.ratios(entries):
        known = recorded.get((ratio.point, ratio.kind))
        if known and ratio.ratio and ratio.ratio > SLACK * known:
            found[(ratio.point, ratio.kind)] = (
                f"{ratio.point.collective}, {ratio.point.ranks} ranks, {ratio.point.transport}, "
                f"{points.size_name(ratio.point.bytes)}, {ratio.point.place}, {ratio.point.memory}, {ratio.kind}: "
                f"{ratio.ratio:.2f} times {ratio.peer['library']}; recorded {known:.2f}")
    return found


def check(measure, recorded):
    """`measure` gives (rows, failures). Returns (rows, failures, sentences that stayed true in every attempt)."""
    rows, failures, slow = [], [], None
    for _ in range(ATTEMPTS):
        found, failed = measure()
        rows += found
        failures += failed
        now = too_slow(points.condense(found), recorded)
        slow = now if slow is None else {key: now[key] for key in slow if key in now}
        if not slow or failures:
            break
    return rows, failures, sorted(slow.values())
