"""Processes that are ranks of one group (gloo, on the CPU), and a small problem whose vocabulary they share.

A test runs a function of its file in several processes; what it raises there fails the test.
"""

import multiprocessing
import os
import socket
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

SIZES = {1: [50], 2: [37, 13], 3: [20, 29, 1], 4: [16, 8, 20, 6]}  # classes of each rank
ROWS, HIDDEN, CLASSES = 24, 20, 50


def _serve(rank, ranks, port, connection):
    """One rank: runs what arrives until None does, and answers with the traceback of what it raised."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TILEWRIGHT_NUM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    while (work := connection.recv()) is not None:
        function, arguments = work
        try:
            function(rank, ranks, *arguments)
            connection.send(None)
        except BaseException:
            connection.send(traceback.format_exc())


class Ranks:
    """Processes that are ranks of one group."""

    def __init__(self, ranks):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ends = [context.Pipe() for _ in range(ranks)]
        self.connections = [end[0] for end in ends]
        self.processes = [context.Process(target=_serve, args=(rank, ranks, port, ends[rank][1]), daemon=True)
                          for rank in range(ranks)]
        for process in self.processes:
            process.start()
        for end in ends:
            end[1].close()

    def run(self, function, *arguments, dying=()):
        """Runs function(rank, ranks, *arguments) in all processes; those of the ranks `dying` end in it."""
        for connection in self.connections:
            connection.send((function, arguments))
        failures = []
        for rank, connection in enumerate(self.connections):
            try:
                answer = connection.recv() if connection.poll(120) else "no answer within two minutes"
            except EOFError:
                answer = None if rank in dying else "the process died"
            if answer is not None:
                failures.append(f"rank {rank}: {answer}")
        assert not failures, "\n".join(failures)

    def stop(self):
        for process in self.processes:
            process.kill()


_running = {}


def run(ranks, function, *arguments):
    """Runs function(rank, ranks, *arguments) in as many processes, which later tests use again."""
    if ranks not in _running:
        _running[ranks] = Ranks(ranks)
    _running[ranks].run(function, *arguments)


def stop_all():
    """Ends the processes that `run` has started."""
    while _running:
        _running.popitem()[1].stop()


def problem(dtype=torch.float32, ignored=True):
    """X, W of all classes and labels, the same on all ranks."""
    torch.manual_seed(7)
    x = torch.randn(ROWS, HIDDEN, dtype=dtype, requires_grad=True)
    w = torch.randn(CLASSES, HIDDEN, dtype=dtype, requires_grad=True)
    y = torch.randint(0, CLASSES, (ROWS,))
    if ignored:
        y[::5] = -100
    return x, w, y


def shard_of(tensor, rank, ranks):
    """This rank's rows of a tensor of all classes, as a tensor of its own."""
    return None if tensor is None else tensor.detach().split(SIZES[ranks])[rank].clone()


def same_on_all(tensor):
    """Fails unless all ranks have the same bits."""
    others = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(others, tensor.contiguous())
    assert all(torch.equal(tensor, other) for other in others)
