"""Prepared calls: planned once a problem, then run with nothing but addresses. The memory of a run is torch's."""

import ctypes
import threading
from collections import OrderedDict
from ctypes import addressof, byref, c_void_p, pointer
from typing import Callable, Iterable, List, NamedTuple, Optional

import torch
from torch import Tensor

from .._library import (PASS_BACKWARD, PASS_FUSED, CrossEntropyOptions, CrossEntropyTensors, DLDataType, DLTensor,
                        LinearCrossEntropyOptions, LinearCrossEntropyTensors, call, library, take_error)
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


class Kind(NamedTuple):
    """One of the library's calls."""

    which: str
    struct: type
    options: Callable  # Options -> the library's
    inputs: tuple  # their names in `struct`, in the order in which `run` gets them
    passes: tuple  # (a tw_pass,) if it has one


_LINEAR = ("linear_cross_entropy", LinearCrossEntropyTensors, Options.linear)
FORWARD = Kind(*_LINEAR, ("hidden", "weight", "label", "bias", "class_weight", "grad_output"), (PASS_FUSED,))
BACKWARD = Kind(*_LINEAR, ("hidden", "weight", "label", "bias", "class_weight", "grad_output", "grad_lse",
                            "grad_entropy", "saved_lse"), (PASS_BACKWARD,))
OVER_LOGITS = Kind("cross_entropy", CrossEntropyTensors, Options.over_logits,
                   ("logits", "label", "class_weight", "grad_output", "grad_lse", "grad_entropy"), ())


def dl_tensor(device: Device, tensor: Tensor) -> DLTensor:
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
        self.error = c_void_p()
        self.error_address = addressof(self.error)


class Prepared:
    """A call that is planned, with its kernels loaded. Any thread may run it."""

    def __init__(self, device: Device, which: str, kind, options, tensors: dict, *passes):
        lib = library()
        self._device, self._kind = device, kind
        self._run = getattr(lib, f"tw_{which}_run")
        self._free = getattr(lib, f"tw_{which}_free")
        self._names = tuple(tensors)
        handle = c_void_p()
        frame = _Frame(kind, device, tensors)
        call(getattr(lib, f"tw_{which}_prepare"), device.runtime, frame.address, byref(options), *passes, byref(handle))
        self._handle = handle
        self._frames = [frame]
        self.workspace_bytes = getattr(lib, f"tw_{which}_workspace_bytes")(handle)
        self.description = getattr(lib, f"tw_{which}_description")(handle).decode()

    def __del__(self):
        if getattr(self, "_handle", None):
            self._free(self._handle)

    def run(self, tensors: Iterable[Tensor], reports: bool) -> None:
        """Enqueues the call on torch's current stream.

        Args:
            tensors: as prepared, in that order.
            reports: whether bad labels and class weights are reported; else an earlier run of the data did.
        """
        device = self._device
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._kind, device, dict(zip(self._names, tensors)))
        for slot, tensor in zip(frame.slots, tensors):
            slot.data = tensor.data_ptr()
        size = self.workspace_bytes
        workspace = torch.empty(size + _WORKSPACE_ALIGNMENT, dtype=torch.uint8, device=device.torch_device)
        address = -(-workspace.data_ptr() // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        code = self._run(self._handle, frame.address, address, size, device.status() if reports else None,
                         device.stream(), frame.error_address)
        if code:
            error, frame.error.value = c_void_p(frame.error.value), None
            self._frames.append(frame)
            raise take_error(error, code)
        self._frames.append(frame)


class _Cache:
    """The prepared calls that were used last."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries = OrderedDict()

    def get(self, key):
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key, made):
        """What is kept for the key from now on: another thread may have been first."""
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


class _Entry(NamedTuple):
    prepared: Prepared
    outputs: list  # (shape, type) of each


def signature(tensor: Optional[Tensor]) -> Optional[tuple]:
    """What a call is prepared for, of a tensor that it gets."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.data_ptr() & 15 == 0)


def run(device: Device, kind: Kind, options: Options, asked: tuple, inputs: tuple, make_outputs: Callable,
        reports: bool) -> List[Tensor]:
    """Runs the call for such inputs, prepared where it never ran before; returns its outputs.

    Args:
        kind: which of the library's calls, with the names of `inputs` in their order; None among these: not there.
        asked: what decides which outputs there are, beside the inputs.
        make_outputs: () -> {name: empty tensor}, for a call that is to be prepared.
        reports: as `Prepared.run`.
    """
    key = (device.torch_device, kind.which, kind.passes, options, asked, *map(signature, inputs))
    entry = _cache.get(key)
    present = [tensor for tensor in inputs if tensor is not None]
    if entry is None:
        entry = _cache.put(key, _prepare(device, kind, options, inputs, make_outputs()))
    if device.is_cuda and torch._C._cuda_isCurrentStreamCapturing():
        _captured.add(entry.prepared)
    place = device.torch_device
    outputs = [torch.empty(shape, dtype=dtype, device=place) for shape, dtype in entry.outputs]
    entry.prepared.run(present + outputs, reports)
    return outputs


def _prepare(device: Device, kind: Kind, options: Options, inputs: tuple, outputs: dict) -> _Entry:
    tensors = {name: tensor for name, tensor in zip(kind.inputs, inputs) if tensor is not None}
    prepared = Prepared(device, kind.which, kind.struct, kind.options(options), {**tensors, **outputs}, *kind.passes)
    return _Entry(prepared, [(tensor.shape, tensor.dtype) for tensor in outputs.values()])


def run_onto(device: Device, kind: Kind, options: Options, inputs: tuple, outputs: dict) -> None:
    """Runs the call with outputs that the caller has; an earlier run reported on the data."""
    key = (device.torch_device, kind.which, kind.passes, options, tuple(outputs), *map(signature, inputs),
           *map(signature, outputs.values()))
    entry = _cache.get(key) or _cache.put(key, _prepare(device, kind, options, inputs, outputs))
    entry.prepared.run([*(tensor for tensor in inputs if tensor is not None), *outputs.values()], reports=False)


class _Scaling:
    """The library's scaling of one device's gradients of one type, and the arguments of its runs by shape."""

    def __init__(self, device: Device, dtype: torch.dtype):
        self._device = device
        self._handle = c_void_p()
        self._frames = {}
        call(library().tw_gradient_scaling_prepare, device.runtime, DLDataType(*DL_TYPES[dtype], 1),
             byref(self._handle))

    def run(self, gradient: Tensor, factor: Tensor) -> None:
        frames = self._frames.setdefault(gradient.shape, [])
        try:
            slots = frames.pop()
        except IndexError:
            slots = dl_tensor(self._device, gradient), dl_tensor(self._device, factor)
        matrix, number = slots
        matrix.data, number.data = gradient.data_ptr(), factor.data_ptr()
        call(library().tw_gradient_scaling_run, self._handle, addressof(matrix), addressof(number), addressof(matrix),
             self._device.stream())
        frames.append(slots)


_scalings = {}


def scale_in_place(device: Device, gradient: Tensor, factor: Tensor) -> None:
    """gradient *= factor, of which no host reads the value: where it is 1, the kernel returns at once.

    Args:
        gradient: a dense matrix or vector, float32, bfloat16 or float16.
        factor: one float32.
    """
    key = (device.torch_device, gradient.dtype)
    scaling = _scalings.get(key)
    if scaling is None:
        scaling = _scalings.setdefault(key, _Scaling(device, gradient.dtype))
    scaling.run(gradient, factor)


def prepared_calls() -> list:
    """(description, bytes of workspace) of the calls that are kept, the last used last."""
    return [(entry.prepared.description, entry.prepared.workspace_bytes) for entry in _cache.values()]


def forget_prepared_calls() -> None:
    """Drops all prepared calls but those of CUDA graphs; calls that are under way keep theirs."""
    _cache.clear()
