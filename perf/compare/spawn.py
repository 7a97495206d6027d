"""spawn.py RANKS VARIABLE HOST,HOST... COMMAND...: one process per rank, its rank in VARIABLE, on the hosts (network
namespaces; "": here) in equal blocks. Ends with the first failure, and ends the others."""
import os
import subprocess
import sys
import time


def main():
    ranks, variable, hosts, command = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), sys.argv[4:]
    children = []
    for rank in range(ranks):
        host = hosts[rank * len(hosts) // ranks]
        before = ["ip", "netns", "exec", host] if host else []
        children.append(subprocess.Popen([*before, *command], env={**os.environ, variable: str(rank)}))
    while True:
        states = [child.poll() for child in children]
        failed = [state for state in states if state]
        if failed or None not in states:
            break
        time.sleep(0.02)
    for child in children:
        if child.poll() is None:
            child.kill()
        child.wait()
    return 1 if failed else 0


sys.exit(main())
