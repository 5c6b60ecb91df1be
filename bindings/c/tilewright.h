/* Tilewright's losses for C and for whatever calls C: linear + cross entropy without its logits in memory,
 * and cross entropy over logits. A call is prepared once and then run as often as needed, in the caller's
 * memory and on the caller's stream.
 *
 * Every function may be called from any thread, unless its comment says otherwise. A function that can fail
 * returns a code and, where `error` is not NULL, sets *error: to NULL when all is well, else to what the
 * caller frees. What else it would return is then NULL or 0.
 *
 * There are two libraries: libtilewright.so has a compiler inside, libtilewright_runtime.so gets all kernels
 * from bundles; what asks for others there is TW_ERROR_USER. A process that was forked after its parent
 * opened a runtime gets TW_ERROR_USER from each of them; what frees an object then does nothing. */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h> /* DLTensor; Debian: libdlpack-dev */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ---- */

#define TW_VERSION "0.1.0"
/* Changes when a program that was compiled with an earlier header no longer works. */
#define TW_ABI_VERSION 1

const char *tw_version(void); /* of the library: compare with TW_VERSION */
int tw_abi_version(void);     /* of the library: compare with TW_ABI_VERSION */

/* ---- Errors ---- */

typedef enum tw_code {
  TW_OK = 0,
  TW_ERROR_USER = 1, /* the caller's mistake: the message says what was expected and what was found */
  TW_ERROR_OUT_OF_MEMORY = 2,      /* of the host or of the device */
  TW_ERROR_UNSUPPORTED_DEVICE = 3, /* no such device, no driver, or one that is too old */
  TW_ERROR_DEVICE_FAULT = 4,       /* the device or its driver failed */
  TW_ERROR_INPUT_OUTPUT = 5,       /* files */
  TW_ERROR_INTERNAL = 6            /* a mistake of this library's */
} tw_code;

typedef struct tw_error tw_error;

tw_code tw_error_code(const tw_error *error);        /* TW_OK of NULL */
const char *tw_error_message(const tw_error *error); /* UTF-8, lives as long as the error; "" of NULL */
int tw_error_driver_number(const tw_error *error); /* the CUDA driver's CUresult; 0: it has no part in this */
void tw_error_free(tw_error *error);               /* NULL is fine; twice is not */

/* ---- Messages ---- */

typedef enum tw_log_level {
  TW_LOG_ERROR = 0,
  TW_LOG_WARNING = 1,
  TW_LOG_INFO = 2,
  TW_LOG_DEBUG = 3
} tw_log_level;

/* Called from any thread, several at a time. It must not throw, nor call this library. */
typedef void (*tw_log_callback)(void *user_data, tw_log_level level, const char *message);

/* Messages of the whole process up to a level (a tw_log_level) go to the callback; NULL: to stderr. Before
 * the first call they go to stderr up to TW_LOG_WARNING, or what TILEWRIGHT_LOG says when a runtime is
 * opened. A callback that was replaced may still be under way in another thread when this returns. */
tw_code tw_set_log(tw_log_callback callback, void *user_data, int32_t level, tw_error **error);

/* ---- Devices and runtimes ---- */

/* Devices of this machine: "cpu", then "cuda:0" and so on for the GPUs that its driver finds. */
tw_code tw_device_count(int *count, tw_error **error);
/* Writes the name and a zero byte; TW_ERROR_USER where `bytes` are too few (16 are enough). */
tw_code tw_device_name(int index, char *name, size_t bytes, tw_error **error);

typedef enum tw_autotune {
  TW_AUTOTUNE_ENVIRONMENT = 0, /* as TILEWRIGHT_AUTOTUNE says, else TW_AUTOTUNE_READ */
  TW_AUTOTUNE_OFF = 1,         /* tuned configurations are not used */
  TW_AUTOTUNE_READ = 2         /* they are used where there are some */
} tw_autotune;

/* Zero stands for the default everywhere but in struct_bytes. The environment (TILEWRIGHT_CACHE_DIR and so
 * on) is read when a runtime is opened, and at no other time: what is set later has no effect on it. */
typedef struct tw_runtime_options {
  size_t struct_bytes;   /* sizeof(tw_runtime_options) */
  const char *cache_dir; /* where compiled kernels and tuning records are kept; NULL: as the environment says;
                            "off" */
  const char
      *target; /* of a GPU's code: "sm_80", …; NULL: as the environment says, else all that the GPU has */
  int32_t threads;  /* of the CPU device; 0: as the environment says, else one a core */
  int32_t autotune; /* a tw_autotune */
  /* A structure that ends here is taken, too. */
  const char *const *bundles; /* paths of files that `tilewright export` made; their kernels are used before
                                 all others; NULL: as TILEWRIGHT_BUNDLES says, else none */
  size_t bundle_count;
} tw_runtime_options;
#define TW_RUNTIME_OPTIONS_INIT                                                                              \
  { sizeof(tw_runtime_options), NULL, NULL, 0, TW_AUTOTUNE_ENVIRONMENT, NULL, 0 }

/* A device, its loaded kernels, and the kernels on disk. Several of one process do not disturb each other. */
typedef struct tw_runtime tw_runtime;

/* device: "cpu", "cuda", "cuda:INDEX"; NULL: as TILEWRIGHT_DEVICE says, else "cpu". options: NULL for
 * defaults. */
tw_code tw_runtime_open(const char *device, const tw_runtime_options *options, tw_runtime **runtime,
                        tw_error **error);
/* Prepared calls may outlive it. NULL is fine; twice is not. */
void tw_runtime_close(tw_runtime *runtime);

/* Strings live as long as the runtime. */
typedef struct tw_device_info {
  size_t struct_bytes;     /* sizeof(tw_device_info), set by the caller */
  const char *name;        /* as a person reads it */
  const char *target;      /* what code is generated for */
  const char *fingerprint; /* equal where tuning results carry over */
  int64_t memory_bytes;
  int32_t units;        /* threads of a CPU, multiprocessors of a GPU */
  int32_t device_type;  /* DLPack's kDLCPU or kDLCUDA */
  int32_t device_index; /* DLPack's device_id */
} tw_device_info;
tw_code tw_runtime_device_info(const tw_runtime *runtime, tw_device_info *info, tw_error **error);

/* What was done since the runtime was opened. */
typedef struct tw_counters {
  size_t struct_bytes;                      /* sizeof(tw_counters), set by the caller */
  int64_t compiled, from_disk, from_memory; /* kernels */
  double compile_milliseconds;
  /* A structure that ends here is taken, too. */
  int64_t from_bundles;
} tw_counters;
tw_code tw_runtime_counters(const tw_runtime *runtime, tw_counters *counters, tw_error **error);

/* ---- Kernels of one's own, from bundles ---- */

/* A kernel of the runtime's bundles, loaded on its device. */
typedef struct tw_kernel tw_kernel;

/* specialisation: as the kernel was defined with; NULL where the bundles have one kernel of this name. */
tw_code tw_kernel_find(tw_runtime *runtime, const char *name, const char *specialisation, tw_kernel **kernel,
                       tw_error **error);
void tw_kernel_free(tw_kernel *kernel);
/* 0 of NULL. */
size_t tw_kernel_parameter_count(const tw_kernel *kernel);
/* Lives as long as the kernel; NULL where there is no such parameter. */
const char *tw_kernel_parameter_name(const tw_kernel *kernel, size_t index);

/* What one parameter is bound to; by its kind, one of them. */
typedef struct tw_kernel_argument {
  const DLTensor *tensor; /* as tensors of the losses */
  int64_t index;
  float number;
} tw_kernel_argument;

/* Enqueues the kernel, for as many programs as the sizes of its arguments ask for; `stream` as of
 * tw_linear_cross_entropy_run. The arguments are in the order of the parameters. TW_ERROR_USER, too: memory
 * that the device does not reach; a tensor that is written and overlaps another one, unless both begin at the
 * same address (in place). */
tw_code tw_kernel_launch(const tw_kernel *kernel, const tw_kernel_argument *arguments, size_t argument_count,
                         void *stream, tw_error **error);

/* ---- Status of a run: labels and class weights that the kernels refuse ---- */

#define TW_CALL_STATUS_BYTES 64

/* Only the device sees labels and class weights, and nobody waits for it: a status may be asked at any time
 * whether the kernels of its last run have looked, and what they found. It serves one run at a time. */
typedef struct tw_call_status tw_call_status;

/* words: TW_CALL_STATUS_BYTES of host memory, aligned to 8, that the device reaches at the same address
 * (pinned), and that outlive the status and its runs; NULL: the library allocates them. */
tw_code tw_call_status_create(tw_runtime *runtime, void *words, tw_call_status **status, tw_error **error);
/* 1 or 0; waits for nothing. 1 of NULL. */
int tw_call_status_is_done(const tw_call_status *status);
/* TW_ERROR_USER names the row and its label, or the class, that was found up to now; TW_OK where nothing was.
 */
tw_code tw_call_status_error(const tw_call_status *status, tw_error **error);
void tw_call_status_free(tw_call_status *status);

/* ---- Options of the losses ---- */

typedef enum tw_reduction { TW_REDUCTION_MEAN = 0, TW_REDUCTION_SUM = 1, TW_REDUCTION_NONE = 2 } tw_reduction;
typedef enum tw_objective { TW_OBJECTIVE_LOG_PROB = 0, TW_OBJECTIVE_PROB = 1 } tw_objective; /* −log p, −p */
typedef enum tw_variant {
  TW_VARIANT_AUTOMATIC = 0,
  TW_VARIANT_CHUNKED = 1,   /* exponentials of one chunk of rows at a time are in memory */
  TW_VARIANT_WHOLE = 2,     /* one chunk holds every row */
  TW_VARIANT_RECOMPUTE = 3, /* logits are computed twice: the least workspace */
  TW_VARIANT_LOSS_ONLY = 4  /* no gradient */
} tw_variant;
typedef enum tw_pass {
  TW_PASS_FUSED =
      0, /* losses and all gradients that are asked for; with none, a training step's forward call */
  TW_PASS_BACKWARD =
      1 /* gradients alone, from the lse of a forward call; may be run again with other gradients */
} tw_pass;

/* With logits t, labels y, class weights u (1 where none are given) and lse, p of the final logits z:
 *     z = softcap(S t), softcap(t) = C tanh(t / C)
 *     main_i = (1 − A) u_y (lse_i − z_iy) + (A / V) Σ_c u_c (lse_i − z_ic), or −p_iy;   extra_i = Z lse_i²
 * none: main + extra of each row; sum: their sum; mean: Σ main / Σ u_y + Σ extra / number of rows. Rows whose
 * label is the ignore index take no part. */
typedef struct tw_cross_entropy_options {
  size_t struct_bytes;
  int32_t reduction; /* a tw_reduction */
  int32_t objective; /* a tw_objective */
  int64_t ignore_index;
  float label_smoothing; /* A, 0 … 1 */
  float z_loss;          /* Z, not negative */
  float logit_scale;     /* S, not 0; 1 / temperature */
  float softcap;         /* C, positive; 0: none */
} tw_cross_entropy_options;
#define TW_CROSS_ENTROPY_OPTIONS_INIT                                                                        \
  { sizeof(tw_cross_entropy_options), TW_REDUCTION_MEAN, TW_OBJECTIVE_LOG_PROB, -100, 0, 0, 1, 0 }

typedef struct tw_linear_cross_entropy_options {
  size_t struct_bytes;
  int32_t reduction; /* as above, up to softcap */
  int32_t objective;
  int64_t ignore_index;
  float label_smoothing;
  float z_loss;
  float logit_scale;
  float softcap;
  int32_t variant;    /* a tw_variant */
  int32_t has_margin; /* large margin cosine loss: z_ij = margin_scale (cos(x_i, w_j) − margin [j = y_i]) */
  float margin;
  float margin_scale;
  int64_t workspace_limit;           /* bytes; 0: none */
  int32_t tf32;                      /* products of f32 matrices round their operands to TF32 */
  int32_t flush_small_probabilities; /* gradients of bf16 matrices take probabilities below 2^-30 as 0 */
  int32_t accumulate;                /* d_weight and d_bias are added to what their buffers hold */
  int32_t reserved;                  /* 0 */
  const char
      *configuration; /* as tw_linear_cross_entropy_configuration says it; NULL: the tuned or planned one */
} tw_linear_cross_entropy_options;
#define TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT                                                                 \
  {                                                                                                          \
    sizeof(tw_linear_cross_entropy_options), TW_REDUCTION_MEAN, TW_OBJECTIVE_LOG_PROB, -100, 0, 0, 1, 0,     \
        TW_VARIANT_AUTOMATIC, 0, 0, 1, 0, 0, 1, 0, 0, NULL                                                   \
  }

/* ---- Linear + cross entropy ---- */

/* Matrices have rows whose elements are adjacent; rows may lie apart (strides[0]). Vectors are dense. One
 * value may have no dimension or one. NULL: there is no such tensor; an output that is NULL is not computed.
 * No output may overlap another tensor. A tensor without elements may have a null address. The device is the
 * runtime's. */
typedef struct tw_linear_cross_entropy_tensors {
  size_t struct_bytes;
  const DLTensor *hidden;       /* X, N×H, f32, bf16 or f16 */
  const DLTensor *weight;       /* W, V×H, of X's type */
  const DLTensor *label;        /* N, i32 or i64: 0 … V-1, or the ignore index */
  const DLTensor *bias;         /* V, f32 or X's type */
  const DLTensor *class_weight; /* V, f32, none negative */
  const DLTensor *grad_output;  /* f32: upstream gradient of the loss: 1 value, or N with TW_REDUCTION_NONE */
  const DLTensor *grad_lse;     /* N, f32: upstream gradient of lse */
  const DLTensor *grad_entropy; /* N, f32: upstream gradient of entropy */
  const DLTensor *saved_lse; /* N, f32: of a backward call, the lse that the forward call stored; else NULL */
  const DLTensor *loss;      /* out: f32: 1 value, or N with TW_REDUCTION_NONE */
  const DLTensor *lse;       /* out: N, f32 */
  const DLTensor *d_hidden;  /* out: N×H, f32 or X's type */
  const DLTensor *d_weight;  /* out: V×H, f32 or X's type */
  const DLTensor *d_bias;    /* out: V, f32 or the bias's type */
  const DLTensor *entropy;   /* out: N, f32 */
  const DLTensor *argmax;    /* out: N, i32: the first class with the largest logit; -1 of an ignored row */
  const DLTensor *correct;   /* out: N, i32: 1 where argmax is the label, else 0 */
  const DLTensor
      *monitored; /* out: 6, f32: largest logit, means of logit norm, entropy, lse², lse; accuracy */
} tw_linear_cross_entropy_tensors;
#define TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT                                                                 \
  {                                                                                                          \
    sizeof(tw_linear_cross_entropy_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,     \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                                       \
  }

/* A call that is planned, with its kernels loaded. Runs do not change it: any number of threads may run it at
 * once, each with memory of its own. */
typedef struct tw_linear_cross_entropy tw_linear_cross_entropy;

/* `tensors` say which there will be, of which shapes, types and strides; nothing is read or written. Of
 * addresses it matters whether the matrices' are aligned to 16 bytes. Compiles what was never needed before.
 * options: NULL for defaults. pass: a tw_pass. */
tw_code tw_linear_cross_entropy_prepare(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors,
                                        const tw_linear_cross_entropy_options *options, int32_t pass,
                                        tw_linear_cross_entropy **call, tw_error **error);
void tw_linear_cross_entropy_free(tw_linear_cross_entropy *call);

/* Bytes that a run needs, whatever the addresses of its tensors; 0 of NULL. */
int64_t tw_linear_cross_entropy_workspace_bytes(const tw_linear_cross_entropy *call);
/* Text for the option `configuration`; "" for the variant recompute, and of NULL. */
const char *tw_linear_cross_entropy_configuration(const tw_linear_cross_entropy *call);
/* For people: tiles, chunks and slices. */
const char *tw_linear_cross_entropy_description(const tw_linear_cross_entropy *call);
/* 1 where `run` takes such tensors, else 0. */
int tw_linear_cross_entropy_fits(const tw_linear_cross_entropy *call,
                                 const tw_linear_cross_entropy_tensors *tensors);

/* Enqueues the call's work on the stream; waits for nothing, and may be captured in a CUDA graph. Tensors,
 * workspace (device memory, aligned to 256) and status must outlive the work. stream: a CUstream; NULL is
 * CUDA's default stream, and all there is on a CPU, where the work is done on return. There a label that is
 * neither a class nor the ignore index is TW_ERROR_USER; on a GPU `status` gets it (NULL: nobody learns it).
 */
tw_code tw_linear_cross_entropy_run(const tw_linear_cross_entropy *call,
                                    const tw_linear_cross_entropy_tensors *tensors, void *workspace,
                                    int64_t workspace_bytes, tw_call_status *status, void *stream,
                                    tw_error **error);

/* ---- Linear + cross entropy of a vocabulary that ranks share ---- */

/* Rank r has V_r of V classes and all N rows. This library issues no collective: the caller gathers what
 * ranks tell of a chunk of rows, and adds up dX, with whatever it has (NCCL, MPI, torch.distributed). Of a
 * run, in this order, where C is the number of a chunk's rows, F of the numbers that a rank tells of one, and
 * R of ranks:
 *
 *     TW_SHARD_BEGIN
 *     TW_SHARD_STATS 0         writes `stats`, F×C f32. Gather those of all ranks into `gathered`, R×F×C
 *     for each chunk c:
 *       TW_SHARD_STATS c + 1   into memory of its own; beside what follows, gather them. Not ahead, but after
 *                              TW_SHARD_D_WEIGHT of c, where chunk_buffers is 1 and there are several chunks
 *       TW_SHARD_MERGE c       reads `gathered` of chunk c
 *       TW_SHARD_D_HIDDEN c    afterwards rows [c C, min(N, (c + 1) C)) of d_hidden hold this rank's part
 *       TW_SHARD_D_WEIGHT c    beside it, add up those rows over ranks
 *     TW_SHARD_FINISH          afterwards all other outputs are complete
 *
 * loss, lse, entropy, argmax, correct and monitored are those of all V classes, with the same bits on all
 * ranks of one kind of device; d_weight and d_bias those of this rank's classes. */

typedef struct tw_vocabulary_shard {
  size_t struct_bytes; /* sizeof(tw_vocabulary_shard) */
  int64_t all_classes; /* V */
  int64_t first_class; /* this rank has [first_class, first_class + V_r); weight tells V_r */
  int64_t widest;      /* the largest V_r of all ranks, for which all of them plan */
  int64_t rank, ranks; /* 0 … R-1, R */
} tw_vocabulary_shard;

typedef enum tw_shard_part {
  TW_SHARD_BEGIN = 0,
  TW_SHARD_STATS = 1,
  TW_SHARD_MERGE = 2,
  TW_SHARD_D_HIDDEN = 3,
  TW_SHARD_D_WEIGHT = 4,
  TW_SHARD_FINISH = 5
} tw_shard_part;

typedef struct tw_sharded_linear_cross_entropy tw_sharded_linear_cross_entropy;

/* As tw_linear_cross_entropy_prepare, with tensors of these shapes: weight and d_weight V_r×H, bias and
 * d_bias V_r; class_weight V, those of all classes. Labels are 0 … V-1: those of other ranks are no errors,
 * those of none are, on every rank alike. What belongs to rows is the same on all ranks. No tuned
 * configuration is looked for: give all ranks one as a string (options->configuration). Not with the variant
 * recompute. */
tw_code tw_sharded_linear_cross_entropy_prepare(tw_runtime *runtime,
                                                const tw_linear_cross_entropy_tensors *tensors,
                                                const tw_linear_cross_entropy_options *options,
                                                const tw_vocabulary_shard *shard, int32_t pass,
                                                tw_sharded_linear_cross_entropy **call, tw_error **error);
void tw_sharded_linear_cross_entropy_free(tw_sharded_linear_cross_entropy *call);

/* 0, or "", of NULL. */
int64_t tw_sharded_linear_cross_entropy_workspace_bytes(const tw_sharded_linear_cross_entropy *call);
int64_t tw_sharded_linear_cross_entropy_chunks(const tw_sharded_linear_cross_entropy *call); /* 1 or more */
int64_t tw_sharded_linear_cross_entropy_chunk_rows(const tw_sharded_linear_cross_entropy *call); /* C */
int64_t tw_sharded_linear_cross_entropy_facts(const tw_sharded_linear_cross_entropy *call);      /* F */
/* Chunks that may be at work at the same time: 1 or 2. */
int tw_sharded_linear_cross_entropy_chunk_buffers(const tw_sharded_linear_cross_entropy *call);
/* Text that is equal on all ranks where their collectives fit together: compare it once. */
const char *tw_sharded_linear_cross_entropy_schedule(const tw_sharded_linear_cross_entropy *call);
const char *tw_sharded_linear_cross_entropy_configuration(const tw_sharded_linear_cross_entropy *call);
const char *tw_sharded_linear_cross_entropy_description(const tw_sharded_linear_cross_entropy *call);
int tw_sharded_linear_cross_entropy_fits(const tw_sharded_linear_cross_entropy *call,
                                         const tw_linear_cross_entropy_tensors *tensors);

/* Enqueues a part (a tw_shard_part) of a run, with the same tensors, workspace and status each; otherwise as
 * tw_linear_cross_entropy_run. What is wrong with labels is told by TW_SHARD_BEGIN. chunk: 0 for the first
 * and the last part. stats, gathered: device memory; NULL in parts that need none. */
tw_code tw_sharded_linear_cross_entropy_run(const tw_sharded_linear_cross_entropy *call, int32_t part,
                                            int64_t chunk, const tw_linear_cross_entropy_tensors *tensors,
                                            float *stats, float *gathered, void *workspace,
                                            int64_t workspace_bytes, tw_call_status *status, void *stream,
                                            tw_error **error);

/* ---- Cross entropy over logits ---- */

typedef struct tw_cross_entropy_tensors {
  size_t struct_bytes;
  const DLTensor *logits; /* t, N×V, f32, bf16 or f16 */
  const DLTensor *label;  /* these as above */
  const DLTensor *class_weight;
  const DLTensor *grad_output;
  const DLTensor *grad_lse;
  const DLTensor *grad_entropy;
  const DLTensor *loss;
  const DLTensor *lse;
  const DLTensor *d_logits; /* out: N×V, f32 or the logits' type; may be the logits themselves */
  const DLTensor *entropy;
  const DLTensor *argmax;
  const DLTensor *correct;
  const DLTensor *monitored;
} tw_cross_entropy_tensors;
#define TW_CROSS_ENTROPY_TENSORS_INIT                                                                        \
  {                                                                                                          \
    sizeof(tw_cross_entropy_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,      \
        NULL, NULL                                                                                           \
  }

typedef struct tw_cross_entropy tw_cross_entropy;

/* Each as its namesake above. */
tw_code tw_cross_entropy_prepare(tw_runtime *runtime, const tw_cross_entropy_tensors *tensors,
                                 const tw_cross_entropy_options *options, tw_cross_entropy **call,
                                 tw_error **error);
void tw_cross_entropy_free(tw_cross_entropy *call);
int64_t tw_cross_entropy_workspace_bytes(const tw_cross_entropy *call);
const char *tw_cross_entropy_description(const tw_cross_entropy *call);
int tw_cross_entropy_fits(const tw_cross_entropy *call, const tw_cross_entropy_tensors *tensors);
tw_code tw_cross_entropy_run(const tw_cross_entropy *call, const tw_cross_entropy_tensors *tensors,
                             void *workspace, int64_t workspace_bytes, tw_call_status *status, void *stream,
                             tw_error **error);

/* ---- A saved gradient times the upstream gradient ---- */

typedef struct tw_gradient_scaling tw_gradient_scaling;

/* For results of one type: f32, bf16 or f16. */
tw_code tw_gradient_scaling_prepare(tw_runtime *runtime, DLDataType type, tw_gradient_scaling **scaling,
                                    tw_error **error);
void tw_gradient_scaling_free(tw_gradient_scaling *scaling);
/* result = scale · gradient, of matrices of one shape or of vectors. scale: one f32 in the device's memory,
 * which no host reads. The gradient is of the result's type, or f32. The result may be the gradient itself:
 * where the scale is 1, the kernel then returns at once. */
tw_code tw_gradient_scaling_run(const tw_gradient_scaling *scaling, const DLTensor *gradient,
                                const DLTensor *scale, const DLTensor *result, void *stream,
                                tw_error **error);
/* first = scale · first and second = scale · second, in one launch: two matrices of as many columns, such as
 * dX and dW. */
tw_code tw_gradient_scaling_run_pair(const tw_gradient_scaling *scaling, const DLTensor *first,
                                     const DLTensor *second, const DLTensor *scale, void *stream,
                                     tw_error **error);

/* ---- Tuning on request ---- */

typedef struct tw_tuning_progress {
  size_t struct_bytes;
  const char *step;       /* of the search */
  const char *best;       /* the fastest: this step's parameters */
  int32_t tried, planned; /* configurations; about how many there will be */
  double milliseconds;    /* of the fastest; 0: none yet */
} tw_tuning_progress;

typedef struct tw_tuning_options {
  size_t struct_bytes;
  int32_t limit;    /* configurations to try; 0: 60 */
  int32_t reserved; /* 0 */
  void (*progress)(void *user_data,
                   const tw_tuning_progress *progress); /* NULL: none. These two must not throw */
  int (*should_stop)(void *user_data); /* NULL: never; called from any thread; not 0: as soon as possible */
  void *user_data;
} tw_tuning_options;
#define TW_TUNING_OPTIONS_INIT                                                                               \
  { sizeof(tw_tuning_options), 0, 0, NULL, NULL, NULL }

/* Measures configurations of a call with its own data, all outputs of which hold some result afterwards. What
 * is found is kept in the runtime's cache folder, and calls prepared from then on use it. With `accumulate`,
 * a configuration, or the variant recompute: TW_ERROR_USER. Waits for the device. */
tw_code tw_tune_linear_cross_entropy(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors,
                                     const tw_linear_cross_entropy_options *options,
                                     const tw_tuning_options *tuning, void *stream, tw_error **error);

#ifdef __cplusplus
}
#endif

#endif
