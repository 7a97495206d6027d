"""What codecs gain on a slow link, beside torch.distributed's gloo: adds rounds to perf/baseline/codec.json and prints
the table of all of them.

    python3 perf/codec/link.py BUILD [--rate 1gbit] [--ranks 2,4] [--bytes 64M] [--rounds 3] [--out perf/baseline]

Every round runs each way once, in turn; times are those of one all_reduce, and the table has the rounds' medians.
Ranks are processes in network namespaces on a bridge, each end of each cable limited by tc tbf; gloo's ranks are in
namespaces like them. gloo's fp16 is torch's own fp16_compress_hook, called with a bucket that holds the array: what
DistributedDataParallel calls it with, without the rest of a backward pass.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

GLOO = """
import os, sys, time, torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

class Bucket:
    def buffer(self):
        return x

dist.init_process_group("gloo")
count, fp16, times = int(sys.argv[1]), sys.argv[2] == "fp16", []
x = torch.randn(count)
for i in range(3):
    dist.barrier()
    begun = time.monotonic()
    if fp16:
        fp16_compress_hook(None, Bucket()).wait()
    else:
        dist.all_reduce(x)
    times.append(time.monotonic() - begun)
if dist.get_rank() == 0:
    print("us", sorted(times[1:])[0] * 1e6)
"""
CODECS = ["q8", "bf16", "fp16", "q4,feedback", "topk:0.01", "topk:0.01,feedback", "auto"]


def sh(command):
    subprocess.run(command, shell=True, check=True, capture_output=True, text=True)


def bytes_of(rate):
    number, unit = re.fullmatch("([0-9.]+)(gbit|mbit)", rate).groups()
    return int(float(number) * (125e6 if unit == "gbit" else 125e3))


def ringtree(build, ranks, size, codec, rate):
    command = [f"{build}/bin/all_reduce_perf", "-g", str(ranks), "-b", size, "-e", size, "-n", "3", "-w", "1",
               "--codec", codec, "--csv", "/dev/stderr"]
    environment = dict(os.environ, RINGTREE_LINK_RATE=str(bytes_of(rate)))  # as if the planner had measured it
    result = subprocess.run(command + ["--link-limit", rate], capture_output=True, text=True, check=True, timeout=170,
                            env=environment)
    names, values = [line.split(",") for line in result.stderr.splitlines() if line.count(",") > 8]
    return dict(zip(names, values))


def gloo(ranks, count, kind, rate):
    """Namespaces as perf/link.c makes them; they are named, so that the ranks can be started in them."""
    names = [f"rtg{os.getpid()}-{i}" for i in range(ranks)]
    switch = f"rtg{os.getpid()}-s"
    try:
        sh(f"ip netns add {switch} && ip -n {switch} link add br0 type bridge && ip -n {switch} link set br0 up")
        for i, name in enumerate(names):
            tbf = f"root tbf rate {rate} burst 256kb latency 50ms"
            sh(f"ip netns add {name} && ip -n {switch} link add v{i} type veth peer name eth0 netns {name} && "
               f"ip -n {switch} link set v{i} master br0 up && ip -n {name} link set lo up && "
               f"ip -n {name} link set eth0 up && ip -n {name} addr add 10.96.0.{i + 1}/16 dev eth0 && "
               f"ip netns exec {switch} tc qdisc add dev v{i} {tbf} && ip netns exec {name} tc qdisc add dev eth0 {tbf}")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(GLOO)
            script.flush()
            environment = dict(os.environ, MASTER_ADDR="10.96.0.1", MASTER_PORT="29633", WORLD_SIZE=str(ranks),
                               GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
            started = [subprocess.Popen(["ip", "netns", "exec", name, sys.executable, script.name, str(count), kind],
                                        env=dict(environment, RANK=str(i)), stdout=subprocess.PIPE, text=True)
                       for i, name in enumerate(names)]
            said = [process.communicate(timeout=170)[0] for process in started]
        return float(re.search(r"us ([0-9.]+)", said[0]).group(1))
    finally:
        for name in names + [switch]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def measure(args, ranks):
    ways = {}
    count = int(args.bytes[:-1]) << 18
    for _ in range(args.rounds):
        for codec in CODECS:
            row = ringtree(args.build, ranks, args.bytes, codec, args.rate)
            ways.setdefault("exact", []).append(float(row["exact_time_us"]))
            ways.setdefault(codec, []).append(float(row["time_us"]))
            ways.setdefault(codec + " wire", []).append(float(row["wire_bytes_per_element"]))
            ways.setdefault(codec + " kind", []).append(row["codec"])
        for kind in ("float32", "fp16"):
            ways.setdefault("gloo " + kind, []).append(gloo(ranks, count, kind, args.rate))
    return ways


def median(values):
    return values[0] if isinstance(values[0], str) else statistics.median(values)


def table(ranks, found):
    exact, peer, half = (median(found[k]) for k in ("exact", "gloo float32", "gloo fp16"))
    lines = [f"### {ranks} ranks", "", "| way | bytes an element | ms | times the exact call's speed | gloo float32's | "
             "gloo fp16's |", "|---|---|---|---|---|---|"]
    for way in ["exact", *CODECS, "gloo float32", "gloo fp16"]:
        us = median(found[way])
        wire = f"{median(found[way + ' wire']):.3f}" if way + " wire" in found else ""
        name = f"{way} ({found[way + ' kind'][0]})" if way == "auto" else way
        lines.append(f"| {name} | {wire} | {us / 1e3:.1f} | {exact / us:.2f} | {peer / us:.2f} | {half / us:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--bytes", default="64M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="perf/baseline")
    args = parser.parse_args()
    path = f"{args.out}/codec.json"
    results = json.load(open(path)) if os.path.exists(path) else {}
    for ranks in map(int, args.ranks.split(",")):
        found = results.setdefault(f"{args.rate}, {args.bytes}, {ranks} ranks", {})
        for way, values in measure(args, ranks).items():
            found.setdefault(way, []).extend(values)
        print(table(ranks, found), flush=True)
    with open(path, "w") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
