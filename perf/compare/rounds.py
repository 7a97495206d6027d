"""Rounds: every library is started in turn, measures all points of the round, and ends; then the next round."""
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import libraries
import netns
import points

START_S = 150  # no start of a library takes longer


def wanted(library, options):
    if options.peers and not library.name.startswith("ringtree"):
        return any(word in library.name for word in options.peers.split(","))
    return library.quick or not options.quick


def find(candidates, options):
    """(those that can take part, [(name, why not)])"""
    here, missing = [], []
    for library in candidates:
        if not wanted(library, options):
            continue
        try:
            library.prepare(options.work)
            here.append(library)
        except libraries.Missing as why:
            missing.append((library.name, str(why)))
    return here, missing


def places_of(collective, size, options):
    if collective == "broadcast":
        return ["in"]
    if collective not in points.IN_PLACE:
        return ["out"]
    if options.place:
        return options.place.split(",")
    return ["out", "in"] if not options.quick or size >= 16 << 20 else ["out"]


def memories_of(library, transport, size, options):
    """Memory that others can reach is measured where it can matter."""
    own = library.own_memory and transport == "shm" and size >= 1 << 16
    return [memory for memory in options.memory.split(",") if memory == "private" or own]


def jobs_of(library, transport, ranks, options):
    """The --jobs of a program: sizes that share collective, place and memory in one. No spaces: launchers that go
    through a shell would take them apart."""
    grouped = collections.defaultdict(list)
    for collective in options.only:
        if collective == "send_recv" and ranks != 2:
            continue
        if library.collectives and collective not in library.collectives:
            continue
        for size in [0] if collective == "barrier" else options.sizes:
            for place in places_of(collective, size, options):
                for memory in memories_of(library, transport, size, options):
                    grouped[f"{collective}:{place}:{memory}"].append(str(size))
    return "+".join(f"{job}:{','.join(sizes)}" for job, sizes in grouped.items())


def run_to_end(command, environment):
    """What went wrong, or None. Nothing that it started outlives it."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, **environment}, start_new_session=True)
    try:
        words = child.communicate(timeout=START_S)[1]
    except subprocess.TimeoutExpired:
        return f"not done after {START_S} s"
    finally:
        end_group(child)
    return f"status {child.returncode}: {words.strip()[-600:]}" if child.returncode else None


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def start_once(library, place, ranks, options):
    """(rows, what went wrong)"""
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        board, out = (os.path.join(scratch, name) for name in ("board", "rows"))
        for path in (board, out):
            with open(path, "w"):
                pass
        flags = ["--board", board, "--out", out, "--jobs", jobs_of(library, place.transport, ranks, options),
                 "--budget-ms", str(options.budget_ms), "--least", "3" if options.quick else "5"]
        failure = run_to_end(*library.command(place, ranks, flags))
        with open(out) as lines:
            rows = [json.loads(line) for line in lines]
    for row in rows:
        row.update(library=library.name, transport=netns.label(place.transport, options.link), ranks=ranks)
    return rows, failure


def run_rounds(here, place, ranks, options):
    """(rows, failures) of all rounds; who fails is left out from then on."""
    rows, failures = [], []
    taking_part = [library for library in here if place.transport in library.transports]
    for turn in range(options.rounds):
        begin = time.monotonic()
        for library in list(taking_part):
            found, failure = start_once(library, place, ranks, options)
            rows += [dict(row, round=turn) for row in found]
            if failure:
                failures.append(f"{library.name}, {place.transport}, {ranks} ranks: {failure}")
                taking_part.remove(library)
        print(f"{place.transport}, {ranks} ranks, round {turn + 1} of {options.rounds}: "
              f"{time.monotonic() - begin:.1f} s", file=sys.stderr)
    return rows, failures


def run(here, options):
    rows, failures = [], []
    for transport in options.transport.split(","):
        if transport == "netns" and netns.why_not():
            print(f"skipped: netns: {netns.why_not()}")
            continue
        world = netns.two_hosts(options.work, options.link) if transport == "netns" else contextlib.nullcontext(
            netns.here(transport))
        with world as place:
            for ranks in map(int, options.ranks.split(",")):
                found, failed = run_rounds(here, place, ranks, options)
                rows += found
                failures += failed
    return rows, failures
