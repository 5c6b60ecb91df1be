"""Tilewright: the loss of a language model's last layer, without its logits in memory.

`tilewright.torch` is what PyTorch programs use; this package finds and loads the C library, and says its errors.
"""

from ._errors import DeviceError, InternalError, OutOfMemoryError, TilewrightError, UserError
from ._library import library_version as _library_version

__all__ = ["DeviceError", "InternalError", "OutOfMemoryError", "TilewrightError", "UserError", "library_version"]

__version__ = "0.1.0"


def library_version() -> str:
    """The version of the C library that is loaded (which happens at the first call)."""
    return _library_version()
