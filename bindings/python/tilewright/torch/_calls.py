"""Prepared calls: planned once a problem, then run with nothing but addresses. The memory of a run is torch's."""

import ctypes
import threading
from collections import OrderedDict
from ctypes import POINTER, addressof, byref, c_void_p, pointer
from typing import NamedTuple, Optional

import torch

from .._library import (CrossEntropyOptions, CrossEntropyTensors, DLDataType, DLTensor, LinearCrossEntropyOptions,
                        LinearCrossEntropyTensors, call, library, take_error)
from ._devices import DL_TYPES, Device, int64s

_CAPACITY = 256  # prepared calls that are kept
_WORKSPACE_ALIGNMENT = 256


class Options(NamedTuple):
    """The options of a loss, as the C library has them; of cross entropy over logits, those up to softcap."""

    reduction: int = 0
    ignore_index: int = -100
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    logit_scale: float = 1.0
    softcap: float = 0.0
    margin: Optional[tuple] = None  # (margin, scale)
    workspace_limit: int = 0
    quiet_zeros: bool = True
    tf32: bool = False
    accumulate: bool = False

    def over_logits(self) -> CrossEntropyOptions:
        return CrossEntropyOptions(ctypes.sizeof(CrossEntropyOptions), self.reduction, 0, self.ignore_index,
                                   self.label_smoothing, self.z_loss, self.logit_scale, self.softcap)

    def linear(self) -> LinearCrossEntropyOptions:
        has_margin = self.margin is not None
        margin, scale = self.margin if has_margin else (0.0, 1.0)
        return LinearCrossEntropyOptions(
            ctypes.sizeof(LinearCrossEntropyOptions), self.reduction, 0, self.ignore_index, self.label_smoothing,
            self.z_loss, self.logit_scale, self.softcap, 0, has_margin, margin, scale, self.workspace_limit, self.tf32,
            self.quiet_zeros, self.accumulate, 0, None)


def dl_tensor(device: Device, tensor: torch.Tensor) -> DLTensor:
    rank = tensor.dim()
    code, bits = DL_TYPES[tensor.dtype]
    shape, strides = int64s[rank](*tensor.shape), int64s[rank](*tensor.stride())
    return DLTensor(tensor.data_ptr(), device.dl_type, device.index, rank, code, bits, 1, shape, strides, 0)


class _Frame:
    """The arguments of a run. Only addresses change from run to run."""

    def __init__(self, kind, device: Device, tensors: dict):
        self.struct = kind(ctypes.sizeof(kind))
        self.slots = []
        for name, tensor in tensors.items():
            slot = dl_tensor(device, tensor)
            self.slots.append(slot)
            setattr(self.struct, name, pointer(slot))
        self.address = addressof(self.struct)


class Prepared:
    """A call that is planned, with its kernels loaded. Any thread may run it."""

    def __init__(self, device: Device, which: str, kind, options, tensors: dict, *passes):
        lib = library()
        self._device, self._kind = device, kind
        self._tensors = {name: None for name in tensors}
        self._run = getattr(lib, f"tw_{which}_run")
        self._free = getattr(lib, f"tw_{which}_free")
        self._frames = []
        handle = c_void_p()
        frame = _Frame(kind, device, tensors)
        call(getattr(lib, f"tw_{which}_prepare"), device.runtime, frame.address, byref(options), *passes, byref(handle))
        self._handle = handle
        self._frames.append(frame)
        self.workspace_bytes = getattr(lib, f"tw_{which}_workspace_bytes")(handle)
        self.description = getattr(lib, f"tw_{which}_description")(handle).decode()

    def __del__(self):
        if getattr(self, "_handle", None):
            self._free(self._handle)

    def run(self, tensors: dict, reports: bool) -> None:
        """Enqueues the call on torch's current stream.

        Args:
            tensors: as prepared, in the same order.
            reports: whether bad labels and class weights are reported; else an earlier run of the data did.
        """
        device = self._device
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._kind, device, tensors)
        for slot, tensor in zip(frame.slots, tensors.values()):
            slot.data = tensor.data_ptr()
        size = self.workspace_bytes
        workspace = torch.empty(size + _WORKSPACE_ALIGNMENT, dtype=torch.uint8, device=device.torch_device)
        address = -(-workspace.data_ptr() // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        error = c_void_p()
        code = self._run(self._handle, frame.address, address, size, device.status() if reports else None,
                         device.stream(), byref(error))
        self._frames.append(frame)
        if code:
            raise take_error(error, code)


class _Cache:
    """The prepared calls that were used last."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries = OrderedDict()

    def get(self, key, prepare):
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found
        made = prepare()  # outside of the lock: it may compile
        with self._lock:
            made = self._entries.setdefault(key, made)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        return made

    def values(self) -> list:
        with self._lock:
            return list(self._entries.values())

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


_cache = _Cache(_CAPACITY)
_captured = set()  # calls of CUDA graphs: kept for good, as nobody says when a graph is gone


def _signature(tensor: torch.Tensor) -> tuple:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.data_ptr() & 15 == 0


def _key(device: Device, passed, options: Options, tensors: dict) -> tuple:
    return (device.torch_device, passed, options, *tensors, *map(_signature, tensors.values()))


def _get(device: Device, passed, options: Options, tensors: dict, prepare) -> Prepared:
    prepared = _cache.get(_key(device, passed, options, tensors), prepare)
    if device.is_cuda and torch._C._cuda_isCurrentStreamCapturing():
        _captured.add(prepared)
    return prepared


def linear(device: Device, passed: int, options: Options, tensors: dict) -> Prepared:
    """The prepared linear + cross entropy for such tensors (by the names of tw_linear_cross_entropy_tensors)."""
    return _get(device, passed, options, tensors, lambda: Prepared(
        device, "linear_cross_entropy", LinearCrossEntropyTensors, options.linear(), tensors, passed))


def over_logits(device: Device, options: Options, tensors: dict) -> Prepared:
    """The prepared cross entropy over logits for such tensors (by the names of tw_cross_entropy_tensors)."""
    return _get(device, "logits", options, tensors, lambda: Prepared(
        device, "cross_entropy", CrossEntropyTensors, options.over_logits(), tensors))


_scalings = {}


def scale_in_place(device: Device, gradient: torch.Tensor, factor: torch.Tensor) -> None:
    """gradient *= factor, of which no host reads the value: where it is 1, the kernel returns at once.

    Args:
        gradient: a matrix or a vector, float32, bfloat16 or float16.
        factor: one float32.
    """
    key = (device.torch_device, gradient.dtype)
    scaling = _scalings.get(key)
    if scaling is None:
        scaling = c_void_p()
        call(library().tw_gradient_scaling_prepare, device.runtime, DLDataType(*DL_TYPES[gradient.dtype], 1),
             byref(scaling))
        _scalings[key] = scaling
    matrix = byref(dl_tensor(device, gradient))
    call(library().tw_gradient_scaling_run, scaling, matrix, byref(dl_tensor(device, factor)), matrix, device.stream())


def prepared_calls() -> list:
    """(description, bytes of workspace) of the calls that are kept, the last used last."""
    return [(prepared.description, prepared.workspace_bytes) for prepared in _cache.values()]


def forget_prepared_calls() -> None:
    """Drops all prepared calls but those of CUDA graphs; calls that are under way keep theirs."""
    _cache.clear()
