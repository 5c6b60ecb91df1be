#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "bindings/c/tilewright.h"

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

inline void expectOk(const Outcome &outcome) { EXPECT_EQ(outcome.code, TW_OK) << outcome.message; }

inline void expectUser(const Outcome &outcome, const std::string &message) {
  EXPECT_EQ(outcome.code, TW_ERROR_USER) << outcome.message;
  EXPECT_THAT(outcome.message, testing::HasSubstr(message));
}

/// Tests that share a runtime without a cache.
class WithRuntime : public testing::Test {
protected:
  static void SetUpTestSuite() {
    tw_runtime_options options = TW_RUNTIME_OPTIONS_INIT;
    options.cache_dir = "off";
    options.threads = 2;
    expectOk(call([&](tw_error **e) { return tw_runtime_open("cpu", &options, &runtime, e); }));
  }
  static void TearDownTestSuite() { tw_runtime_close(runtime); }

  static inline tw_runtime *runtime = nullptr;
};

/// A tensor with its shape and strides, in the CPU's memory.
struct Tensor {
  DLTensor dl;
  int64_t shape[2], strides[2];
  const DLTensor *set(void *data, uint8_t code, uint8_t bits, int64_t rows, int64_t columns = 0) {
    shape[0] = rows, shape[1] = columns, strides[0] = columns ? columns : 1, strides[1] = 1;
    dl = {data, {kDLCPU, 0}, columns ? 2 : 1, {code, bits, 1}, shape, strides, 0};
    return &dl;
  }
};

/// Whether kernels that no bundle has are compiled: not by libtilewright_runtime.so, which is tested with
/// bundles (runtime_library_test.sh).
inline bool hasCompiler() { return !std::getenv("TILEWRIGHT_TEST_HAS_NO_COMPILER"); }
