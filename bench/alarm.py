"""A timer that rings within a tenth of a millisecond on any event loop (Linux).

asyncio rounds its timers up to a millisecond and uvloop to the nearest one, which is more than many a delay between
two machines. The kernel's timerfd is exact and wakes the loop like a socket. It does not know what it is for.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK, _TFD_CLOEXEC, _TFD_TIMER_ABSTIME = os.O_NONBLOCK, os.O_CLOEXEC, 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Calls ``ring`` on the running loop once for each ``set``. Raises OSError when the kernel has no timer left."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._file = _checked(_libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC))
        self._loop.add_reader(self._file, self._woken)

    def set(self, when: float) -> None:
        """Ring at ``when`` of ``time.monotonic``, at once if that has passed; an earlier setting is forgotten."""
        nanoseconds = max(1, int(when * 1e9) + 1)
        timer = _Timer(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, 10**9)))
        _checked(_libc.timerfd_settime(self._file, _TFD_TIMER_ABSTIME, ctypes.byref(timer), None))

    def close(self) -> None:
        """Ring no more."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _woken(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # set anew between the wake-up and now
        self._ring()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
