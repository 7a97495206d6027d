"""overlap_perf from outside: it runs, verifies, and reports consistent figures; never how fast anything was.

Usage: overlap_test.py PATH-OF-RINGTREE-RUN PATH-OF-OVERLAP_PERF
"""
import json
import os
import subprocess
import sys

LAUNCHER, PROGRAM = sys.argv[1:]
FAST = ["--bytes", "64K,1M", "--repeats", "3"]


def run(*args, ranks=2):
    command = [LAUNCHER, "-n", str(ranks), "--timeout", "60", "--no-prefix", "--", PROGRAM, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=100,
                          env={**os.environ, "RINGTREE_TRANSPORTS": "tcp"})


def faults_of(row):
    """What does not agree in a row, as sentences."""
    alone, compute = row["alone_us"], row["compute_us"]
    found = [] if alone > 0 and compute > 0 else ["a time is 0"]
    for kind in ("plain", "thread"):
        together = row[f"{kind}_us"]
        hidden = 100 * (alone + compute - together) / min(alone, compute)
        cost = 100 * (together / (alone + compute) - 1)
        # times are printed to 0.1 us, which is much of a short one
        if abs(hidden - row[f"{kind}_hidden_percent"]) > 1 + (200 + abs(hidden)) * 0.1 / min(alone, compute):
            found.append(f"{kind}: hidden should be {hidden}")
        if abs(cost - row[f"{kind}_cost_percent"]) > 1 + (200 + abs(cost)) * 0.1 / (alone + compute):
            found.append(f"{kind}: cost should be {cost}")
    return found


def test_results_are_verified_and_figures_agree():
    for ranks, more in ((2, []), (3, ["--computing", "1"])):
        result = run(*FAST, *more, "--json", "-", ranks=ranks)
        assert result.returncode == 0, result
        data = json.loads(result.stdout)
        assert data["wrong"] == 0 and data["ranks"] == ranks and data["computing"] == (1 if more else ranks), data
        assert [row["bytes"] for row in data["rows"]] == [65536, 1048576], data
        assert not [fault for row in data["rows"] for fault in faults_of(row)], data


def test_a_wrong_result_is_found():
    result = run(*FAST, "--spoil")
    assert result.returncode == 1 and "elements are wrong" in result.stderr, result


def test_these_checks_can_fail():
    good = {"alone_us": 10, "compute_us": 10, "plain_us": 20, "plain_hidden_percent": 0, "plain_cost_percent": 0,
            "thread_us": 12, "thread_hidden_percent": 80, "thread_cost_percent": -40}
    assert not faults_of(good)
    for wrong in ({"alone_us": 5}, {"thread_us": 15}, {"plain_hidden_percent": 9}, {"thread_cost_percent": 0}):
        assert faults_of({**good, **wrong}), wrong


def test_bad_command_lines_are_refused():
    for args in (["--bytes", "3"], ["--bytes", "1M,"], ["--bytes", "99999G"], ["--repeats", "0"], ["--repeats", "1002"],
                 ["--computing", "x"], ["--nonsense"], ["word"]):
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=20)
        assert result.returncode == 2 and "--help" in result.stderr, (args, result)


def test_output_that_cannot_be_written_is_a_failure():
    result = run(*FAST, "--json", "/nonexistent/x.json")
    assert result.returncode == 4 and "/nonexistent/x.json" in result.stderr, result


def main():
    failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print(f"{name}: ok", flush=True)
        except Exception as error:  # any failure of one test lets the others run
            failed += 1
            print(f"{name}: FAILED: {error!r}", flush=True)
    sys.exit(1 if failed else 0)


main()
