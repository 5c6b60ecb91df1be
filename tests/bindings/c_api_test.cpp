// What the C functions do.

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/bindings/c_api_fixture.h"

namespace {

using testing::HasSubstr;

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

/// The environment is read when a runtime is opened, and not when a call is prepared.
TEST_F(CApi, theEnvironmentIsReadOnce) {
  const char *names[] = {"TILEWRIGHT_DUMP", "TILEWRIGHT_LOG", "TILEWRIGHT_AUTOTUNE", "TILEWRIGHT_THREADS",
                         "TILEWRIGHT_DEVICE"};
  if (hasCompiler()) options.softcap = 20; // kernels that no other test has
  for (const char *name : names)
    setenv(name, "nonsense", 1);
  expectOk(prepare());
  for (const char *name : names)
    unsetenv(name);
  expectOk(run());
}

TEST_F(CApi, versions) {
  EXPECT_STREQ(tw_version(), TW_VERSION);
  EXPECT_EQ(tw_abi_version(), TW_ABI_VERSION);
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
  expectUser(call([&](tw_error **e) { return tw_kernel_launch(kernel, nullptr, 2, nullptr, e); }),
             "arguments: expected one, found NULL");
  DLTensor shifted = hidden.dl;
  shifted.byte_offset += sizeof(float);
  arguments[1].tensor = &shifted;
  expectUser(launch(2), "parameter 'y' overlaps 'x'");
  arguments[1].tensor = nullptr;
  expectUser(launch(2), "y: expected one, found NULL");
  arguments[1].tensor = &label.dl;
  expectUser(launch(2), "y");
  tw_kernel_free(kernel);
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
