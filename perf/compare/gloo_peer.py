"""Gloo, through torch.distributed as its users have it: one rank. The loops are those of protocol.c, from a library."""
import ctypes
import os
import sys

import torch
import torch.distributed as dist

COLLECTIVES = ["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all", "gather", "scatter",
               "barrier", "send_recv"]


class Call(ctypes.Structure):
    _fields_ = [("collective", ctypes.c_uint32), ("root", ctypes.c_uint32), ("in_place", ctypes.c_uint32),
                ("input", ctypes.c_void_p), ("output", ctypes.c_void_p), ("count", ctypes.c_size_t)]


OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Call))
SHARED = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
CLOSE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Peer(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("first_block", ctypes.c_bool), ("open", OPEN), ("run", RUN),
                ("shared", SHARED), ("close", CLOSE)]


tensors = {}  # (address, count) -> tensor: made once, as an application would
scratch = {}  # count -> tensor
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def tensor(address, count):
    key = (address, count)
    if key not in tensors:
        tensors[key] = torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)
    return tensors[key]


def blocks(address, count):
    return [tensor(address + 4 * count * r, count) for r in range(SIZE)]


def to_own(call):
    """torch.distributed adds in place: out of place is a copy before it."""
    output = tensor(call.output, call.count)
    if not call.in_place:
        output.copy_(tensor(call.input, call.count))
    return output


def all_reduce(call):
    dist.all_reduce(to_own(call))


def reduce(call):
    # every rank's array is overwritten, so those without an output add in a copy
    if RANK == call.root:
        return dist.reduce(to_own(call), call.root)
    if call.count not in scratch:
        scratch[call.count] = torch.empty(call.count)
    scratch[call.count].copy_(tensor(call.input, call.count))
    return dist.reduce(scratch[call.count], call.root)


def broadcast(call):
    dist.broadcast(tensor(call.output, call.count), call.root)


def all_gather(call):
    dist.all_gather(blocks(call.output, call.count), tensor(call.input, call.count))


def gather(call):
    root = RANK == call.root
    dist.gather(tensor(call.input, call.count), blocks(call.output, call.count) if root else None, call.root)


def scatter(call):
    root = RANK == call.root
    dist.scatter(tensor(call.output, call.count), blocks(call.input, call.count) if root else None, call.root)


def all_to_all(call):
    dist.all_to_all_single(tensor(call.output, call.count * SIZE), tensor(call.input, call.count * SIZE))


def send_recv(call):
    if RANK == 0:
        dist.send(tensor(call.input, call.count), 1)
        dist.recv(tensor(call.output, call.count), 1)
    elif RANK == 1:
        dist.recv(tensor(call.output, call.count), 0)
        dist.send(tensor(call.output, call.count), 0)


def barrier(call):
    dist.barrier()


ACTIONS = [globals().get(name) for name in COLLECTIVES]


@OPEN
def open_group(context, rank, nranks):
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=nranks)
    return 0


@RUN
def run(context, call):
    try:
        ACTIONS[call.contents.collective](call.contents)
        return 0
    except Exception as failure:  # a callback has no other way out
        print(f"rank {RANK}: gloo: {failure}", file=sys.stderr)
        return 1


@CLOSE
def close_group(context):
    dist.destroy_process_group()


def main():
    protocol = ctypes.CDLL(sys.argv[1])
    options = ctypes.create_string_buffer(256)  # struct options, which only protocol.c looks into
    words = [word.encode() for word in sys.argv[1:]]
    arguments = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    protocol.protocol_options.restype = ctypes.c_bool
    if not protocol.protocol_options(options, len(words), arguments):
        return 2
    peer = Peer(None, False, open_group, run, ctypes.cast(None, SHARED), close_group)
    status = protocol.protocol_rank(options, ctypes.byref(peer), RANK)
    sys.stderr.flush()
    os._exit(status)  # without waiting for the other ranks' sockets


sys.exit(main())
