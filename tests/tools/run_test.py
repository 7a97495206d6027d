"""ringtree-run from outside: output, environment, statuses, signals, and that nothing is left behind.

Usage: run_test.py PATH-OF-RINGTREE-RUN [PART-OF-A-NAME]
"""
import os
import pty
import re
import signal
import subprocess
import sys
import time

RUN = sys.argv[1]


def run(*args, stdin=subprocess.DEVNULL, timeout=30):
    began = time.monotonic()
    result = subprocess.run([RUN, *args], stdin=stdin, capture_output=True, timeout=timeout)
    result.took = time.monotonic() - began
    return result


def shell(n, script, *options):
    return run("-n", str(n), *options, "sh", "-c", script)


def start(n, script):
    return subprocess.Popen([RUN, "-n", str(n), "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pids, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(alive, pids)):
        time.sleep(0.01)
    return not any(map(alive, pids))


def test_every_rank_gets_its_numbers_and_the_same_id():
    result = shell(3, 'echo "$RINGTREE_RANK $RINGTREE_SIZE $RINGTREE_LOCAL_RANK $RINGTREE_LOCAL_SIZE $RINGTREE_ID"')
    assert result.returncode == 0, result
    lines = sorted(result.stdout.decode().split("\n")[:-1])
    ids = {line.split()[-1] for line in lines}
    assert len(ids) == 1 and re.fullmatch("[0-9a-f]{512}", ids.pop()), lines
    assert [line.split()[:5] for line in lines] == [[f"[{r}]", str(r), "3", str(r), "3"] for r in range(3)], lines


def test_the_secret_is_on_no_command_line():
    result = shell(1, 'for f in /proc/$$/cmdline /proc/$PPID/cmdline; do grep -ac "$RINGTREE_ID" $f; done')
    assert result.stdout == b"[0] 0\n[0] 0\n", result


def test_lines_are_prefixed_and_bytes_kept():
    result = shell(1, r'printf "a\000b\377\nlast"; printf "err\n" >&2')
    assert result.stdout == b"[0] a\x00b\xff\n[0] last\n" and result.stderr == b"[0] err\n", result
    result = shell(11, "echo x")
    assert sorted(result.stdout.split(b"\n")[:-1]) == [b"[%2d] x" % r for r in range(11)], result
    assert shell(2, "echo x", "--no-prefix").stdout == b"x\nx\n"


def test_lines_of_different_ranks_do_not_mix():
    script = 'i=0; while [ $i -lt 100 ]; do printf "%s" $RINGTREE_RANK; printf "%03000d\\n" 0; i=$((i+1)); done'
    lines = shell(4, script).stdout.split(b"\n")[:-1]
    assert len(lines) == 400 and all(line[4:] == line[1:2] + b"0" * 3000 for line in lines)


def test_a_line_of_three_million_bytes_is_passed_on_in_pieces():
    result = shell(1, "head -c 3000000 /dev/zero")
    assert result.stdout.count(b"\0") == 3000000 and result.stdout.count(b"\n") == 3, len(result.stdout)


def test_input_goes_to_rank_0_only():
    with open(__file__, "rb") as text:
        result = run("-n", "2", "sh", "-c", "wc -c", stdin=text)
    assert sorted(result.stdout.split(b"\n")) == [b"", b"[0] %d" % os.path.getsize(__file__), b"[1] 0"], result


def test_it_ends_with_the_first_failing_ranks_status_and_words():
    result = shell(3, 'if [ $RINGTREE_RANK = 1 ]; then exit 7; fi; exec sleep 30')
    assert result.returncode == 7 and result.took < 3, result
    assert re.search(rb"^ringtree-run: rank 1 \(pid \d+\) ended with status 7; the others were stopped$",
                     result.stderr, re.M), result
    result = shell(3, 'if [ $RINGTREE_RANK = 2 ]; then kill -9 $$; fi; exec sleep 30')
    assert result.returncode == 137 and b"rank 2 (pid " in result.stderr, result
    assert b"was killed by signal 9 (Killed); the others were stopped" in result.stderr, result


def test_a_program_that_cannot_start_is_said_so():
    result = run("-n", "2", "/nonexistent")
    assert result.returncode == 127 and b"cannot start /nonexistent: No such file" in result.stderr, result
    result = run("-n", "2", "/etc/passwd")
    assert result.returncode == 126 and b"Permission denied" in result.stderr, result


def test_timeout_ends_everything_even_what_ignores_sigterm():
    result = shell(2, 'trap "" TERM; echo $$; while :; do sleep 0.1; done', "--timeout", "0.4", "--grace", "0.3")
    assert result.returncode == 124 and 0.6 < result.took < 4, result
    assert b"not finished after 0.4 s (--timeout)" in result.stderr, result
    assert gone_within([int(line.split()[1]) for line in result.stdout.splitlines()], 1), result


def test_signals_are_passed_on():
    for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
        process = start(2, f'trap "echo got {name}; exit 0" {name}; echo ready; while :; do sleep 0.02; done')
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(getattr(signal, "SIG" + name))
        out, _ = process.communicate(timeout=10)
        assert process.returncode == 0 and out.count(b"got " + name.encode()) == 2, (name, process.returncode, out)


def test_a_signal_reaches_the_whole_process_group_of_a_rank():
    process = start(1, "sleep 30 & echo $!; wait")
    child = int(process.stdout.readline().split()[1])
    process.terminate()
    process.wait(10)
    assert gone_within([child], 2)


def test_ranks_die_when_ringtree_run_is_killed():
    process = start(2, "echo $$; exec sleep 30")
    pids = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    assert all(map(alive, pids))
    process.kill()
    process.wait()
    assert gone_within(pids, 2)


def test_children_get_no_descriptors_of_ringtree_run():
    """Only those that were already there, as seen by a plain shell started in the same way."""
    script = "ls /proc/self/fd | tr '\\n' ' '"
    alone = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True).stdout
    result = shell(1, script)
    assert result.stdout == b"[0] " + alone + b"\n", (result, alone)


def test_ranks_can_be_pinned_round_robin():
    allowed = sorted(os.sched_getaffinity(0))
    script = "echo $RINGTREE_RANK $(sed -n 's/Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    lines = sorted(line.split()[1:] for line in shell(4, script, "--bind").stdout.decode().splitlines())
    assert lines == [[str(r), str(allowed[r % len(allowed)])] for r in range(4)], lines


def test_a_reader_that_goes_away_ends_the_run():
    process = start(2, "exec yes")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(10) == 128 + signal.SIGPIPE, process.returncode


def test_what_a_rank_leaves_behind_does_not_keep_it():
    result = shell(1, "sleep 5 & echo x")
    assert result.returncode == 0 and result.stdout == b"[0] x\n" and result.took < 4, result


def in_terminal(command, typed=b""):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    if typed:
        time.sleep(0.5)
        os.write(fd, typed)
    output = b""
    try:
        while chunk := os.read(fd, 4096):
            output += chunk
    except OSError:
        pass
    return output, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_terminals_input_colours_and_interrupt_work():
    os.environ["TERM"] = "xterm"
    output, status = in_terminal([RUN, "-n", "1", "sh", "-c", 'read a; echo "read $a"'], b"hello\n")
    assert status == 0 and b"\x1b[31m[0]\x1b[0m read hello" in output, output
    output, status = in_terminal([RUN, "-n", "2", "sleep", "30"], b"\x03")
    assert status == 130 and b"signal 2" in output, (output, status)


def test_bad_command_lines_end_with_status_2_and_a_reason():
    for args, words in (([], b"-n"), (["-n", "0", "true"], b'"0"'), (["-n"], b"takes a value"),
                        (["-n", "2"], b"name the program"), (["--bogus", "-n", "2", "true"], b"--bogus is"),
                        (["-n", "2", "--timeout", "x", "true"], b'"x"'), (["-n", "2x", "true"], b'"2x"')):
        result = run(*args)
        assert result.returncode == 2 and words in result.stderr, (args, result)
    assert run("--help").returncode == 0 and b"Exit status" in run("--help").stdout


failed = 0
for name, test in list(globals().items()):
    if not name.startswith("test_") or (len(sys.argv) > 2 and sys.argv[2] not in name):
        continue
    try:
        test()
        print(f"ok       {name[5:]}", flush=True)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        failed += 1
        print(f"FAILED   {name[5:]}\n{error}", flush=True)
sys.exit(1 if failed else 0)
