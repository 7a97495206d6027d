"""ringtree beside every installed peer, in one run: python3 perf/compare --help"""
import argparse
import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ci  # noqa: E402
import libraries  # noqa: E402
import limits  # noqa: E402
import plot  # noqa: E402
import points  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402

QUICK_SIZES = "4,56,1K,16K,64K,1M,4M,16M"
FULL_SIZES = "4,16,56,256,1K,4K,16K,64K,256K,1M,4M,16M,64M"


def arguments():
    parser = argparse.ArgumentParser(
        prog="perf/compare", description="Runs ringtree and every installed peer in turn, verifies every result, "
        "prints ratios within classes of equal cache-line time, and writes JSON, Markdown and plots. How it measures: "
        "perf/baseline/README.md. Peers are installed by perf/compare/peers.")
    parser.add_argument("--quick", action="store_true", help="under a minute: all_reduce, 2 ranks, shared memory")
    parser.add_argument("--ci", action="store_true", help="few sizes; fails on wrong results or a ratio over twice the "
                        "one in perf/baseline/compare.json; status 77 where no peer is installed")
    parser.add_argument("--list", action="store_true", help="name the peers that are here, and why others are not")
    parser.add_argument("--only", default=None, help="collectives, with commas (all of them)")
    parser.add_argument("--ranks", default="2", help="numbers of ranks, with commas (2)")
    parser.add_argument("--transport", default="shm", help="shm, tcp, netns; ucx and ucx-tcp: over UCX, by its own choice or its TCP; with commas "
                        "(shm)")
    parser.add_argument("--link", default=None, help="netns: limit of the link by tc tbf, as 1gbit (none)")
    parser.add_argument("--sizes", default=None, help=f"bytes, with K and M ({FULL_SIZES})")
    parser.add_argument("--place", default=None, help="in,out (both; quick: in place from 16 MiB only)")
    parser.add_argument("--memory", default="private,shared", help="private,shared: shared is ringtree_mem_alloc()")
    parser.add_argument("--peers", default=None, help="only peers whose names contain one of these words")
    parser.add_argument("--build", action="append", help="ringtree's build directory (build); a second is compared too")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each library (5)")
    parser.add_argument("--budget-ms", type=int, default=None, help="timing per point and start (40; quick: 15)")
    parser.add_argument("--wheels", default="build/peers", help="where perf/compare/peers put wheels (build/peers)")
    parser.add_argument("--work", default=None, help="where programs and raw results go (compare/ in the build)")
    parser.add_argument("--out", default=None, help="directory for compare.json, compare.md and plots: merged into it")
    options = parser.parse_args()
    options.quick = options.quick or options.ci
    if options.ci:
        options.sizes, options.rounds = options.sizes or ci.SIZES, min(options.rounds, 3)
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended, namespaces are removed
    options = arguments()
    options.build = options.build or ["build"]
    options.work = os.path.abspath(options.work or os.path.join(options.build[0], "compare"))
    os.makedirs(options.work, exist_ok=True)
    options.only = (options.only or ("all_reduce" if options.quick else ",".join(points.COLLECTIVES))).split(",")
    options.sizes = points.sizes_of(options.sizes or (QUICK_SIZES if options.quick else FULL_SIZES))
    options.budget_ms = options.budget_ms or (15 if options.quick else 40)
    here, missing = rounds.find(libraries.all_libraries(options.build, os.path.abspath(options.wheels)), options)
    for name, why in missing:
        print(f"not here: {name}: {why}")
    for library in here:
        print(f"here: {library.name}: {library.version()}")
    if options.list:
        return 0
    if options.ci:
        return run_ci(here, options)
    meters = {} if options.quick else limits.measure(options.build[0], options.transport.split(","))
    rows, failures = rounds.run(here, options)
    entries = points.condense(rows)
    report.print_report(entries, meters, "ringtree")
    if options.out:
        write(entries, report.run_facts(here, missing, options, meters), options)
    return report.judge(rows, failures)


def run_ci(here, options):
    """Status 77: nothing to compare with."""
    if not any(library.name == "ringtree" for library in here):
        return 1
    if all(library.name.startswith("ringtree") for library in here):
        print("skipped: no peer is installed: perf/compare/peers gets them")
        return 77
    rows, failures, slow = ci.check(lambda: rounds.run(here, options), ci.recorded_ratios())
    report.print_report(points.condense(rows), {}, "ringtree")
    for sentence in slow:
        print(f"SLOW: {sentence}")
    return 1 if slow else report.judge(rows, failures)


def write(entries, facts, options):
    os.makedirs(options.out, exist_ok=True)
    known = report.merge(os.path.join(options.out, "compare.json"), entries, facts)
    groups = list(report.by_group(known["entries"], "ringtree"))
    plots = plot.draw_all(known, options.out, groups)
    report.write_markdown(os.path.join(options.out, "compare.md"), known, "ringtree", plots)


sys.exit(main())
