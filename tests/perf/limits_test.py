"""ringtree-limits from outside: every meter gives figures, in order, with units; statuses; that these checks can fail.

Usage: limits_test.py PATH-OF-RINGTREE-LIMITS [PART-OF-A-NAME]
"""
import json
import os
import subprocess
import sys

PROGRAM = sys.argv[1]
FAST = ["--repeats", "1", "--memory", "4M"]
METERS = {
    "line": {"line_one_way": "ns", "line_exchange": "ns"},
    "fresh": {"fresh_read": "GB/s"},
    "wake": {"futex_wake_same_core": "us", "futex_wake_across": "us", "eventfd_wake_same_core": "us",
             "eventfd_wake_across": "us"},
    "yield": {"yield": "us"},
    "tcp": {"tcp_one_way_polled": "us", "tcp_one_way_blocking": "us"},
    "duplex": {"tcp_duplex": "GB/s"},
    "copy": {"memcpy_cache": "GB/s", "memcpy_memory": "GB/s", "copy_memory": "GB/s", "copy_memory_streaming": "GB/s"},
    "vm-read": {"vm_read_few": "us", "vm_read_small_pages": "GB/s", "vm_read_huge_pages": "GB/s"},
    "fault": {"first_touch_anonymous": "us", "first_touch_shared": "us", "first_touch_huge": "us"},
}


class Skipped(Exception):
    pass


def run(*args, cores=None):
    command = [PROGRAM, *args] if cores is None else ["taskset", "-c", cores, PROGRAM, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def two_cores():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("one core only")


def faults_of(data, meters):
    """What is wrong with a report, as sentences."""
    found = []
    for meter in meters:
        for name, unit in METERS[meter].items():
            figures = [figure for figure in data["figures"] if figure["name"] == name]
            if not figures:
                found.append(f"{name} is not there")
            for figure in figures:
                if figure["unit"] != unit:
                    found.append(f"{name} in {figure['unit']}")
                if figure["median"] is None:
                    found.append(f"{name} was not measured: {figure['why']}")
                elif not 0 < figure["least"] <= figure["median"] <= figure["most"]:
                    found.append(f"{name} is out of order")
    return found


def test_every_meter_gives_figures_in_its_unit():
    two_cores()
    for meter in METERS:
        result = run("--only", meter, *FAST, "--json", "-")
        assert result.returncode in (0, 1), result
        found = faults_of(json.loads(result.stdout), [meter])
        if any("process_vm_readv" in fault or "AVX2" in fault for fault in found):
            raise Skipped("; ".join(found))
        assert not found, found
        assert result.returncode == 0


def test_the_report_names_machine_class_and_congestion_control():
    two_cores()
    data = json.loads(run("--only", "yield", *FAST, "--json", "-").stdout)
    assert data["class"] in ("near", "far") and data["class_after"] in ("near", "far"), data
    assert len(data["line_one_way_ns"]) == 2 and min(data["line_one_way_ns"]) > 0
    assert data["machine"]["congestion_control"], data["machine"]
    assert data["machine"]["page_bytes"] >= 4096 and data["machine"]["cores"] >= 1


def test_these_checks_can_fail():
    good = {"name": "yield", "unit": "us", "least": 1, "median": 2, "most": 3}
    assert not faults_of({"figures": [good]}, ["yield"])
    for wrong in ({"unit": "ns"}, {"least": 0}, {"least": 2.5}, {"median": 4}, {"median": None, "why": "x"},
                  {"name": "y"}):
        assert faults_of({"figures": [{**good, **wrong}]}, ["yield"]), wrong


def test_with_one_core_what_needs_two_is_named_and_the_rest_measured():
    core = str(min(os.sched_getaffinity(0)))
    result = run("--only", "line,yield", *FAST, "--json", "-", cores=core)
    assert result.returncode == 1, result
    data = json.loads(result.stdout)
    assert "class" not in data
    assert faults_of(data, ["line"]) == ["line_one_way was not measured: one core only",
                                         "line_exchange was not measured: one core only"]
    assert not faults_of(data, ["yield"])


def test_the_table_is_printed_beside_a_file_of_json():
    two_cores()
    path = f"/tmp/ringtree-limits-{os.getpid()}.json"
    try:
        result = run("--only", "yield", *FAST, "--json", path)
        assert result.returncode == 0 and "  yield " in result.stdout and "cache line one way" in result.stdout, result
        assert not faults_of(json.load(open(path)), ["yield"])
    finally:
        os.path.exists(path) and os.remove(path)


def test_bad_command_lines_are_refused():
    for args in (["--only", "lines"], ["--repeats", "0"], ["--repeats", "102"], ["--repeats", "7x"], ["--cores", "0"],
                 ["--cores", "0,99999"], ["--memory", "1K"], ["--memory", "-1"], ["--nonsense"], ["word"]):
        result = run(*args)
        assert result.returncode == 2 and "--help" in result.stderr, (args, result)


def test_output_that_cannot_be_written_is_a_failure():
    two_cores()
    result = run("--only", "yield", *FAST, "--json", "/nonexistent/x.json")
    assert result.returncode == 3 and "/nonexistent/x.json" in result.stderr, result


def test_help_names_every_meter():
    result = run("--help")
    assert result.returncode == 0
    for meter in METERS:
        assert f"\n  {meter} " in result.stdout, meter


def main():
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    failed = ran = skipped = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        ran += 1
        try:
            test()
            verdict = "ok"
        except Skipped as why:
            skipped += 1
            verdict = f"skipped: {why}"
        except Exception as error:  # any failure of one test lets the others run
            failed += 1
            verdict = f"FAILED: {error!r}"
        print(f"{name}: {verdict}", flush=True)
    sys.exit(1 if failed or not ran else 77 if skipped == ran else 0)


main()
