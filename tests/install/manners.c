/* Preloaded: ends the process with 99 where the library (its path is in TILEWRIGHT_WATCHED) calls what a guest must not
 * call: something that ends the process, writes to a file that nobody asked for, or changes what signals do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void refuseFromLibrary(const void *caller, const char *name) {
  Dl_info info;
  const char *watched = getenv("TILEWRIGHT_WATCHED");
  if (!watched || !dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, watched)) return;
  syscall(SYS_write, 2, "the library called ", 19);
  syscall(SYS_write, 2, name, strlen(name));
  syscall(SYS_write, 2, "\n", 1);
  syscall(SYS_exit_group, 99);
}
#define GUARD(name) refuseFromLibrary(__builtin_return_address(0), #name)
#define NEXT(name) dlsym(RTLD_NEXT, #name)

void exit(int code) {
  GUARD(exit);
  ((void (*)(int))NEXT(exit))(code);
  __builtin_unreachable();
}

void abort(void) {
  GUARD(abort);
  ((void (*)(void))NEXT(abort))();
  __builtin_unreachable();
}

ssize_t write(int file, const void *bytes, size_t count) {
  GUARD(write);
  return syscall(SYS_write, file, bytes, count);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  GUARD(sigaction);
  return ((int (*)(int, const struct sigaction *, struct sigaction *))NEXT(sigaction))(number, action, before);
}

sighandler_t signal(int number, sighandler_t handler) {
  GUARD(signal);
  return ((sighandler_t(*)(int, sighandler_t))NEXT(signal))(number, handler);
}
