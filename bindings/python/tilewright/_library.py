"""The C library: where it lies, and its structures and functions as ctypes sees them (tilewright.h)."""

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

from ._errors import TilewrightError, error_of

ABI_VERSION = 1
STATUS_BYTES = 64  # TW_CALL_STATUS_BYTES
PASS_FUSED, PASS_BACKWARD = 0, 1  # tw_pass
REDUCTIONS = {"mean": 0, "sum": 1, "none": 2}  # tw_reduction
OBJECTIVES = {"log_prob": 0, "prob": 1}  # tw_objective
CPU, CUDA = 1, 2  # DLPack's kDLCPU, kDLCUDA


class DLTensor(ctypes.Structure):
    """dlpack.h's, with the device and the type spelled out."""

    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("type_code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


def _tensors(name: str, fields: tuple):
    """A structure of pointers to tensors that begins with its size."""
    return type(name, (ctypes.Structure,), {
        "_fields_": [("struct_bytes", c_size_t)] + [(field, POINTER(DLTensor)) for field in fields],
        "names": fields,
    })


LinearCrossEntropyTensors = _tensors("LinearCrossEntropyTensors", (
    "hidden", "weight", "label", "bias", "class_weight", "grad_output", "grad_lse", "grad_entropy", "saved_lse",
    "loss", "lse", "d_hidden", "d_weight", "d_bias", "entropy", "argmax", "correct", "monitored"))

CrossEntropyTensors = _tensors("CrossEntropyTensors", (
    "logits", "label", "class_weight", "grad_output", "grad_lse", "grad_entropy", "loss", "lse", "d_logits", "entropy",
    "argmax", "correct", "monitored"))


class CrossEntropyOptions(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("reduction", c_int32), ("objective", c_int32), ("ignore_index", c_int64),
        ("label_smoothing", c_float), ("z_loss", c_float), ("logit_scale", c_float), ("softcap", c_float),
    ]


class LinearCrossEntropyOptions(ctypes.Structure):
    _fields_ = CrossEntropyOptions._fields_ + [
        ("variant", c_int32), ("has_margin", c_int32), ("margin", c_float), ("margin_scale", c_float),
        ("workspace_limit", c_int64), ("tf32", c_int32), ("flush_small_probabilities", c_int32),
        ("accumulate", c_int32), ("reserved", c_int32), ("configuration", c_char_p),
    ]


class RuntimeOptions(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", c_size_t), ("cache_dir", c_char_p), ("target", c_char_p), ("threads", c_int32),
        ("autotune", c_int32), ("bundles", POINTER(c_char_p)), ("bundle_count", c_size_t),
    ]


class KernelArgument(ctypes.Structure):
    _fields_ = [("tensor", POINTER(DLTensor)), ("index", c_int64), ("number", c_float)]


_FUNCTIONS = {  # name: result, arguments; where the last is an error, `call` takes its place
    "tw_version": (c_char_p, []),
    "tw_abi_version": (c_int, []),
    "tw_error_message": (c_char_p, [c_void_p]),
    "tw_error_driver_number": (c_int, [c_void_p]),
    "tw_error_free": (None, [c_void_p]),
    "tw_runtime_open": (c_int, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "tw_kernel_find": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_void_p]),
    "tw_kernel_free": (None, [c_void_p]),
    "tw_kernel_parameter_count": (c_size_t, [c_void_p]),
    "tw_kernel_parameter_name": (c_char_p, [c_void_p, c_size_t]),
    "tw_kernel_launch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "tw_call_status_create": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "tw_call_status_is_done": (c_int, [c_void_p]),
    "tw_call_status_error": (c_int, [c_void_p, c_void_p]),
    "tw_linear_cross_entropy_prepare": (c_int, [c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "tw_linear_cross_entropy_free": (None, [c_void_p]),
    "tw_linear_cross_entropy_workspace_bytes": (c_int64, [c_void_p]),
    "tw_linear_cross_entropy_description": (c_char_p, [c_void_p]),
    "tw_linear_cross_entropy_configuration": (c_char_p, [c_void_p]),
    "tw_linear_cross_entropy_run":
        (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "tw_sharded_linear_cross_entropy_prepare":
        (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "tw_sharded_linear_cross_entropy_free": (None, [c_void_p]),
    "tw_sharded_linear_cross_entropy_workspace_bytes": (c_int64, [c_void_p]),
    "tw_sharded_linear_cross_entropy_chunks": (c_int64, [c_void_p]),
    "tw_sharded_linear_cross_entropy_chunk_rows": (c_int64, [c_void_p]),
    "tw_sharded_linear_cross_entropy_facts": (c_int64, [c_void_p]),
    "tw_sharded_linear_cross_entropy_chunk_buffers": (c_int, [c_void_p]),
    "tw_sharded_linear_cross_entropy_schedule": (c_char_p, [c_void_p]),
    "tw_sharded_linear_cross_entropy_description": (c_char_p, [c_void_p]),
    "tw_sharded_linear_cross_entropy_configuration": (c_char_p, [c_void_p]),
    "tw_sharded_linear_cross_entropy_run":
        (c_int, [c_void_p, c_int, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p,
                 c_void_p]),
    "tw_cross_entropy_prepare": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tw_cross_entropy_free": (None, [c_void_p]),
    "tw_cross_entropy_workspace_bytes": (c_int64, [c_void_p]),
    "tw_cross_entropy_description": (c_char_p, [c_void_p]),
    "tw_cross_entropy_run": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "tw_gradient_scaling_prepare": (c_int, [c_void_p, DLDataType, c_void_p, c_void_p]),
    "tw_gradient_scaling_run": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tw_gradient_scaling_run_pair": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
}


def _candidates() -> list:
    """Where the library may lie: as TILEWRIGHT_LIBRARY says, in this package (a wheel), in the tree built by Bazel."""
    named = os.environ.get("TILEWRIGHT_LIBRARY")
    if named:
        return [Path(named)]
    here = Path(__file__).resolve().parent
    tree = here.parents[2]  # bindings/python/tilewright
    built = "bindings/c/libtilewright.so"
    return [here / "libtilewright.so", tree / "bazel-bin" / built, Path(os.path.abspath(__file__)).parents[3] / built]


def _load() -> ctypes.CDLL:
    candidates = _candidates()
    for path in candidates:
        if path.exists():
            break
    else:
        raise ImportError("libtilewright.so: expected one of " + ", ".join(map(str, candidates)) + ", found none; "
                          "set TILEWRIGHT_LIBRARY, or build it: bazel build //bindings/c:libtilewright.so")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.tw_abi_version() != ABI_VERSION:
        raise ImportError(f"{path}: expected ABI version {ABI_VERSION}, found {library.tw_abi_version()}")
    return library


_lock = threading.Lock()
_library = None


def library() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


def library_version() -> str:
    return library().tw_version().decode()


def take_error(error: c_void_p, code: int) -> TilewrightError:
    """The exception for an error of the library, which is freed."""
    lib = library()
    message = lib.tw_error_message(error).decode(errors="replace")
    number = lib.tw_error_driver_number(error)
    lib.tw_error_free(error)
    return error_of(code, message, number)


def call(function, *arguments) -> None:
    """Calls a function whose last parameter is the error; raises what it reports."""
    error = c_void_p()
    code = function(*arguments, byref(error))
    if code:
        raise take_error(error, code)
