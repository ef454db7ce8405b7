package baton

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2), which counts suspend.
const clockBoottime = 7

var hasBoottime = func() bool {
	_, err := boottime()
	return err == 0
}()

// now returns the time since boot. Where a sandbox refuses to tell it, now returns the time since
// the process started, which may stop during a suspend.
func now() time.Duration {
	if !hasBoottime {
		return monotonic()
	}
	now, err := boottime()
	if err != 0 {
		panic("baton: cannot read CLOCK_BOOTTIME any more: " + err.Error())
	}
	return now
}

func boottime() (time.Duration, syscall.Errno) {
	var spec syscall.Timespec
	_, _, err := syscall.RawSyscall(
		syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&spec)), 0)
	return time.Duration(spec.Nano()), err
}
