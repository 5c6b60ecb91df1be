"""Kernels of a bundle, launched by their names on torch tensors."""

import ctypes
import os
import threading
from ctypes import byref, c_char_p, c_void_p, pointer
from typing import Optional, Sequence, Union

import torch
from torch import Tensor

from .._errors import UserError
from .._library import KernelArgument, RuntimeOptions, call, library
from ._calls import dl_tensor
from ._devices import DL_TYPES, Device, device_at

_runtimes = {}  # by device and bundles; they live as long as the process
_lock = threading.Lock()


def _runtime(device: Device, bundles: tuple) -> c_void_p:
    if not bundles:
        return device.runtime  # whose bundles are those of TILEWRIGHT_BUNDLES
    key = (device.torch_device, bundles)
    with _lock:
        if key not in _runtimes:
            paths = (c_char_p * len(bundles))(*map(os.fsencode, bundles))
            options = RuntimeOptions(struct_bytes=ctypes.sizeof(RuntimeOptions), bundles=paths,
                                     bundle_count=len(bundles))
            runtime = c_void_p()
            call(library().tw_runtime_open, device.name.encode(), byref(options), byref(runtime))
            _runtimes[key] = runtime
        return _runtimes[key]


class Kernel:
    """A kernel that a bundle has, loaded on a device; any thread may launch it.

    Bundles are written by `BundleWriter` (C++), which takes kernels of one's own.

    Args:
        name: as the kernel was defined with.
        specialisation: as it was defined with; None where the bundles have one kernel of that name.
        bundles: paths of bundles; none: those that the environment's TILEWRIGHT_BUNDLES names.
        device: where it runs.

    Raises:
        tilewright.UserError: a bundle cannot be opened or has other sources, or has no such kernel, or several.
    """

    parameters: Sequence[str]
    """Names, in the order of the arguments of a launch."""

    def __init__(self, name: str, *, specialisation: Optional[str] = None, bundles: Sequence[str] = (),
                 device: Union[str, torch.device] = "cpu"):
        self.name = name
        self._device = device_at(torch.device(device))
        self._handle = c_void_p()
        lib = library()
        call(lib.tw_kernel_find, _runtime(self._device, tuple(map(os.fspath, bundles))), name.encode(),
             None if specialisation is None else specialisation.encode(), byref(self._handle))
        self.parameters = tuple(lib.tw_kernel_parameter_name(self._handle, index).decode()
                                for index in range(lib.tw_kernel_parameter_count(self._handle)))

    def __del__(self):
        if getattr(self, "_handle", None):
            library().tw_kernel_free(self._handle)

    def __repr__(self) -> str:
        return f"Kernel({self.name}({', '.join(self.parameters)}), {self._device.torch_device})"

    def __call__(self, *arguments: Union[Tensor, int, float]) -> None:
        """Enqueues it on torch's current stream, for as many programs as the sizes of its arguments ask for.

        Nothing is known of gradients, and outputs that overlap inputs are the caller's affair.

        Args:
            arguments: in the order of `parameters`: a tensor of one or two dimensions (0: one value), its last
                dimension contiguous, of float32, bfloat16, float16, int32 or int64; or a number.

        Raises:
            tilewright.UserError: an argument is not as its parameter wants it; the message names that.
        """
        if len(arguments) != len(self.parameters):
            raise UserError(f"{self.name}: expected {len(self.parameters)} arguments, {', '.join(self.parameters)}, "
                            f"found {len(arguments)}")
        given = (KernelArgument * len(arguments))()
        for slot, name, argument in zip(given, self.parameters, arguments):
            if isinstance(argument, Tensor):
                slot.tensor = pointer(dl_tensor(self._device, self._checked(name, argument)))
            elif isinstance(argument, (int, float)):
                slot.index, slot.number = int(argument), float(argument)
            else:
                raise UserError(f"{name}: expected a tensor or a number, found {type(argument).__name__}")
        call(library().tw_kernel_launch, self._handle, byref(given), len(arguments), self._device.stream())

    def _checked(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.device != self._device.torch_device:
            raise UserError(f"{name}: expected a tensor on {self._device.torch_device}, found {tensor.device}")
        if tensor.dim() > 2 or tensor.dtype not in DL_TYPES:
            types = ", ".join(str(dtype)[6:] for dtype in DL_TYPES)
            raise UserError(f"{name}: expected at most two dimensions of {types}, found {tuple(tensor.shape)} of "
                            f"{tensor.dtype}")
        return tensor
