/* The same work again and again, with less and less of a lack of memory. In the first round the library's first allocation
 * fails, in the next its second, and so on, until a round needs no more than were granted. A round must succeed or end with
 * TW_ERROR_OUT_OF_MEMORY and a message, and after each as many blocks must be live as before. malloc and its kin are this
 * program's own.
 *
 * Usage: lack_of_memory LIBRARY step|scale one|rest PERCENT
 *   LIBRARY  a part of the library's path
 *   step     of training; scale: one kernel alone
 *   one      allocation fails in a round; rest: it, and all that follow
 *   PERCENT  by which the allocation's number grows from round to round, beside 1; 0: each allocation has its turn */
#define _GNU_SOURCE
#include "example.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

enum { N = 3, H = 8, V = 13 };

/* ---- malloc ---- */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static uintptr_t begin, end; /* of the library */
static long asked, failAt, live;
static int restFails;

/* Whether this one is to fail: asked for by the library, and its turn. */
static int fails(const void *caller) {
  const uintptr_t address = (uintptr_t)caller;
  if (address < begin || address >= end) return 0;
  const long number = __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
  if (!failAt || number < failAt || (number > failAt && !restFails)) return 0;
  errno = ENOMEM;
  return 1;
}

static void *counted(void *memory) {
  if (memory) __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
  return memory;
}
#define FAILS fails(__builtin_return_address(0))

void *malloc(size_t bytes) { return FAILS ? NULL : counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return FAILS ? NULL : counted(__libc_calloc(count, bytes)); }
void *realloc(void *memory, size_t bytes) {
  if (FAILS) return NULL;
  return memory ? __libc_realloc(memory, bytes) : counted(__libc_malloc(bytes));
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  return FAILS ? NULL : counted(__libc_memalign(alignment, bytes));
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  void *found = FAILS ? NULL : counted(__libc_memalign(alignment, bytes));
  if (!found) return ENOMEM;
  *memory = found;
  return 0;
}
void free(void *memory) {
  if (memory) __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
  __libc_free(memory);
}

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

/* ---- A step ---- */

static float x[N * H], w[V * H], dx[N * H], dw[V * H], loss, lse[N], factor = 2;
static int64_t y[N];
static _Alignas(256) char workspace[1 << 16];

/* Prepares, runs and frees a call. */
static tw_code run(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors, tw_pass pass,
                   tw_error **error) {
  tw_linear_cross_entropy *call = NULL;
  tw_call_status *status = NULL;
  tw_code code = tw_linear_cross_entropy_prepare(runtime, tensors, NULL, pass, &call, error);
  if (code == TW_OK) code = tw_call_status_create(runtime, NULL, &status, error);
  if (code == TW_OK)
    code = tw_linear_cross_entropy_run(call, tensors, workspace, sizeof workspace, status, NULL, error);
  tw_call_status_free(status);
  tw_linear_cross_entropy_free(call);
  return code;
}

static tw_code scale(tw_runtime *runtime, const DLTensor *gradient, const DLTensor *by, tw_error **error) {
  tw_gradient_scaling *scaling = NULL;
  tw_code code = tw_gradient_scaling_prepare(runtime, gradient->dtype, &scaling, error);
  if (code == TW_OK) code = tw_gradient_scaling_run(scaling, gradient, by, gradient, NULL, error);
  tw_gradient_scaling_free(scaling);
  return code;
}

static int scalesOnly;

static tw_code work(tw_error **error) {
  Tensor tx, tw, ty, tloss, tlse, tdx, tdw, tby;
  tw_linear_cross_entropy_tensors inputs = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  inputs.hidden = matrix(&tx, x, N, H);
  inputs.weight = matrix(&tw, w, V, H);
  inputs.label = labels(&ty, y, N);
  tw_linear_cross_entropy_tensors fused = inputs, backward = inputs;
  fused.loss = vector(&tloss, &loss, 1);
  fused.lse = backward.saved_lse = vector(&tlse, lse, N);
  fused.d_hidden = backward.d_hidden = matrix(&tdx, dx, N, H);
  fused.d_weight = backward.d_weight = matrix(&tdw, dw, V, H);

  tw_runtime_options options = TW_RUNTIME_OPTIONS_INIT;
  options.threads = 2;
  tw_runtime *runtime = NULL;
  tw_code code = tw_runtime_open("cpu", &options, &runtime, error);
  if (code == TW_OK && !scalesOnly) code = run(runtime, &fused, TW_PASS_FUSED, error);
  if (code == TW_OK) code = scale(runtime, fused.d_hidden, vector(&tby, &factor, 1), error);
  if (code == TW_OK && !scalesOnly) code = run(runtime, &backward, TW_PASS_BACKWARD, error);
  tw_runtime_close(runtime);
  return code;
}

static long codes;  /* rounds that ended with one */
static long leaked; /* blocks of the last round */

struct Round {
  tw_code code;
  tw_error *error;
};

static void *runRound(void *round) {
  struct Round *mine = round;
  mine->code = work(&mine->error);
  return NULL;
}

/* One round, in a thread of its own: what the compiler keeps for a thread until that compiles again goes with the thread.
 * Whether the round's failure came to pass. */
static int goesOn(long number) {
  const long before = live;
  struct Round round = {TW_OK, NULL};
  pthread_t thread;
  asked = 0, failAt = number;
  if (pthread_create(&thread, NULL, runRound, &round) || pthread_join(thread, NULL)) exit(1);
  failAt = 0;
  const int failed = number && asked >= number;
  const char *message = tw_error_message(round.error);
  const int isRight = round.code == TW_OK || (failed && round.code == TW_ERROR_OUT_OF_MEMORY && *message);
  if (!isRight) fprintf(stderr, "allocation %ld: code %d: %s\n", number, (int)round.code, message);
  tw_error_free(round.error);
  codes += round.code != TW_OK;
  leaked = live - before;
  if (!isRight) exit(1);
  return failed;
}

/* The round again, where it leaves blocks: what is made once and stays is no leak. */
static int goesOnWithoutLeak(long number) {
  const int failed = goesOn(number);
  if (leaked) goesOn(number);
  if (leaked) {
    fprintf(stderr, "allocation %ld: a round leaves %ld blocks\n", number, leaked);
    exit(1);
  }
  return failed;
}

int main(int count, char **words) {
  if (count != 5) return 2;
  dl_iterate_phdr(findLibrary, words[1]);
  scalesOnly = !strcmp(words[2], "scale");
  restFails = !strcmp(words[3], "rest");
  const long percent = atol(words[4]);
  uint64_t seed = 7;
  for (int64_t i = 0; i < N * H; ++i)
    x[i] = (float)uniform(&seed);
  for (int64_t i = 0; i < V * H; ++i)
    w[i] = (float)uniform(&seed);
  for (int64_t i = 0; i < N; ++i)
    y[i] = i;
  for (int i = 0; i < 3; ++i) /* what stays for good */
    goesOn(0);
  const long all = asked;
  long number = 1, rounds = 0;
  for (; goesOnWithoutLeak(number); number += 1 + number * percent / 100)
    ++rounds;
  printf("%ld of %ld allocations failed, %ld times with a code; %ld blocks stay\n", rounds, all, codes, live);
  return rounds == 0;
}
