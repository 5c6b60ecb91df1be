#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "bindings/c/tilewright.h"

namespace {

using testing::HasSubstr;

/// What a call returned.
struct Outcome {
  tw_code code;
  std::string message;
};

template <typename Function> Outcome call(const Function &function) {
  auto *error = reinterpret_cast<tw_error *>(1);
  const tw_code code = function(&error);
  Outcome outcome = {code, tw_error_message(error)};
  EXPECT_EQ(tw_error_code(error), code);
  EXPECT_EQ(code == TW_OK, error == nullptr);
  tw_error_free(error);
  return outcome;
}

void expectOk(const Outcome &outcome) { EXPECT_EQ(outcome.code, TW_OK) << outcome.message; }

void expectUser(const Outcome &outcome, const std::string &message) {
  EXPECT_EQ(outcome.code, TW_ERROR_USER) << outcome.message;
  EXPECT_THAT(outcome.message, HasSubstr(message));
}

constexpr int64_t kRows = 5, kHidden = 8, kClasses = 13;

struct Tensor {
  DLTensor dl;
  int64_t shape[2], strides[2];
  void set(void *data, uint8_t code, uint8_t bits, int64_t rows, int64_t columns = 0) {
    shape[0] = rows, shape[1] = columns, strides[0] = columns ? columns : 1, strides[1] = 1;
    dl = {data, {kDLCPU, 0}, columns ? 2 : 1, {code, bits, 1}, shape, strides, 0};
  }
};

/// A runtime without a cache, and a call that is right; each test spoils something.
class CApi : public testing::Test {
protected:
  static void SetUpTestSuite() {
    tw_runtime_options options = TW_RUNTIME_OPTIONS_INIT;
    options.cache_dir = "off";
    options.threads = 2;
    expectOk(call([&](tw_error **e) { return tw_runtime_open("cpu", &options, &runtime, e); }));
  }
  static void TearDownTestSuite() { tw_runtime_close(runtime); }

  void SetUp() override {
    for (int64_t i = 0; i < kRows; ++i)
      y[i] = i;
    hidden.set(x, kDLFloat, 32, kRows, kHidden);
    weight.set(w, kDLFloat, 32, kClasses, kHidden);
    label.set(y, kDLInt, 64, kRows);
    loss.set(l, kDLFloat, 32, 1);
    dHidden.set(dx, kDLFloat, 32, kRows, kHidden);
    tensors.hidden = &hidden.dl, tensors.weight = &weight.dl, tensors.label = &label.dl;
    tensors.loss = &loss.dl, tensors.d_hidden = &dHidden.dl;
  }
  void TearDown() override {
    tw_linear_cross_entropy_free(prepared);
    std::free(workspace);
  }

  Outcome prepare(int32_t pass = TW_PASS_FUSED) {
    tw_linear_cross_entropy_free(prepared);
    return call([&](tw_error **e) {
      return tw_linear_cross_entropy_prepare(runtime, &tensors, &options, pass, &prepared, e);
    });
  }
  Outcome run(int64_t less = 0) {
    const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(prepared);
    std::free(workspace);
    workspace = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    return call([&](tw_error **e) {
      return tw_linear_cross_entropy_run(prepared, &tensors, workspace, bytes - less, nullptr, nullptr, e);
    });
  }

  static tw_runtime *runtime;
  tw_runtime *other = nullptr; ///< of calls that fail
  float x[kRows * 3 * kHidden] = {}, w[kClasses * kHidden] = {}, l[kRows] = {}, dx[kRows * kHidden];
  int64_t y[kRows];
  Tensor hidden, weight, label, loss, dHidden;
  tw_linear_cross_entropy_tensors tensors = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  tw_linear_cross_entropy *prepared = nullptr;
  void *workspace = nullptr;
};
tw_runtime *CApi::runtime = nullptr;

/// Whether kernels that no bundle has are compiled: not by libtilewright_runtime.so, which is tested with
/// bundles (runtime_library_test.sh).
bool hasCompiler() { return !std::getenv("TILEWRIGHT_TEST_HAS_NO_COMPILER"); }

TEST_F(CApi, runs) {
  expectOk(prepare());
  expectOk(run());
  EXPECT_NEAR(l[0], std::log(static_cast<float>(kClasses)), 1e-6);
  EXPECT_EQ(tw_linear_cross_entropy_fits(prepared, &tensors), 1);
  EXPECT_NE(std::string(tw_linear_cross_entropy_description(prepared)), "");
}

TEST_F(CApi, aConfigurationCanBePinned) {
  expectOk(prepare());
  const std::string text = tw_linear_cross_entropy_configuration(prepared);
  ASSERT_NE(text, "");
  options.configuration = text.c_str();
  expectOk(prepare());
  EXPECT_EQ(tw_linear_cross_entropy_configuration(prepared), text);
  options.configuration = "nonsense";
  EXPECT_EQ(prepare().code, TW_ERROR_USER);
}

/// Other tiles than planned ones: runtime_library_test.sh has a bundle of this configuration.
TEST_F(CApi, aTunedConfigurationCanBePinned) {
  const std::string text = "variant=whole chunk_rows=8 forward_rows=16 forward_columns=64 forward_step=0 "
                           "dx_rows=16 dx_columns=64 dx_step=0 dw_rows=32 dw_columns=64 dw_step=0";
  options.configuration = text.c_str();
  expectOk(prepare());
  EXPECT_EQ(text.rfind(tw_linear_cross_entropy_configuration(prepared), 0), 0u);
  expectOk(run());
  EXPECT_NEAR(l[0], std::log(static_cast<float>(kClasses)), 1e-6);
}

/// Σ g_i lse_i and Σ g_i entropy_i have gradients of their own, in the fused call and from a saved lse.
TEST_F(CApi, gradientsOfLseAndEntropy) {
  float g[kRows], savedLse[kRows];
  for (int64_t i = 0; i < kRows; ++i)
    g[i] = 1, savedLse[i] = std::log(static_cast<float>(kClasses));
  for (int64_t c = 0; c < kClasses; ++c)
    w[c * kHidden] = 1; // with x = 0 all probabilities are 1 / V: d(Σ lse)/dx_i is the mean of w's rows
  Tensor gradient, saved;
  gradient.set(g, kDLFloat, 32, kRows);
  saved.set(savedLse, kDLFloat, 32, kRows);
  for (const bool ofEntropy : {false, true}) {
    tensors.grad_lse = &gradient.dl;
    tensors.grad_entropy = ofEntropy ? &gradient.dl : nullptr; // equal logits: it is largest there
    tensors.loss = &loss.dl, tensors.saved_lse = nullptr;
    expectOk(prepare());
    expectOk(run());
    const float fused = dx[0];
    EXPECT_NEAR(fused, 1, 1e-5) << ofEntropy; // all rows of w are equal: the loss's own gradient is 0
    dx[0] = 0;
    tensors.loss = nullptr, tensors.saved_lse = &saved.dl;
    expectOk(prepare(TW_PASS_BACKWARD));
    expectOk(run());
    EXPECT_NEAR(dx[0], fused, 1e-5) << ofEntropy;
  }
}

TEST_F(CApi, versions) {
  EXPECT_STREQ(tw_version(), TW_VERSION);
  EXPECT_EQ(tw_abi_version(), TW_ABI_VERSION);
}

TEST_F(CApi, nullPointers) {
  expectUser(call([](tw_error **e) { return tw_runtime_open("cpu", nullptr, nullptr, e); }), "runtime");
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_prepare(nullptr, &tensors, nullptr, TW_PASS_FUSED, &prepared,
                                                      e);
             }),
             "runtime: expected one, found NULL");
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_prepare(runtime, nullptr, nullptr, TW_PASS_FUSED, &prepared, e);
             }),
             "tensors: expected one, found NULL");
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_prepare(runtime, &tensors, nullptr, TW_PASS_FUSED, nullptr, e);
             }),
             "call: expected one, found NULL");
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_run(nullptr, &tensors, nullptr, 0, nullptr, nullptr, e);
             }),
             "call: expected one, found NULL");
  expectUser(call([&](tw_error **e) {
               return tw_gradient_scaling_run(nullptr, &hidden.dl, &loss.dl, &hidden.dl, nullptr, e);
             }),
             "scaling");
  expectUser(call([](tw_error **e) { return tw_call_status_create(nullptr, nullptr, nullptr, e); }),
             "runtime");
  expectUser(call([](tw_error **e) { return tw_device_count(nullptr, e); }), "count");
  EXPECT_EQ(tw_linear_cross_entropy_workspace_bytes(nullptr), 0);
  EXPECT_EQ(tw_linear_cross_entropy_fits(nullptr, &tensors), 0);
  EXPECT_EQ(tw_call_status_is_done(nullptr), 1);
  EXPECT_EQ(tw_runtime_open("no such device", nullptr, &other, nullptr), TW_ERROR_USER);
  EXPECT_STREQ(tw_error_message(nullptr), "");
  tw_error_free(nullptr);
  tw_runtime_close(nullptr);
  tw_linear_cross_entropy_free(nullptr);
  tw_cross_entropy_free(nullptr);
  tw_gradient_scaling_free(nullptr);
  tw_call_status_free(nullptr);
}

TEST_F(CApi, absentTensors) {
  tensors.hidden = nullptr;
  expectUser(prepare(), "hidden: expected one, found NULL");
}

TEST_F(CApi, structSizes) {
  tensors.struct_bytes -= 8;
  expectUser(prepare(), "tensors: expected struct_bytes");
  tensors.struct_bytes += 16;
  expectUser(prepare(), "tensors: expected struct_bytes");
  tensors.struct_bytes -= 8;
  options.struct_bytes = 0;
  expectUser(prepare(), "options: expected struct_bytes");
  tw_runtime_options open = TW_RUNTIME_OPTIONS_INIT;
  open.cache_dir = "off";
  open.struct_bytes = offsetof(tw_runtime_options, bundles); // an earlier header's
  expectOk(call([&](tw_error **e) { return tw_runtime_open("cpu", &open, &other, e); }));
  tw_counters counters = {};
  counters.struct_bytes = offsetof(tw_counters, from_bundles);
  counters.from_bundles = 77;
  expectOk(call([&](tw_error **e) { return tw_runtime_counters(other, &counters, e); }));
  EXPECT_EQ(counters.from_bundles, 77);
  tw_runtime_close(other);
  open.struct_bytes = 1;
  tw_runtime *none = nullptr;
  expectUser(call([&](tw_error **e) { return tw_runtime_open("cpu", &open, &none, e); }), "struct_bytes");
}

TEST_F(CApi, stridesThatDoNotFit) {
  hidden.strides[0] = 1, hidden.strides[1] = kRows; // transposed
  expectUser(prepare(), "hidden: expected rows whose elements are adjacent, found a stride of 5");
  hidden.strides[0] = kHidden - 1, hidden.strides[1] = 1;
  expectUser(prepare(), "hidden: expected rows at least 8 elements apart, found a stride of 7");
  hidden.strides[0] = -kHidden;
  expectUser(prepare(), "hidden: expected rows at least 8 elements apart");
  hidden.strides[0] = 0;
  expectUser(prepare(), "hidden: expected rows at least 8 elements apart");
  hidden.strides[0] = INT64_MAX / 2;
  expectUser(prepare(), "hidden: expected less than 2^63 bytes");
  hidden.strides[0] = 3 * kHidden;
  label.strides[0] = 2;
  expectUser(prepare(), "label: expected adjacent elements, found a stride of 2");
  label.strides[0] = 1;
  expectOk(prepare());
  hidden.strides[0] = kHidden;
  expectUser(run(), "hidden: the call was prepared for 5x8 with a row stride of 24");
}

TEST_F(CApi, tensorsThatDoNotFit) {
  hidden.dl.dtype.lanes = 2;
  expectUser(prepare(), "hidden: expected a type of f32");
  hidden.dl.dtype.lanes = 1;
  hidden.dl.device.device_type = kDLCUDA;
  expectUser(prepare(), "hidden: expected memory of the runtime's device, the CPU");
  hidden.dl.device.device_type = kDLCPU;
  hidden.dl.ndim = 3;
  expectUser(prepare(), "hidden: expected 2 dimensions, found 3");
  hidden.dl.ndim = 2;
  hidden.shape[0] = -1;
  expectUser(prepare(), "hidden: expected sizes of 0 or more, found -1");
  hidden.shape[0] = kRows;
  hidden.dl.byte_offset = 2;
  expectUser(prepare(), "hidden: expected an address that is a multiple of 4 bytes");
  hidden.dl.byte_offset = 0;
  hidden.dl.data = nullptr;
  expectUser(prepare(), "hidden: expected memory, found a null address");
  hidden.dl.data = x;
  hidden.dl.shape = nullptr;
  expectUser(prepare(), "hidden: expected a shape, found NULL");
  hidden.dl.shape = hidden.shape;
  hidden.shape[1] = kHidden - 1;
  EXPECT_EQ(prepare().code, TW_ERROR_USER);
}

TEST_F(CApi, byteOffsetIsAdded) {
  std::vector<int64_t> more(kRows + 3, 999);
  for (int64_t i = 0; i < kRows; ++i)
    more[3 + i] = i;
  label.dl.data = more.data();
  label.dl.byte_offset = 3 * sizeof(int64_t);
  expectOk(prepare());
  expectOk(run());
}

TEST_F(CApi, optionsThatDoNotFit) {
  options.reduction = 7;
  expectUser(prepare(), "reduction");
  options.reduction = TW_REDUCTION_MEAN;
  options.variant = -1;
  expectUser(prepare(), "variant");
  options.variant = TW_VARIANT_AUTOMATIC;
  options.workspace_limit = -1;
  expectUser(prepare(), "workspace_limit");
  options.workspace_limit = 0;
  options.label_smoothing = 2;
  EXPECT_EQ(prepare().code, TW_ERROR_USER);
  options.label_smoothing = 0;
  expectUser(prepare(9), "pass");
}

TEST_F(CApi, workspaceTooSmall) {
  expectOk(prepare());
  expectUser(run(1), "workspace");
}

TEST_F(CApi, labelsOutOfRange) {
  expectOk(prepare());
  y[2] = kClasses;
  expectUser(run(), "13");
  tw_call_status *status = nullptr;
  expectOk(call([&](tw_error **e) { return tw_call_status_create(runtime, nullptr, &status, e); }));
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(prepared);
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_run(prepared, &tensors, workspace, bytes, status, nullptr, e);
             }),
             "13");
  EXPECT_EQ(tw_call_status_is_done(status), 1);
  expectUser(call([&](tw_error **e) { return tw_call_status_error(status, e); }), "13");
  y[2] = 2;
  expectOk(call([&](tw_error **e) {
    return tw_linear_cross_entropy_run(prepared, &tensors, workspace, bytes, status, nullptr, e);
  }));
  expectOk(call([&](tw_error **e) { return tw_call_status_error(status, e); }));
  tw_call_status_free(status);
}

/// A workspace may hold an earlier run's report: here of a class weight, in one that has none.
TEST_F(CApi, aReportIsNotFoundInLaterRuns) {
  float weights[kClasses] = {1, -1};
  Tensor classWeight;
  classWeight.set(weights, kDLFloat, 32, kClasses);
  tensors.class_weight = &classWeight.dl;
  expectOk(prepare());
  expectUser(run(), "class 1");
  void *const used = workspace;
  tensors.class_weight = nullptr;
  expectOk(prepare());
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(prepared);
  expectOk(call([&](tw_error **e) {
    return tw_linear_cross_entropy_run(prepared, &tensors, used, bytes, nullptr, nullptr, e);
  }));
}

TEST_F(CApi, noRows) {
  hidden.shape[0] = label.shape[0] = dHidden.shape[0] = 0;
  hidden.dl.data = label.dl.data = dHidden.dl.data = nullptr;
  expectOk(prepare());
  expectOk(run());
  EXPECT_EQ(l[0], 0);
}

TEST_F(CApi, crossEntropyOverLogits) {
  std::vector<float> z(kRows * kClasses, 1.0f);
  Tensor logits;
  logits.set(z.data(), kDLFloat, 32, kRows, kClasses);
  tw_cross_entropy_tensors t = TW_CROSS_ENTROPY_TENSORS_INIT;
  t.logits = &logits.dl, t.label = &label.dl, t.loss = &loss.dl, t.d_logits = &logits.dl;
  tw_cross_entropy *made = nullptr;
  expectOk(call([&](tw_error **e) { return tw_cross_entropy_prepare(runtime, &t, nullptr, &made, e); }));
  const int64_t bytes = tw_cross_entropy_workspace_bytes(made);
  workspace = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  expectOk(call(
      [&](tw_error **e) { return tw_cross_entropy_run(made, &t, workspace, bytes, nullptr, nullptr, e); }));
  EXPECT_NEAR(l[0], std::log(static_cast<float>(kClasses)), 1e-6);
  EXPECT_NEAR(z[1], 1.0 / kClasses / kRows, 1e-6);
  logits.strides[1] = 2;
  expectUser(call([&](tw_error **e) {
               return tw_cross_entropy_run(made, &t, workspace, bytes, nullptr, nullptr, e);
             }),
             "logits");
  tw_cross_entropy_free(made);
}

TEST_F(CApi, kernelsOfBundles) {
  tw_kernel *kernel = nullptr;
  const auto find = [&](const char *name, const char *specialisation) {
    return call([&](tw_error **e) { return tw_kernel_find(runtime, name, specialisation, &kernel, e); });
  };
  expectUser(find(nullptr, nullptr), "name: expected one, found NULL");
  if (!std::getenv("TILEWRIGHT_BUNDLES")) {
    expectUser(find("row_softmax", nullptr), "opened without bundles");
    return;
  }
  expectUser(find("no_such_kernel", nullptr), "kernel 'no_such_kernel' (specialisation 'any'");
  expectUser(find("row_softmax", "f64"), "specialisation 'f64'");
  expectOk(find("row_softmax", nullptr));
  EXPECT_EQ(tw_kernel_parameter_count(kernel), 2u);
  EXPECT_STREQ(tw_kernel_parameter_name(kernel, 1), "y");
  EXPECT_EQ(tw_kernel_parameter_name(kernel, 2), nullptr);
  tw_kernel_argument arguments[2] = {};
  arguments[0].tensor = &hidden.dl, arguments[1].tensor = &dHidden.dl;
  const auto launch = [&](std::size_t count) {
    return call([&](tw_error **e) { return tw_kernel_launch(kernel, arguments, count, nullptr, e); });
  };
  expectOk(launch(2));
  EXPECT_NEAR(dx[3], 1.0 / kHidden, 1e-6);
  expectUser(launch(1), "argument_count: expected 2, found 1");
  arguments[1].tensor = nullptr;
  expectUser(launch(2), "y: expected one, found NULL");
  arguments[1].tensor = &label.dl;
  expectUser(launch(2), "y");
  tw_kernel_free(kernel);
  tw_kernel_free(nullptr);
}

TEST_F(CApi, bundlesThatCannotBeOpened) {
  tw_runtime_options open = TW_RUNTIME_OPTIONS_INIT;
  const char *paths[] = {"/no such file", nullptr};
  open.bundles = paths;
  open.bundle_count = 1;
  const auto opened = [&] {
    return call([&](tw_error **e) { return tw_runtime_open("cpu", &open, &other, e); });
  };
  expectUser(opened(), "bundle /no such file: cannot open");
  open.bundle_count = 2;
  expectUser(opened(), "bundles: expected one, found NULL");
}

// The library without a compiler says which kernel it lacks, and what it has.
TEST_F(CApi, kernelsThatNoBundleHas) {
  if (hasCompiler()) GTEST_SKIP() << "it compiles them";
  options.z_loss = 0.5f;
  expectUser(prepare(), "is in no bundle, and this library cannot compile it: ");
  options.z_loss = 0;
  expectOk(prepare());
  tw_counters counters = {};
  counters.struct_bytes = sizeof counters;
  expectOk(call([&](tw_error **e) { return tw_runtime_counters(runtime, &counters, e); }));
  EXPECT_EQ(counters.compiled, 0);
  EXPECT_GT(counters.from_bundles, 0);
}

TEST_F(CApi, devices) {
  int count = 0;
  char name[16];
  expectOk(call([&](tw_error **e) { return tw_device_count(&count, e); }));
  EXPECT_GE(count, 1);
  expectOk(call([&](tw_error **e) { return tw_device_name(0, name, sizeof name, e); }));
  EXPECT_STREQ(name, "cpu");
  expectUser(call([&](tw_error **e) { return tw_device_name(0, name, 3, e); }), "room for 4");
  expectUser(call([&](tw_error **e) { return tw_device_name(count, name, sizeof name, e); }), "index");
  expectUser(call([&](tw_error **e) { return tw_runtime_open("tpu", nullptr, &other, e); }), "not known");
  EXPECT_EQ(call([&](tw_error **e) { return tw_runtime_open("cuda:4095", nullptr, &other, e); }).code,
            TW_ERROR_UNSUPPORTED_DEVICE);
  tw_device_info info = {};
  expectUser(call([&](tw_error **e) { return tw_runtime_device_info(runtime, &info, e); }), "struct_bytes");
  info.struct_bytes = sizeof info;
  expectOk(call([&](tw_error **e) { return tw_runtime_device_info(runtime, &info, e); }));
  EXPECT_EQ(info.device_type, kDLCPU);
  EXPECT_EQ(info.units, 2);
}

TEST_F(CApi, messagesGoToTheCallback) {
  if (!hasCompiler()) GTEST_SKIP() << "what it waits for is said by the compiler";
  std::vector<std::string> lines;
  const auto take = [](void *user, tw_log_level, const char *message) {
    static_cast<std::vector<std::string> *>(user)->push_back(message);
  };
  expectOk(call([&](tw_error **e) { return tw_set_log(take, &lines, TW_LOG_INFO, e); }));
  tw_gradient_scaling *scaling = nullptr;
  expectOk(call([&](tw_error **e) {
    return tw_gradient_scaling_prepare(runtime, {kDLFloat, 16, 1}, &scaling, e);
  }));
  tw_gradient_scaling_free(scaling);
  expectOk(call([&](tw_error **e) { return tw_set_log(nullptr, nullptr, TW_LOG_WARNING, e); }));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("compiled")));
  expectUser(call([&](tw_error **e) { return tw_set_log(nullptr, nullptr, 9, e); }), "level");
}

TEST_F(CApi, aForkedCopyGetsAnErrorAndEnds) {
  expectOk(prepare());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); // a call that hangs fails the test
    tw_error *error = nullptr;
    bool right = tw_linear_cross_entropy_run(prepared, &tensors, nullptr, 0, nullptr, nullptr, &error) ==
                 TW_ERROR_USER;
    right = right && std::strstr(tw_error_message(error), "forked");
    right = right && tw_runtime_open("cpu", nullptr, &other, nullptr) == TW_ERROR_USER && !other;
    tw_linear_cross_entropy_free(prepared);
    tw_runtime_close(runtime);
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  expectOk(run());
}

// Locks of the compiler may be held in the copy, by threads that are not there.
TEST_F(CApi, aForkWhileAnotherThreadCompiles) {
  if (!hasCompiler()) GTEST_SKIP() << "nothing is compiled";
  options.z_loss = 0.25f; // kernels that no other test has
  options.softcap = 30;
  std::atomic<bool> isDone{false};
  std::thread compiling([&] {
    expectOk(prepare());
    isDone = true;
  });
  int copies = 0;
  do {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      tw_linear_cross_entropy *none = nullptr;
      tw_error *error = nullptr;
      const bool right = tw_linear_cross_entropy_prepare(runtime, &tensors, &options, TW_PASS_FUSED, &none,
                                                         &error) == TW_ERROR_USER &&
                         std::strstr(tw_error_message(error), "forked");
      tw_error_free(error);
      _exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    ++copies;
  } while (!isDone);
  compiling.join();
  EXPECT_GE(copies, 2);
  expectOk(run());
}

TEST_F(CApi, tuningKeepsWhatItFinds) {
  if (!hasCompiler()) GTEST_SKIP() << "tuning compiles";
  tensors.d_hidden = nullptr;
  tw_tuning_options tuning = TW_TUNING_OPTIONS_INIT;
  tuning.limit = 2;
  int asked = 0;
  tuning.user_data = &asked;
  tuning.progress = [](void *user, const tw_tuning_progress *progress) {
    if (progress->struct_bytes == sizeof *progress) ++*static_cast<int *>(user);
  };
  expectOk(call([&](tw_error **e) {
    return tw_tune_linear_cross_entropy(runtime, &tensors, nullptr, &tuning, nullptr, e);
  }));
  EXPECT_GT(asked, 0);
  options.configuration = "anything";
  expectUser(call([&](tw_error **e) {
               return tw_tune_linear_cross_entropy(runtime, &tensors, &options, &tuning, nullptr, e);
             }),
             "configuration");
}

} // namespace
