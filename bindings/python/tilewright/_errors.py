"""What a call can fail with. Messages say what was expected and what was found."""


class TilewrightError(RuntimeError):
    """Any failure of the library. `driver_number` is the CUDA driver's CUresult, 0 where it has no part in it."""

    driver_number: int = 0


class UserError(TilewrightError, ValueError):
    """A mistake of the caller's: a shape, a type, an option, a label that is no class."""


class OutOfMemoryError(TilewrightError, MemoryError):
    """Memory of the host or of the device is exhausted."""


class DeviceError(TilewrightError):
    """There is no such device or driver, or it failed."""


class InternalError(TilewrightError):
    """A mistake of the library's."""


# By tw_code of tilewright.h.
_CLASSES = {1: UserError, 2: OutOfMemoryError, 3: DeviceError, 4: DeviceError, 5: TilewrightError, 6: InternalError}


def error_of(code: int, message: str, driver_number: int = 0) -> TilewrightError:
    error = _CLASSES.get(code, InternalError)(message)
    error.driver_number = driver_number
    return error
