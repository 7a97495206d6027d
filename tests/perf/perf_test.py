"""The benchmark from outside: its table, files, statuses, and that its checks can fail.

Usage: perf_test.py DIRECTORY-OF-THE-PROGRAMS [PART-OF-A-NAME]
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

BIN = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv"]
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
SMALL = ["-b", "4K", "-e", "4K", "-n", "2", "-w", "1"]


class Skipped(Exception):
    """What is tested is not in this build or not possible here."""


def run(name, *args, env=None, timeout=100):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGTREE_")}
    environment.update(env or {})
    result = subprocess.run([f"{BIN}/{name}_perf", *args], capture_output=True, text=True, timeout=timeout,
                            env=environment)
    if re.search("is not in this build|--inject-fault is not an option", result.stderr):
        raise Skipped(result.stderr.strip().splitlines()[0])
    return result


def good(result):
    assert result.returncode == 0, f"status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def rows(text):
    return [line for line in text.splitlines() if re.match(r" +\d+ ", line)]


def masked(text):
    """Without what differs from run to run; the width of every column is kept."""
    lines = []
    for line in text.splitlines():
        if re.match(r"# (ringtree version|Plan at|Settings)|#   |#  Rank", line) and "out-of-place" not in line \
                and "size  " not in line and "(B)" not in line:
            continue
        if re.match(r" +\d+ ", line):
            for start in (52, 85):
                times = line[start:start + 25]
                assert re.fullmatch(r"  [ 0-9.e+-]{7}  [ 0-9.e+-]{6}  [ 0-9.e+-]{6}", times), f"{times!r} in {line!r}"
                line = line[:start] + "  ttttttt  aaaaaa  bbbbbb" + line[start + 25:]
        lines.append(re.sub(r"(Avg bus bandwidth    : )[0-9.e+-]+", r"\1x", line))
    return "\n".join(lines) + "\n"


def test_the_table_is_that_of_nccl_tests_to_the_column():
    text = good(run("all_reduce", "-g", "2", "-b", "1K", "-e", "4K", "-f", "4", "-n", "2", "-w", "1"))
    golden = open(f"{HERE}/table.golden").read()
    assert masked(text) == golden, masked(text)
    assert masked(text.replace("count      type", "count     type")) != golden
    assert re.search(r"^# ringtree version \d+\.\d+\.\d+ on \S+, 2 ranks", text, re.M), text
    assert len(re.findall(r"^#  Rank +\d Group +0 Pid +\d+ on ", text, re.M)) == 2, text
    assert "# Plan at 1024 bytes:" in text and "# Plan at 4096 bytes:" in text, text


def every_collective(transport):
    for name in NAMES:
        for ranks in (2, 3, 4):
            args = ["-g", str(ranks), "--transport", transport, *SMALL, "-d", "all", "-r", "all"]
            text = good(run(name, *args, *(["-o", "all"] if name in REDUCING else [])))
            roots = ranks if name in ("broadcast", "reduce", "gather", "scatter") else 1
            want = 12 * (6 if name in REDUCING else 1) * roots
            assert len(rows(text)) == want, f"{name}, {ranks} ranks: {len(rows(text))} rows, not {want}"
            assert "Out of bounds values : 0 OK" in text, text


def test_every_collective_type_and_op_is_right_over_shm():
    every_collective("shm")


def test_every_collective_type_and_op_is_right_over_tcp():
    every_collective("tcp")


def test_odd_sizes_threads_unaligned_and_grouped_calls_are_right():
    for args in (["-g", "2", "-t", "2"], ["-t", "3"], ["-g", "3", "-u", "1"], ["-g", "2", "-m", "3"],
                 ["-g", "2", "-z", "1"], ["-g", "2", "-z", "2"], ["-g", "1"], ["-g", "2", "--dirty"],
                 ["-g", "2", "--memory", "shared"], ["-g", "2", "-c", "3", "-a", "3"]):
        text = good(run("all_reduce", *args, "-b", "4", "-e", "300004", "-i", "99999", "-n", "2", "-w", "0"))
        assert len(rows(text)) == 4, text


def test_json_has_the_keys_of_nccl_tests():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/out.json"
        good(run("reduce", "-g", "2", *SMALL, "-J", path, "--percentiles", env={"RINGTREE_SLICE_BYTES": "64K"}))
        data = json.load(open(path))
        assert {"version", "start_time", "end_time", "args", "env", "config", "results", "out_of_bounds",
                "average_bus_bandwidth", "errors"} <= set(data), data.keys()
        assert {"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_bytes", "warmup_iters", "iterations",
                "aggregated_iterations", "validation", "graph", "blocking_collectives", "parallel_init",
                "devices"} <= set(data["config"]), data["config"].keys()
        row = data["results"][0]
        assert {"size", "count", "type", "redop", "root", "out_of_place", "in_place", "out_of_place_per_iter",
                "actual_iterations", "experiment_name"} <= set(row), row
        assert set(row["in_place"]) == {"time", "alg_bw", "bus_bw", "nwrong"} and row["in_place"]["nwrong"] == 0, row
        assert data["out_of_bounds"] == {"count": 0, "okay": "true"}, data
        assert data["env"] == ["RINGTREE_SLICE_BYTES=64K"], data["env"]
        good(run("reduce", "-g", "2", *SMALL, "-J", path))
        assert os.path.exists(path + ".0"), "an existing file must be kept"


def test_csv_has_a_line_per_row():
    with tempfile.TemporaryDirectory() as folder:
        good(run("sendrecv", "-g", "2", *SMALL, "-d", "all", "--csv", f"{folder}/out.csv"))
        lines = list(csv.DictReader(open(f"{folder}/out.csv")))
        assert len(lines) == 12 and float(lines[0]["out_of_place_time_us"]) > 0, lines
        assert lines[0]["in_place_time_us"] == "" and lines[0]["out_of_place_wrong"] == "0", lines


def test_percentiles_and_limits_are_printed_on_request():
    text = good(run("all_reduce", "-g", "2", *SMALL, "--percentiles", "--limits"))
    assert re.search(r"#wrong +min +p50 +p99 +time", text), text
    assert re.search(r"limits: memcpy [0-9.]+ GB/s, busbw is [0-9.]+ of it; sockets [0-9.]+ GB/s", text), text
    assert len(rows(text)[0].split()) == 5 + 14, text


def fault(kind, name="all_reduce"):
    return run(name, "-g", "2", *SMALL, "--inject-fault", f"{kind}:1")


def test_one_flipped_bit_fails_the_run():
    for name in NAMES:
        result = fault("flip", name)
        if name in ("reduce", "gather"):  # rank 1 has no output there; the flip hits its input, in place
            continue
        assert result.returncode == 1, f"{name}: status {result.returncode}\n{result.stdout}\n{result.stderr}"
        assert "FAILED" in result.stdout and rows(result.stdout)[0].split()[8] == "1", result.stdout
        assert re.search(r"rank 1: \w+, float, \w+, count \d+, out of place: output element \d+ is .*, should be",
                         result.stderr), result.stderr


def test_a_byte_beside_the_buffer_or_a_changed_input_fails_the_run():
    for kind, words in (("canary", "bytes beside the buffers were overwritten"), ("input", "FAILED")):
        result = fault(kind)
        assert result.returncode == 1 and words in result.stdout, result.stdout


def test_a_killed_rank_is_named_and_the_run_ends():
    result = fault("die")
    assert result.returncode == 137, result
    assert "rank 1 (pid " in result.stderr and "was killed by signal 9" in result.stderr, result.stderr
    assert re.search(r"^rank 0: RINGTREE_PEER_LOST: .*rank 1", result.stderr, re.M), result.stderr


def test_ranks_that_call_different_things_end_with_both_calls_named():
    result = fault("mismatch")
    assert result.returncode == 3, result
    assert re.search(r"^rank \d: RINGTREE_MISMATCH: .*1023", result.stderr, re.M), result.stderr


def test_a_failure_stands_beside_the_rows_and_each_rank_says_it_once():
    for kind in ("die", "mismatch"):
        name = "all_reduce"
        command = [f"{BIN}/{name}_perf", "-g", "4", *SMALL, "--inject-fault", f"{kind}:1"]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if "--inject-fault is not an option" in result.stdout:
            raise Skipped(result.stdout.strip().splitlines()[0])
        said = [line for line in result.stdout.splitlines() if "RINGTREE_" in line and not line.startswith("#")]
        assert said and all(re.match(r"rank \d: RINGTREE_", line) for line in said), result.stdout
        assert not any("RINGTREE_ABORTED" in line for line in said), result.stdout


def test_a_rank_that_fails_alone_says_why_and_the_others_say_nothing():
    one_poor = "[ $RINGTREE_RANK != 1 ] || ulimit -v 300000; exec \"$0\" \"$@\""
    command = [f"{BIN}/ringtree-run", "-n", "2", "--no-prefix", "sh", "-c", one_poor, f"{BIN}/all_reduce_perf",
               "-b", "160M", "-e", "160M", "-n", "1", "-w", "0", "--transport", "tcp"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "RINGTREE_NO_MEMORY" not in result.stderr:
        raise Skipped("ulimit -v does not do that here, as with sanitizers")
    said = [line for line in result.stderr.splitlines() if "RINGTREE_" in line]
    assert result.returncode == 3 and len(said) == 1 and said[0].startswith("rank 1: RINGTREE_NO_MEMORY: "), result


def test_bad_command_lines_end_with_status_2_and_a_reason():
    for args, words in ((["--foo"], "--foo is not an option"), (["-b"], "-b takes a value"),
                        (["-b", "1X"], '"1X" is no value for -b'), (["-b", "2M", "-e", "1M"], "above -e"),
                        (["-g", "2", "-r", "2"], "no root 2"), (["-o", "xor"], '"xor" is no value'),
                        (["-g", "0"], '-g takes a number from 1 to 4096, not "0"'),
                        (["--iters", "x"], '--iters takes a number from 1 to 100000000, not "x"'),
                        (["-b", "0", "-f", "2"], "never leaves size 0"), (["extra"], "extra is not an option"),
                        (["-J", "/nonexistent/x.json", *SMALL], "/nonexistent/x.json"),
                        (["--codec", "q9"], '"q9" is no value'), (["--codec", "q8", "-d", "half"], "--codec is for"),
                        (["--link-limit", "1gbit;"], "is no value"),
                        (["--csv", "/nonexistent/x.csv", *SMALL], "/nonexistent/x.csv")):
        result = run("all_reduce", *args)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, f"{args}: {result}"
        assert words in result.stderr or "not in this build" in result.stderr, f"{args}: {result}"


def test_an_impossible_algorithm_is_an_error_that_lists_the_possible_ones():
    result = run("all_reduce", "-g", "2", *SMALL, "--algorithm", "no_such_thing")
    assert result.returncode in (2, 3) and "ring" in result.stderr, result


def test_a_forced_algorithm_that_is_predicted_to_be_slow_is_remarked_on():
    forced = run("all_reduce", "-g", "4", "-b", "64", "-e", "64", "-n", "1", "--transport", "shm", "--algorithm", "tree")
    chosen = run("all_reduce", "-g", "4", "-b", "64", "-e", "64", "-n", "1", "--transport", "shm")
    assert re.search(r"# Note: tree is forced, but \w+ is predicted to be \S+ times as fast", forced.stdout), forced
    assert "is forced" not in chosen.stdout, chosen


def test_a_slow_run_fails_when_a_least_bandwidth_is_asked_for():
    result = run("all_reduce", "-g", "2", *SMALL, "--min-busbw", "1e9")
    assert result.returncode == 1 and re.search(r"Avg bus bandwidth    : \S+ FAILED", result.stdout), result


def test_help_states_units_defaults_statuses_and_examples():
    text = good(run("all_reduce", "--help"))
    for word in ("microseconds", "10^9", "(default 32M)", "Exit status", "Examples", "--percentiles"):
        assert word in text, word
    assert all(len(line) <= 120 for line in text.splitlines())


def test_it_runs_under_ringtree_run():
    command = [f"{BIN}/ringtree-run", "-n", "3", "--no-prefix", f"{BIN}/all_gather_perf", *SMALL]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert len(rows(good(result))) == 1 and ", 3 ranks" in result.stdout, result.stdout


CODEC = ["-g", "2", "-b", "100K", "-e", "100K", "-n", "2", "-w", "1"]


def coded(*args):
    """The columns of the one row: size, count, codec, exact, coded, faster, busbw, wire, max, rms, bound."""
    return rows(good(run("all_reduce", *CODEC, *args)))[0].split()


def test_a_codec_has_its_bytes_and_stays_within_its_bound():
    for codec, wire in (("q8", 1.016), ("q4", 0.516), ("bf16", 2.004), ("fp16", 2.004), ("q8,stochastic", 1.016)):
        row = coded("--codec", codec)
        assert row[2] == codec.split(",")[0] and abs(float(row[7]) - wire) < 0.01, row
        assert 0 < float(row[9]) < float(row[8]) < float(row[10]), row
    sparse = coded("--codec", "topk:0.01,feedback")
    assert sparse[2] == "topk" and float(sparse[7]) < 0.1 and sparse[10] == "none", sparse
    assert coded("--codec", "auto")[2] == "none", "ranks that share memory need no codec"
    slow = {"RINGTREE_LINK_RATE": "1G"}
    over_tcp = good(run("all_reduce", *CODEC, "--codec", "q8", "--transport", "tcp", env=slow))
    assert "q8: q8; links between nodes are slow" in over_tcp, over_tcp


def test_errors_above_the_bound_fail_the_run():
    result = run("all_reduce", *CODEC, "--codec", "q8", "--inject-fault", "flip:1")
    assert result.returncode == 1 and "EXCEEDED" in result.stdout, result


def test_a_codec_is_in_json_and_csv():
    with tempfile.TemporaryDirectory() as folder:
        good(run("all_reduce", *CODEC, "--codec", "q8", "-J", f"{folder}/out.json", "--csv", f"{folder}/out.csv"))
        result = json.load(open(f"{folder}/out.json"))["results"][0]
        line = list(csv.DictReader(open(f"{folder}/out.csv")))[0]
        assert result["codec"] == line["codec"] == "q8" and result["within_bound"] == "true", result
        assert abs(result["wire_bytes_per_element"] - float(line["wire_bytes_per_element"])) < 1e-3, line


def test_a_limited_link_is_slower_than_its_rate_and_a_codec_helps():
    if os.geteuid():
        raise Skipped("--link-limit needs root")
    result = run("all_reduce", "-g", "3", "-b", "4M", "-e", "4M", "-n", "2", "-w", "1", "--codec", "q8",
                 "--link-limit", "200mbit")
    if "this failed" in result.stderr or "needs root" in result.stderr:
        raise Skipped(result.stderr.strip().splitlines()[-1])
    row = rows(good(result))[0].split()
    assert float(row[3]) > 0.8 * 4 / 3 * 4.2e6 * 8 / 200 and float(row[5]) > 2, row


failed = 0
for name, test in list(globals().items()):
    if not name.startswith("test_") or (len(sys.argv) > 2 and sys.argv[2] not in name):
        continue
    try:
        test()
        print(f"ok       {name[5:]}", flush=True)
    except Skipped as why:
        print(f"skipped  {name[5:]}\n         skipped: {why}", flush=True)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        failed += 1
        print(f"FAILED   {name[5:]}\n{error}", flush=True)
sys.exit(1 if failed else 0)
