"""A runtime for each of torch's devices, and what kernels report of labels and class weights."""

import ctypes
import threading
from collections import deque
from ctypes import byref, c_void_p

import torch

from .._errors import UserError
from .._library import CPU, CUDA, STATUS_BYTES, call, library

_SLAB = 64  # statuses that are allocated at once: pinned memory takes a driver long


class Statuses:
    """What runs on one GPU found wrong with their data. Nobody waits: a later call, or `check`, raises it."""

    def __init__(self, runtime: c_void_p):
        self._runtime = runtime
        self._lock = threading.Lock()
        self._free = []
        self._pending = deque()
        self._captured = []  # of runs in CUDA graphs: they belong to the graph
        self._words = {}  # by a status's address: its memory, which outlives all runs

    def _allocate(self) -> None:
        slab = torch.zeros(_SLAB * STATUS_BYTES, dtype=torch.uint8, pin_memory=True)
        for words in slab.split(STATUS_BYTES):
            status = c_void_p()
            call(library().tw_call_status_create, self._runtime, words.data_ptr(), byref(status))
            self._words[status.value] = words
            self._free.append(status)

    def take(self, captured: bool) -> c_void_p:
        """A status for a run that is enqueued next."""
        with self._lock:
            if not self._free:
                self._allocate()
            status = self._free.pop()
            (self._captured if captured else self._pending).append(status)
            return status

    def poll(self) -> None:
        """Raises what the runs that are done reported; waits for none."""
        if not self._pending:
            return
        lib = library()
        with self._lock:
            while self._pending and lib.tw_call_status_is_done(self._pending[0]):
                status = self._pending.popleft()
                self._free.append(status)
                call(lib.tw_call_status_error, status)

    def check_captured(self) -> None:
        """Raises what replays of CUDA graphs reported, once; they are done."""
        with self._lock:
            for status in self._captured:
                try:
                    call(library().tw_call_status_error, status)
                except UserError:
                    self._words[status.value].zero_()
                    raise


class Device:
    """One of torch's devices as the library sees it. Runtimes live as long as the process."""

    def __init__(self, device: torch.device):
        self.torch_device = device
        self.is_cuda = device.type == "cuda"
        self.dl_type, self.index = (CUDA, device.index) if self.is_cuda else (CPU, 0)
        self.runtime = c_void_p()
        if self.is_cuda:
            torch.cuda.init()
        self.name = f"cuda:{device.index}" if self.is_cuda else "cpu"
        call(library().tw_runtime_open, self.name.encode(), None, byref(self.runtime))
        self.statuses = Statuses(self.runtime) if self.is_cuda else None

    def stream(self) -> int:
        """torch's current stream of this device; 0 of a CPU."""
        return torch._C._cuda_getCurrentRawStream(self.index) if self.is_cuda else 0

    def poll(self) -> None:
        """Raises what earlier runs reported of their labels and class weights; waits for none."""
        if self.statuses is not None:
            self.statuses.poll()

    def status(self):
        """A status for the next run; None on a CPU, where `run` itself reports."""
        if not self.is_cuda:
            return None
        return self.statuses.take(torch._C._cuda_isCurrentStreamCapturing())


_devices = {}
_lock = threading.Lock()


def device_of(tensor: torch.Tensor) -> Device:
    """The device that a tensor lies on. UserError: it is neither a CPU nor an NVIDIA GPU."""
    device = tensor.device
    found = _devices.get(device)
    return device_at(device) if found is None else found


def device_at(device: torch.device) -> Device:
    """The device of torch's; "cuda" is the current one. UserError: as of `device_of`."""
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and torch.version.hip):
        raise UserError(f"device: expected tensors on a CPU or on an NVIDIA GPU, found {device}")
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    with _lock:
        if device not in _devices:
            _devices[device] = Device(device)
        return _devices[device]


def check(wait: bool = True) -> None:
    """Raises `tilewright.UserError` if a label or a class weight of an earlier call on a GPU was wrong.

    A GPU's labels are seen by its kernels alone, and no call waits for them: a bad one is reported by a later call, or
    here. It names the row and the label; its row took part as an ignored one. On a CPU the call itself raises.

    Args:
        wait: wait for the work of all GPUs first. Without, what is not done yet is reported later, and what replays of
            CUDA graphs found is not looked at.
    """
    for device in list(_devices.values()):
        if device.is_cuda:
            if wait:
                torch.cuda.synchronize(device.index)
            device.statuses.poll()
            if wait:
                device.statuses.check_captured()


# DLPack's type codes: kDLInt 0, kDLFloat 2, kDLBfloat 4.
DL_TYPES = {
    torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16),
    torch.int32: (0, 32), torch.int64: (0, 64),
}
int64s = {n: ctypes.c_int64 * n for n in (0, 1, 2)}
