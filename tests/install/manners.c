/* Preloaded: ends the process with 99 where the library (its path is in TILEWRIGHT_WATCHED) calls what a guest must not
 * call: something that ends the process, writes to a file that nobody asked for, changes what signals do, or asks for
 * work at exit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* A function that goes on to the one of this name that it hides. */
#define FORWARD(type, name, parameters, arguments)                                                           \
  type name parameters {                                                                                     \
    GUARD(name);                                                                                             \
    return ((type(*) parameters)NEXT(name))arguments;                                                        \
  }

/* ---- The end of the process ---- */

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

int __cxa_atexit(void (*function)(void *), void *argument, void *library);
FORWARD(int, __cxa_atexit, (void (*function)(void *), void *argument, void *library),
        (function, argument, library))
FORWARD(int, on_exit, (void (*function)(int, void *), void *argument), (function, argument))

/* ---- Signals ---- */

FORWARD(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before),
        (number, action, before))
FORWARD(sighandler_t, signal, (int number, sighandler_t handler), (number, handler))

/* ---- Output ---- */

ssize_t write(int file, const void *bytes, size_t count) {
  GUARD(write);
  return syscall(SYS_write, file, bytes, count);
}

FORWARD(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
FORWARD(size_t, fwrite, (const void *bytes, size_t size, size_t count, FILE *file), (bytes, size, count, file))
FORWARD(int, fputs, (const char *text, FILE *file), (text, file))
FORWARD(int, puts, (const char *text), (text))
FORWARD(int, fputc, (int byte, FILE *file), (byte, file))
#undef putc
FORWARD(int, putc, (int byte, FILE *file), (byte, file))
#undef putchar
FORWARD(int, putchar, (int byte), (byte))
FORWARD(int, vprintf, (const char *format, va_list values), (format, values))
FORWARD(int, vfprintf, (FILE * file, const char *format, va_list values), (file, format, values))
FORWARD(int, vdprintf, (int file, const char *format, va_list values), (file, format, values))

int __vprintf_chk(int flag, const char *format, va_list values);
int __vfprintf_chk(FILE *file, int flag, const char *format, va_list values);
FORWARD(int, __vprintf_chk, (int flag, const char *format, va_list values), (flag, format, values))
FORWARD(int, __vfprintf_chk, (FILE * file, int flag, const char *format, va_list values), (file, flag, format, values))

void perror(const char *text) {
  GUARD(perror);
  ((void (*)(const char *))NEXT(perror))(text);
}

/* The same for one with values behind its format: it goes on to the one that takes them as a list. */
#define FORWARD_VALUES(name, next, nextType, parameters, ...)                                                \
  int name parameters {                                                                                      \
    GUARD(name);                                                                                             \
    va_list values;                                                                                          \
    va_start(values, format);                                                                                \
    const int result = ((int(*) nextType)NEXT(next))(__VA_ARGS__, values);                                   \
    va_end(values);                                                                                          \
    return result;                                                                                           \
  }

int __printf_chk(int flag, const char *format, ...);
int __fprintf_chk(FILE *file, int flag, const char *format, ...);
FORWARD_VALUES(printf, vprintf, (const char *, va_list), (const char *format, ...), format)
FORWARD_VALUES(fprintf, vfprintf, (FILE *, const char *, va_list), (FILE * file, const char *format, ...), file, format)
FORWARD_VALUES(dprintf, vdprintf, (int, const char *, va_list), (int file, const char *format, ...), file, format)
FORWARD_VALUES(__printf_chk, __vprintf_chk, (int, const char *, va_list), (int flag, const char *format, ...), flag,
               format)
FORWARD_VALUES(__fprintf_chk, __vfprintf_chk, (FILE *, int, const char *, va_list),
               (FILE * file, int flag, const char *format, ...), file, flag, format)
