// What the C functions refuse.

#include <cstddef>

#include "tests/bindings/c_api_fixture.h"

namespace {

using testing::HasSubstr;

void expectNull(const char *what, const Outcome &outcome) {
  expectUser(outcome, std::string(what) + ": expected one, found NULL");
}

TEST_F(CApi, nullsOfRuntimes) {
  expectNull("runtime", call([](tw_error **e) { return tw_runtime_open("cpu", nullptr, nullptr, e); }));
  EXPECT_EQ(tw_runtime_open("no such device", nullptr, &other, nullptr), TW_ERROR_USER);
  tw_device_info info = {};
  tw_counters counters = {};
  info.struct_bytes = sizeof info, counters.struct_bytes = sizeof counters;
  expectNull("runtime", call([&](tw_error **e) { return tw_runtime_device_info(nullptr, &info, e); }));
  expectNull("info", call([&](tw_error **e) { return tw_runtime_device_info(runtime, nullptr, e); }));
  expectNull("runtime", call([&](tw_error **e) { return tw_runtime_counters(nullptr, &counters, e); }));
  expectNull("counters", call([&](tw_error **e) { return tw_runtime_counters(runtime, nullptr, e); }));
  expectNull("count", call([](tw_error **e) { return tw_device_count(nullptr, e); }));
  expectNull("name", call([](tw_error **e) { return tw_device_name(0, nullptr, 16, e); }));
  EXPECT_STREQ(tw_error_message(nullptr), "");
  EXPECT_EQ(tw_error_driver_number(nullptr), 0);
  tw_error_free(nullptr);
  tw_runtime_close(nullptr);
}

TEST_F(CApi, nullsOfStatuses) {
  tw_call_status *status = nullptr;
  expectNull("runtime",
             call([&](tw_error **e) { return tw_call_status_create(nullptr, nullptr, &status, e); }));
  expectNull("status",
             call([&](tw_error **e) { return tw_call_status_create(runtime, nullptr, nullptr, e); }));
  expectNull("status", call([](tw_error **e) { return tw_call_status_error(nullptr, e); }));
  EXPECT_EQ(tw_call_status_is_done(nullptr), 1);
  tw_call_status_free(nullptr);
}

TEST_F(CApi, nullsOfLinearCrossEntropy) {
  const auto preparing = [&](tw_runtime *in, const tw_linear_cross_entropy_tensors *t,
                             tw_linear_cross_entropy **made) {
    return call([&](tw_error **e) {
      return tw_linear_cross_entropy_prepare(in, t, nullptr, TW_PASS_FUSED, made, e);
    });
  };
  expectNull("runtime", preparing(nullptr, &tensors, &prepared));
  expectNull("tensors", preparing(runtime, nullptr, &prepared));
  expectNull("call", preparing(runtime, &tensors, nullptr));
  expectOk(prepare());
  expectNull("call", call([&](tw_error **e) {
               return tw_linear_cross_entropy_run(nullptr, &tensors, nullptr, 0, nullptr, nullptr, e);
             }));
  expectNull("tensors", call([&](tw_error **e) {
               return tw_linear_cross_entropy_run(prepared, nullptr, nullptr, 0, nullptr, nullptr, e);
             }));
  expectUser(call([&](tw_error **e) {
               return tw_linear_cross_entropy_run(prepared, &tensors, nullptr, 1 << 20, nullptr, nullptr, e);
             }),
             "workspace");
  EXPECT_EQ(tw_linear_cross_entropy_workspace_bytes(nullptr), 0);
  EXPECT_STREQ(tw_linear_cross_entropy_configuration(nullptr), "");
  EXPECT_STREQ(tw_linear_cross_entropy_description(nullptr), "");
  EXPECT_EQ(tw_linear_cross_entropy_fits(nullptr, &tensors), 0);
  EXPECT_EQ(tw_linear_cross_entropy_fits(prepared, nullptr), 0);
  tw_linear_cross_entropy_free(nullptr);
}

TEST_F(CApi, nullsOfCrossEntropy) {
  float z[kRows * kClasses] = {};
  Tensor logits;
  logits.set(z, kDLFloat, 32, kRows, kClasses);
  tw_cross_entropy_tensors t = TW_CROSS_ENTROPY_TENSORS_INIT;
  t.logits = &logits.dl, t.label = &label.dl, t.loss = &loss.dl;
  tw_cross_entropy *made = nullptr;
  const auto preparing = [&](tw_runtime *in, const tw_cross_entropy_tensors *given, tw_cross_entropy **to) {
    return call([&](tw_error **e) { return tw_cross_entropy_prepare(in, given, nullptr, to, e); });
  };
  expectNull("runtime", preparing(nullptr, &t, &made));
  expectNull("tensors", preparing(runtime, nullptr, &made));
  expectNull("call", preparing(runtime, &t, nullptr));
  t.logits = nullptr;
  expectNull("logits", preparing(runtime, &t, &made));
  t.logits = &logits.dl;
  expectOk(preparing(runtime, &t, &made));
  const auto running = [&](const tw_cross_entropy *which, const tw_cross_entropy_tensors *given,
                           int64_t bytes) {
    return call([&](tw_error **e) {
      return tw_cross_entropy_run(which, given, nullptr, bytes, nullptr, nullptr, e);
    });
  };
  expectNull("call", running(nullptr, &t, 0));
  expectNull("tensors", running(made, nullptr, 0));
  expectUser(running(made, &t, 1 << 20), "workspace");
  EXPECT_EQ(tw_cross_entropy_workspace_bytes(nullptr), 0);
  EXPECT_STREQ(tw_cross_entropy_description(nullptr), "");
  EXPECT_EQ(tw_cross_entropy_fits(nullptr, &t), 0);
  EXPECT_EQ(tw_cross_entropy_fits(made, nullptr), 0);
  tw_cross_entropy_free(made);
  tw_cross_entropy_free(nullptr);
}

TEST_F(CApi, nullsOfGradientScaling) {
  tw_gradient_scaling *scaling = nullptr;
  const DLDataType f32 = {kDLFloat, 32, 1};
  expectNull("runtime",
             call([&](tw_error **e) { return tw_gradient_scaling_prepare(nullptr, f32, &scaling, e); }));
  expectNull("scaling",
             call([&](tw_error **e) { return tw_gradient_scaling_prepare(runtime, f32, nullptr, e); }));
  expectOk(call([&](tw_error **e) { return tw_gradient_scaling_prepare(runtime, f32, &scaling, e); }));
  const auto running = [&](const tw_gradient_scaling *which, const DLTensor *gradient, const DLTensor *scale,
                           const DLTensor *result) {
    return call(
        [&](tw_error **e) { return tw_gradient_scaling_run(which, gradient, scale, result, nullptr, e); });
  };
  expectNull("scaling", running(nullptr, &hidden.dl, &loss.dl, &hidden.dl));
  expectNull("gradient", running(scaling, nullptr, &loss.dl, &hidden.dl));
  expectNull("scale", running(scaling, &hidden.dl, nullptr, &hidden.dl));
  expectNull("result", running(scaling, &hidden.dl, &loss.dl, nullptr));
  const auto runningTwo = [&](const tw_gradient_scaling *which, const DLTensor *first, const DLTensor *second,
                              const DLTensor *scale) {
    return call(
        [&](tw_error **e) { return tw_gradient_scaling_run_pair(which, first, second, scale, nullptr, e); });
  };
  expectNull("scaling", runningTwo(nullptr, &hidden.dl, &weight.dl, &loss.dl));
  expectNull("first", runningTwo(scaling, nullptr, &weight.dl, &loss.dl));
  expectNull("second", runningTwo(scaling, &hidden.dl, nullptr, &loss.dl));
  expectNull("scale", runningTwo(scaling, &hidden.dl, &weight.dl, nullptr));
  tw_gradient_scaling_free(scaling);
  tw_gradient_scaling_free(nullptr);
}

TEST_F(CApi, nullsOfKernelsAndTuning) {
  tw_kernel *kernel = nullptr;
  expectNull("runtime",
             call([&](tw_error **e) { return tw_kernel_find(nullptr, "k", nullptr, &kernel, e); }));
  expectNull("name",
             call([&](tw_error **e) { return tw_kernel_find(runtime, nullptr, nullptr, &kernel, e); }));
  expectNull("kernel", call([&](tw_error **e) { return tw_kernel_find(runtime, "k", nullptr, nullptr, e); }));
  tw_kernel_argument argument = {};
  expectNull("kernel",
             call([&](tw_error **e) { return tw_kernel_launch(nullptr, &argument, 1, nullptr, e); }));
  EXPECT_EQ(tw_kernel_parameter_count(nullptr), 0u);
  EXPECT_EQ(tw_kernel_parameter_name(nullptr, 0), nullptr);
  tw_kernel_free(nullptr);
  const auto tuning = [&](tw_runtime *in, const tw_linear_cross_entropy_tensors *t) {
    return call(
        [&](tw_error **e) { return tw_tune_linear_cross_entropy(in, t, nullptr, nullptr, nullptr, e); });
  };
  expectNull("runtime", tuning(nullptr, &tensors));
  expectNull("tensors", tuning(runtime, nullptr));
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

} // namespace
