"""What perf/compare makes of its measurements: classes, medians, the best peer, bars, merging, and that it can fail."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "perf", "compare"))
import ci  # noqa: E402
import libraries  # noqa: E402
import limits  # noqa: E402
import points  # noqa: E402
import report  # noqa: E402


def row(library, us, line=(70, 70), **more):
    return dict({"collective": "all_reduce", "place": "out", "memory": "private", "bytes": 1024, "us": us, "p50_us": us,
                 "p99_us": 2 * us, "least_us": us, "line_ns": list(line), "transport": "shm", "ranks": 2,
                 "library": library, "wrong": 0}, **more)


def entries_of(ours, peer, **more):
    return points.condense([row("ringtree", ours, **more), row("mpich", peer, **more)])


def test_a_start_that_changed_class_under_way_counts_for_neither():
    assert points.line_class(row("mpich", 1, (70, 70))) == "near"
    assert points.line_class(row("mpich", 1, (270, 200))) == "far"
    assert points.line_class(row("mpich", 1, (13, 13))) == "twin"
    assert points.line_class(row("mpich", 1, (13, 70))) is None
    assert points.line_class(row("mpich", 1, (70, 270))) is None
    assert points.condense([row("mpich", 1, (70, 270))]) == []


def test_near_and_far_are_never_mixed():
    entries = points.condense([row("ringtree", 1), row("ringtree", 9, (270, 270)), row("mpich", 2),
                               row("mpich", 6, (270, 270))])
    assert {r.kind: r.ratio for r in points.ratios(entries)} == {"near": 0.5, "far": 1.5}


def test_the_median_over_starts_is_compared_with_the_fastest_peer():
    rows = [row("ringtree", us) for us in (1, 100, 2)] + [row("mpich", us) for us in (8, 8, 8)] + \
           [row("openmpi", us) for us in (1, 4, 9)] + [row("ringtree threads", 0.1)]
    (ratio,) = points.ratios(points.condense(rows))
    assert ratio.ratio == 0.5 and ratio.peer["library"] == "openmpi" and ratio.peer["starts"] == 3


def test_memory_that_is_shared_is_compared_with_the_private_memory_of_peers():
    rows = [row("ringtree", 1, memory="shared", bytes=1 << 20), row("mpich", 4, bytes=1 << 20)]
    (ratio,) = points.ratios(points.condense(rows))
    assert ratio.ratio == 0.25 and ratio.bar == 0.35


def test_without_a_peer_there_is_no_ratio():
    (ratio,) = points.ratios(points.condense([row("ringtree", 1)]))
    assert ratio.ratio is None and ratio.peer is None and report.verdict(ratio) == ""


def test_bars_are_those_of_the_sizes():
    def bar(size, **more):
        return points.bar(points.Point(**dict(dict(transport="shm", ranks=2, collective="all_reduce", place="out",
                                                   memory="private", bytes=size), **more)), "near")
    assert [bar(s) for s in (56, 57, 16384, 65536, 16 << 20)] == [0.6, 0.7, 0.7, 0.75, 0.8]
    assert bar(16 << 20, place="in") == 0.5 and bar(1024, ranks=4) == 0.8 and bar(4096, ranks=4) is None
    assert bar(1024, transport="tcp") == 0.9 and bar(64 << 20, transport="tcp") == 0.75
    assert bar(1024, collective="gather") == 1.05


def test_a_missed_bar_says_so():
    for ours, verdict in ((0.5, "ok"), (0.9, "MISSED")):
        (ratio,) = points.ratios(entries_of(ours, 1))
        assert report.verdict(ratio) == verdict


def test_what_is_measured_again_takes_the_place_of_the_old_and_nothing_else():
    facts = {"limits": {"line_exchange": [[0, 0, 80]]}, "when": "now"}
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "compare.json")
        report.merge(path, entries_of(1, 2) + entries_of(5, 6, ranks=4), facts)
        known = report.merge(path, entries_of(3, 2), dict(facts, when="later"))
        with open(path) as file:
            assert json.load(file) == known
        assert [e["us"] for e in known["entries"] if e["library"] == "ringtree"] == [5, 3]
        assert [run["when"] for run in known["runs"]] == ["now", "later"]
        known = report.merge(path, entries_of(5, 6, ranks=4), dict(facts, when="last"))
    assert [run["when"] for run in known["runs"]] == ["later", "last"]


def test_markdown_has_a_row_for_each_point_and_names_what_is_missing():
    known = {"machine": {"processor": "P", "cores": 2, "kernel": "K", "system": "S"},
             "entries": [dict(entry, run=1) for entry in entries_of(3, 2)],
             "runs": [{"run": 1, "when": "now", "commit": "c", "rounds": 5, "libraries": {},
                       "missing": {"gloo": "apt-get install python3-torch"}, "limits": {},
                       "settings": {}}]}
    text = "\n".join(report.markdown(known, "ringtree", {}))
    assert "| 1 KiB | out | private | near | 3 | 2 | mpich | 1.50 | 0.70 | MISSED |" in text, text
    assert "Not here: gloo: apt-get install python3-torch" in text


def test_ci_fails_only_where_the_ratio_doubled_in_every_attempt():
    recorded = {(points.Point("shm", 2, "all_reduce", "out", "private", 1024), "near"): 0.5}
    slow, fine = ([row("ringtree", us), row("mpich", 1)] for us in (1.1, 0.9))
    assert len(ci.check(lambda: (slow, []), recorded)[2]) == 1
    assert ci.check(lambda: (fine, []), recorded)[2] == []
    turns = iter([slow, slow, fine])
    assert ci.check(lambda: (next(turns), []), recorded)[2] == []
    assert ci.check(lambda: (slow, []), {})[2] == []


def test_a_wrong_result_or_a_failure_of_ringtree_fails_the_run_but_not_a_peer_that_does_not_run():
    assert report.judge([row("ringtree", 1)], []) == 0
    assert report.judge([row("mpich", 1, wrong=3)], []) == 1
    assert report.judge([row("ringtree", 1)], ["ringtree, shm, 2 ranks: status 1"]) == 1
    assert report.judge([row("ringtree", 1)], ["mpich, shm, 2 ranks: status 1"]) == 0


def test_the_limit_is_an_exchange_while_small_and_bytes_while_large():
    meters = {"line_exchange": [[0, 0, 80.0]], "fresh_read": [[65536, 0, 10.0]], "copy_memory": [[1 << 29, 2, 5.0]],
              "copy_memory_streaming": [[1 << 29, 2, 7.0]]}
    point = points.Point("shm", 2, "all_reduce", "out", "private", 4)
    assert limits.limit_us(meters, point) == 0.08
    assert abs(limits.limit_us(meters, point._replace(bytes=65536)) - 6.5536) < 1e-9
    assert abs(limits.limit_us(meters, point._replace(bytes=64 << 20)) - 5 * (64 << 20) / 30e3) < 1e-6
    assert limits.limit_us({}, point) is None
    wire = point._replace(transport="netns-1gbit", bytes=1 << 20)
    assert abs(limits.limit_us({}, wire) - (1 << 20) / 125) < 1e-6 and points.bar(wire, "near") is None


def test_a_library_that_is_not_there_says_how_to_get_it():
    for library in (libraries.WheelOpenMPI("/nowhere", "ob1"), libraries.WheelMpich("/nowhere"),
                    libraries.IntelMPI("/nowhere"), libraries.Ringtree("/nowhere")):
        try:
            library.prepare("/nowhere")
            assert False, f"{library.name} is not missing"
        except libraries.Missing as why:
            assert "perf/compare/peers" in str(why) or "cmake" in str(why), why


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"ok       {name[5:]}")
    return 0


sys.exit(main())
