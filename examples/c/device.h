/* Memory and streams: of the CPU, or of the first GPU by its driver. libcuda.so.1 is opened at run time, so
 * that no CUDA toolkit is needed to build a program, and no driver to run it on a CPU. A program that uses
 * CUDA's runtime takes cudaMalloc, cudaMemcpyAsync and cudaStreamCreate in their place: its streams and
 * memory are the same. */
#ifndef TILEWRIGHT_EXAMPLE_DEVICE_H
#define TILEWRIGHT_EXAMPLE_DEVICE_H

#include <dlfcn.h>
#include <string.h>

#include "example.h"

/* As cuda.h declares them: a CUresult is an int, a CUdevice an int, a CUdeviceptr 64 bits. */
typedef struct Driver {
  int (*init)(unsigned flags);
  int (*deviceGet)(int *device, int index);
  int (*primaryCtxRetain)(void **context, int device);
  int (*ctxSetCurrent)(void *context);
  int (*memAlloc)(uint64_t *memory, size_t bytes);
  int (*memFree)(uint64_t memory);
  int (*toDevice)(uint64_t to, const void *from, size_t bytes, void *stream);
  int (*toHost)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*streamCreate)(void **stream, unsigned flags);
  int (*streamSynchronize)(void *stream);
  int (*streamDestroy)(void *stream);
} Driver;

static Driver driver;
static void *context; /* of the GPU; NULL on a CPU */

static void succeed(int result, const char *what) {
  if (result == 0) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, result);
  exit(1);
}

/* Sets *function, whose type is that of the driver's function. */
static void find(void *library, void *function, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "%s: not in the driver\n", name);
    exit(1);
  }
  memcpy(function, &found, sizeof found);
}

/* From here on memory and streams are the GPU's. */
static void openGpu(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  find(library, &driver.init, "cuInit");
  find(library, &driver.deviceGet, "cuDeviceGet");
  find(library, &driver.primaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(library, &driver.ctxSetCurrent, "cuCtxSetCurrent");
  find(library, &driver.memAlloc, "cuMemAlloc_v2");
  find(library, &driver.memFree, "cuMemFree_v2");
  find(library, &driver.toDevice, "cuMemcpyHtoDAsync_v2");
  find(library, &driver.toHost, "cuMemcpyDtoHAsync_v2");
  find(library, &driver.streamCreate, "cuStreamCreate");
  find(library, &driver.streamSynchronize, "cuStreamSynchronize");
  find(library, &driver.streamDestroy, "cuStreamDestroy_v2");
  int device = 0;
  succeed(driver.init(0), "cuInit");
  succeed(driver.deviceGet(&device, 0), "cuDeviceGet");
  succeed(driver.primaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  place.device_type = kDLCUDA;
}

/* A stream of this thread's own; each thread begins with it. NULL on a CPU, where a call's work is done on
 * return. */
static void *makeStream(void) {
  void *stream = NULL;
  const unsigned waitsForNoOther = 1; /* CU_STREAM_NON_BLOCKING */
  if (!context) return NULL;
  succeed(driver.ctxSetCurrent(context), "cuCtxSetCurrent");
  succeed(driver.streamCreate(&stream, waitsForNoOther), "cuStreamCreate");
  return stream;
}

static void waitFor(void *stream) {
  if (context) succeed(driver.streamSynchronize(stream), "cuStreamSynchronize");
}

static void freeStream(void *stream) {
  if (context) succeed(driver.streamDestroy(stream), "cuStreamDestroy");
}

/* The address where kernels reach the memory; aligned to 256 bytes. */
static void *deviceAllocate(size_t bytes) {
  uint64_t memory = 0;
  if (!context) return mustAllocate(bytes);
  succeed(driver.memAlloc(&memory, bytes ? bytes : 1), "cuMemAlloc");
  return (void *)(uintptr_t)memory;
}

static void deviceFree(void *memory) {
  if (context)
    succeed(driver.memFree((uintptr_t)memory), "cuMemFree");
  else
    free(memory);
}

/* In the stream's order. */
static void copyToDevice(void *to, const void *from, size_t bytes, void *stream) {
  if (context)
    succeed(driver.toDevice((uintptr_t)to, from, bytes, stream), "cuMemcpyHtoDAsync");
  else
    memcpy(to, from, bytes);
}

static void copyToHost(void *to, const void *from, size_t bytes, void *stream) {
  if (context)
    succeed(driver.toHost(to, (uintptr_t)from, bytes, stream), "cuMemcpyDtoHAsync");
  else
    memcpy(to, from, bytes);
}

#endif
