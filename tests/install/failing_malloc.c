/* Preloaded: of the library whose path has TILEWRIGHT_WATCHED in it, the TILEWRIGHT_FAIL_AT-th malloc fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);

static uintptr_t begin, end;
static long left;

static int findLibrary(struct dl_phdr_info *info, size_t bytes, void *name) {
  (void)bytes;
  if (!strstr(info->dlpi_name, name)) return 0;
  begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    const uintptr_t partEnd = begin + part->p_vaddr + part->p_memsz;
    if (part->p_type == PT_LOAD && partEnd > end) end = partEnd;
  }
  return 1;
}

__attribute__((constructor)) static void start(void) {
  char *watched = getenv("TILEWRIGHT_WATCHED"), *failAt = getenv("TILEWRIGHT_FAIL_AT");
  if (!watched || !failAt) return;
  dl_iterate_phdr(findLibrary, watched);
  left = atol(failAt);
}

void *malloc(size_t bytes) {
  const uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  if (caller >= begin && caller < end && left > 0 && __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) == 0) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(bytes);
}
