"""Instructions of the small path, counted by callgrind and compared with perf/baseline/instructions.json.

Usage: instructions_test.py PROGRAM RECORD                  fails when a call takes over 10 % more than recorded
       instructions_test.py PROGRAM RECORD --record         writes the record anew; the commit says why
       instructions_test.py PROGRAM RECORD --profile CALL   where the instructions of one go, by function
       instructions_test.py PROGRAM RECORD --self-test      that the comparison can fail

PROGRAM is tests/instructions of a Release build by gcc. Exit status 77: skipped, with the reason.
"""
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

MOST_RISE = 1.10
ITERATIONS = 100
PREFIX = "counted_"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(program, pattern):
    """What callgrind wrote of the functions that match, and what the program printed."""
    if not shutil.which("valgrind"):
        skip("valgrind not found")
    # no settings of the caller, and linked functions found at the start, not by the first calls
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGTREE_")} | {"LD_BIND_NOW": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/out"
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", f"--toggle-collect={pattern}",
             "--compress-strings=no", "--compress-pos=no", program, str(ITERATIONS)],
            capture_output=True, text=True, timeout=200, env=environment)
        if result.returncode:
            sys.exit(f"the program failed ({result.returncode}): {result.stdout}{result.stderr}")
        return open(path).read(), json.loads(result.stdout)


def read_calls(text):
    """Instructions for each call of the counted functions, with all that they call."""
    calls, instructions, callee = {}, {}, None
    for line in text.splitlines():
        if line.startswith("cfn="):
            callee = line[4:].split(".")[0]
        elif line.startswith("calls=") and callee and callee.startswith(PREFIX):
            calls[callee] = calls.get(callee, 0) + int(line[6:].split()[0])
        elif line[:1].isdigit() and callee:
            if callee.startswith(PREFIX):
                instructions[callee] = instructions.get(callee, 0) + int(line.split()[1])
            callee = None
    return {name[len(PREFIX):]: round(instructions[name] / calls[name]) for name in sorted(calls)}


def read_functions(text):
    """Instructions of each function itself, for each of the iterations."""
    own, name, callee = {}, None, False
    for line in text.splitlines():
        if line.startswith("fn="):
            name = line[3:]
        elif line.startswith("calls="):
            callee = True
        elif line[:1].isdigit():
            if not callee and name:
                own[name] = own.get(name, 0) + int(line.split()[1]) / ITERATIONS
            callee = False
    return own


def compare(measured, recorded):
    """What rose too much or is on one side only, as sentences."""
    found = []
    for name in sorted(measured.keys() | recorded.keys()):
        if name not in measured:
            found.append(f"{name} is recorded but was not counted")
        elif name not in recorded:
            found.append(f"{name} is not recorded")
        elif measured[name] > recorded[name] * MOST_RISE:
            found.append(f"{name} takes {measured[name]} instructions, {measured[name] / recorded[name] - 1:.0%} more "
                         f"than the recorded {recorded[name]}")
    return found


def self_test():
    recorded = {"a": 1000, "b": 50}
    assert not compare({"a": 1000, "b": 50}, recorded)
    assert not compare({"a": 1100, "b": 10}, recorded)
    for wrong in ({"a": 1101, "b": 50}, {"a": 1000, "b": 56}, {"a": 1000}, {"a": 1000, "b": 50, "c": 1}):
        assert len(compare(wrong, recorded)) == 1, wrong
    text = "fn=main\ncfn=counted_x\ncalls=3 0 \n0 300\n\nfn=counted_x\n0 30\ncfn=y\ncalls=3 0 \n0 270\n"
    assert read_calls(text) == {"x": 100}, read_calls(text)
    assert read_functions(text) == {"counted_x": 30 / ITERATIONS}, read_functions(text)
    print("a rise over 10 %, a call that is gone and one that is new are each found")


def record(path, measured, said):
    data = {"unit": "instructions per call", "processor": platform.machine(), "reduction": said["reduction"],
            "compiler": said["compiler"], "calls": measured}
    with open(path, "w") as file:
        json.dump(data, file, indent=2)
        file.write("\n")
    print(f"recorded {len(measured)} calls in {path}")


def check(path, measured, said):
    data = json.load(open(path))
    for key, here in (("processor", platform.machine()), ("reduction", said["reduction"])):
        if data[key] != here:
            skip(f"recorded for {key} {data[key]}, and this is {here}")
    for name, instructions in measured.items():
        before = data["calls"].get(name)
        change = f"{instructions / before - 1:+.1%}" if before else "new"
        print(f"{name:28} {instructions:8} recorded {before} ({change})")
    found = compare(measured, data["calls"])
    for sentence in found:
        print(f"FAILED: {sentence}")
    if found:
        print(f"Make it shorter, or record it anew with --record and say why ({said['compiler']} here, "
              f"{data['compiler']} in the record)")
    return 1 if found else 0


def main():
    program, path, *rest = sys.argv[1:]
    if rest == ["--self-test"]:
        return self_test()
    if len(rest) == 2 and rest[0] == "--profile":
        own = read_functions(run(program, PREFIX + rest[1])[0])
        print(f"{sum(own.values()):9.1f}  all")
        for name, instructions in sorted(own.items(), key=lambda item: -item[1]):
            print(f"{instructions:9.1f}  {name}")
        return 0
    text, said = run(program, PREFIX + "*")
    measured = read_calls(text)
    return record(path, measured, said) if rest == ["--record"] else check(path, measured, said)


sys.exit(main())
