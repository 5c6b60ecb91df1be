"""Prepared calls: planned once a problem, then run with nothing but addresses. The memory of a run is torch's."""

import ctypes
import threading
from collections import OrderedDict
from ctypes import addressof, byref, c_uint64, c_void_p, pointer
from typing import Callable, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from .._library import (PASS_BACKWARD, PASS_FUSED, CrossEntropyOptions, CrossEntropyTensors, DLDataType, DLTensor,
                        LinearCrossEntropyOptions, LinearCrossEntropyTensors, call, library, take_error)
from ._devices import DL_TYPES, Device, device_of, int64s

_CAPACITY = 256  # prepared calls that are kept
_WORKSPACE_ALIGNMENT = 256
_LOSS_ONLY = "variant=loss_only"  # a word of the configurations of calls that make no gradients
_SLOT_BYTES = ctypes.sizeof(DLTensor)
_WORDS = _SLOT_BYTES // ctypes.sizeof(c_uint64)


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
    objective: int = 0  # tw_objective
    configuration: Optional[str] = None  # of calls with gradients, or of those without; others are planned
    tf32: bool = False
    accumulate: bool = False

    def over_logits(self) -> CrossEntropyOptions:
        return CrossEntropyOptions(
            ctypes.sizeof(CrossEntropyOptions), self.reduction, self.objective, self.ignore_index, self.label_smoothing,
            self.z_loss, self.logit_scale, self.softcap)

    def linear(self) -> LinearCrossEntropyOptions:
        has_margin = self.margin is not None
        margin, scale = self.margin if has_margin else (0.0, 1.0)
        return LinearCrossEntropyOptions(
            ctypes.sizeof(LinearCrossEntropyOptions), self.reduction, self.objective, self.ignore_index,
            self.label_smoothing, self.z_loss, self.logit_scale, self.softcap, 0, has_margin, margin, scale,
            self.workspace_limit, self.tf32, self.quiet_zeros, self.accumulate, 0,
            None if self.configuration is None else self.configuration.encode())

    def of_call(self, makes_gradients: bool):
        """The options of one of the calls that the configuration is given for: it is that of one kind alone."""
        fits = self.configuration is None or (_LOSS_ONLY in self.configuration.split()) != makes_gradients
        return self if fits else self._replace(configuration=None)


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
    """The tensor as the library sees it; a contiguous one of more dimensions as the matrix of its last."""
    tensor = tensor.flatten(0, -2) if tensor.dim() > 2 else tensor
    rank = tensor.dim()
    code, bits = DL_TYPES[tensor.dtype]
    shape, strides = int64s[rank](*tensor.shape), int64s[rank](*tensor.stride())
    return DLTensor(tensor.data_ptr(), device.dl_type, device.index, rank, code, bits, 1, shape, strides, 0)


class _Slots:
    """Tensors as the library sees them, and the error of a run with them. Only addresses change from run to run."""

    def __init__(self, slots):
        self.slots = type(slots).from_buffer_copy(slots)  # the shapes are those of `slots`, which outlives this
        self.words = (c_uint64 * (_WORDS * len(slots))).from_buffer(self.slots)  # data is a slot's first word
        self.first = addressof(self.slots)
        self.error = c_void_p()
        self.error_address = addressof(self.error)


class _Frame(_Slots):
    """The arguments of a run: `kind` is the library's structure of pointers to its tensors."""

    def __init__(self, kind, names: Sequence[str], slots):
        super().__init__(slots)
        self._struct = kind(ctypes.sizeof(kind))
        for name, slot in zip(names, self.slots):
            setattr(self._struct, name, pointer(slot))
        self.address = addressof(self._struct)


def _form_of(tensor: Tensor) -> Tensor:
    """The tensor without its memory. `torch.empty_like` of it takes half the time of `torch.empty`."""
    tensor.untyped_storage().resize_(0)
    return tensor


class Prepared:
    """A call that is planned, with its kernels loaded. Any thread may run it."""

    def __init__(self, device: Device, which: str, kind, options, tensors: dict, *passes):
        lib = library()
        self._device, self._kind = device, kind
        self._run = getattr(lib, f"tw_{which}_run")
        self._free = getattr(lib, f"tw_{which}_free")
        self._names = tuple(tensors)
        self._slots = (DLTensor * len(tensors))(*(dl_tensor(device, tensor) for tensor in tensors.values()))
        handle = c_void_p()
        frame = _Frame(kind, self._names, self._slots)
        call(getattr(lib, f"tw_{which}_prepare"), device.runtime, frame.address, byref(options), *passes, byref(handle))
        self._handle = handle
        self._frames = [frame]
        self._places = range(0, _WORDS * len(tensors), _WORDS)
        self.workspace_bytes = getattr(lib, f"tw_{which}_workspace_bytes")(handle)
        self.description = getattr(lib, f"tw_{which}_description")(handle).decode()
        has_text = which == FORWARD.which
        self.configuration = lib.tw_linear_cross_entropy_configuration(handle).decode() if has_text else ""
        self._workspace = _form_of(torch.empty(self.workspace_bytes + _WORKSPACE_ALIGNMENT, dtype=torch.uint8,
                                               device=device.torch_device))

    def __del__(self):
        if getattr(self, "_handle", None):
            self._free(self._handle)

    def run(self, tensors: Sequence[Tensor], reports: bool) -> None:
        """Enqueues the call on torch's current stream.

        Args:
            tensors: as prepared, in that order; what is contiguous may have other leading dimensions.
            reports: whether bad labels and class weights are reported; else an earlier run of the data did.
        """
        device = self._device
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._kind, self._names, self._slots)
        words = frame.words
        for place, tensor in zip(self._places, tensors):
            words[place] = tensor.data_ptr()
        workspace = torch.empty_like(self._workspace)
        address = -(-workspace.data_ptr() // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        status = device.status() if reports else None
        code = self._run(self._handle, frame.address, address, self.workspace_bytes, status, device.stream(),
                         frame.error_address)
        if code:
            raise take_error(frame.error, code)
        self._frames.append(frame)


class _Cache:
    """The prepared calls that were used last. Who holds an entry need not ask again, but says that it was used."""

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
                oldest, entry = self._entries.popitem(last=False)
                if entry.was_used and entry is not made:
                    entry.was_used = False
                    self._entries[oldest] = entry
            return made

    def values(self) -> list:
        with self._lock:
            return list(self._entries.values())

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


_cache = _Cache(_CAPACITY)
_captured = set()  # calls of CUDA graphs: kept for good, as nobody says when a graph is gone


def keep_if_captured(device: Device, prepared) -> None:
    """Keeps a call that is about to be run where a CUDA graph captures it: the graph replays its kernels."""
    if device.is_cuda and torch._C._cuda_isCurrentStreamCapturing():
        _captured.add(prepared)


class Entry:
    """A prepared call, and its outputs: what they are like, but without memory; none where callers have them."""

    __slots__ = ("prepared", "forms", "was_used", "__weakref__")

    def __init__(self, prepared: Prepared, forms: List[Tensor]):
        self.prepared, self.forms = prepared, forms
        self.was_used = False  # since the cache looked

    def run(self, inputs: List[Tensor], device: Device, reports: bool) -> List[Tensor]:
        """The outputs, in memory of torch's."""
        keep_if_captured(device, self.prepared)
        outputs = [torch.empty_like(form) for form in self.forms]
        self.prepared.run(inputs + outputs, reports)
        return outputs


def signature(tensor: Optional[Tensor]) -> Optional[tuple]:
    """What a call is prepared for, of a tensor that it gets."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.data_ptr() & 15 == 0)


def entry_of(device: Device, kind: Kind, options: Options, asked: tuple, inputs: tuple,
             make_outputs: Callable) -> Entry:
    """The call for such inputs, prepared where there is none.

    Args:
        kind: which of the library's calls, with the names of `inputs` in their order; None among these: not there.
        asked: what decides which outputs there are, beside the inputs.
        make_outputs: () -> {name: empty tensor}, for a call that is to be prepared.
    """
    key = (device.torch_device, kind.which, kind.passes, options, asked, *map(signature, inputs))
    found = _cache.get(key)
    if found is None:
        outputs = make_outputs()
        prepared = _prepare(device, kind, options, inputs, outputs)
        found = _cache.put(key, Entry(prepared, [_form_of(tensor) for tensor in outputs.values()]))
    return found


def run(device: Device, kind: Kind, options: Options, asked: tuple, inputs: tuple, make_outputs: Callable,
        reports: bool) -> List[Tensor]:
    """Runs the call for such inputs and returns its outputs: `entry_of`, and `Prepared.run`."""
    entry = entry_of(device, kind, options, asked, inputs, make_outputs)
    return entry.run([tensor for tensor in inputs if tensor is not None], device, reports)


def _prepare(device: Device, kind: Kind, options: Options, inputs: tuple, outputs: dict) -> Prepared:
    tensors = {name: tensor for name, tensor in zip(kind.inputs, inputs) if tensor is not None}
    return Prepared(device, kind.which, kind.struct, kind.options(options), {**tensors, **outputs}, *kind.passes)


def run_onto(device: Device, kind: Kind, options: Options, inputs: tuple, outputs: dict) -> None:
    """Runs the call with outputs that the caller has; an earlier run reported on the data."""
    key = (device.torch_device, kind.which, kind.passes, options, tuple(outputs), *map(signature, inputs),
           *map(signature, outputs.values()))
    entry = _cache.get(key) or _cache.put(key, Entry(_prepare(device, kind, options, inputs, outputs), []))
    keep_if_captured(device, entry.prepared)
    entry.prepared.run([*(tensor for tensor in inputs if tensor is not None), *outputs.values()], reports=False)


_scaling_handles = {}


def _scaling_handle(device: Device, dtype: torch.dtype) -> c_void_p:
    key = (device.torch_device, dtype)
    if key not in _scaling_handles:
        handle = c_void_p()
        call(library().tw_gradient_scaling_prepare, device.runtime, DLDataType(*DL_TYPES[dtype], 1), byref(handle))
        _scaling_handles[key] = handle
    return _scaling_handles[key]


class Scaling:
    """Multiplies a gradient, or two matrices of one type in one launch, by a number in the device's memory.

    Shapes and types are those of the first run. Any thread may run it.

    Args of a run:
        gradients: one or two, float32 where a result is given.
        result: of one gradient, apart from it; None: each in its place.
    """

    def __init__(self, gradients: Sequence[Tensor], factor: Tensor, result: Optional[Tensor] = None):
        self._device = device_of(factor)
        self._handle = _scaling_handle(self._device, (gradients[0] if result is None else result).dtype)
        self._run = library().tw_gradient_scaling_run if len(gradients) == 1 else library().tw_gradient_scaling_run_pair
        tensors = [*gradients, factor] if result is None else [*gradients, factor, result]
        self._slots = (DLTensor * len(tensors))(*(dl_tensor(self._device, tensor) for tensor in tensors))
        self._frames = []

    def run(self, gradients: Sequence[Tensor], factor: Tensor, result: Optional[Tensor] = None) -> None:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Slots(self._slots)
        for place, tensor in enumerate((*gradients, factor)):
            frame.words[place * _WORDS] = tensor.data_ptr()
        first, second, third = (frame.first + place * _SLOT_BYTES for place in range(3))
        if result is not None:
            frame.words[2 * _WORDS] = result.data_ptr()
        elif len(gradients) == 1:
            third = first
        code = self._run(self._handle, first, second, third, self._device.stream(), frame.error_address)
        if code:
            raise take_error(frame.error, code)
        self._frames.append(frame)


class PreparedCall(NamedTuple):
    """What is known of a prepared call."""

    description: str
    workspace_bytes: int
    configuration: str
    """For `configuration` of `linear_cross_entropy`: the tuned or planned one; "" of a call over logits."""


def prepared_calls() -> List[PreparedCall]:
    """The calls that are kept, the last used last."""
    return [PreparedCall(call.description, call.workspace_bytes, call.configuration)
            for call in (entry.prepared for entry in _cache.values())]


def forget_prepared_calls() -> None:
    """Drops all prepared calls but those of CUDA graphs; calls that are under way keep theirs."""
    _cache.clear()
