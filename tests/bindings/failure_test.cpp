#include "bindings/c/failure.h"

#include <gtest/gtest.h>

namespace {

using namespace tilewright;

TEST(Failure, CodesOfStatuses) {
  EXPECT_EQ(c::codeOf({}), TW_OK);
  EXPECT_EQ(c::codeOf(userError("")), TW_ERROR_USER);
  EXPECT_EQ(c::codeOf(memoryError("")), TW_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(c::codeOf(noDeviceError("")), TW_ERROR_UNSUPPORTED_DEVICE);
  EXPECT_EQ(c::codeOf(deviceError("")), TW_ERROR_DEVICE_FAULT);
  EXPECT_EQ(c::codeOf(runtimeError("")), TW_ERROR_INPUT_OUTPUT);
  EXPECT_EQ(c::codeOf(compileError("")), TW_ERROR_INTERNAL);
  EXPECT_EQ(c::codeOf(internalError("")), TW_ERROR_INTERNAL);
}

/// Texts are for people: what they say changes no code.
TEST(Failure, NothingIsReadFromAMessage) {
  for (const char *text : {"not enough memory: 1 bytes", "device 'cuda': no", "kernel 'k': no",
                           "cuStreamSynchronize failed with CUDA error 700, CUDA_ERROR_ILLEGAL_ADDRESS"}) {
    EXPECT_EQ(c::codeOf(userError(text)), TW_ERROR_USER);
    EXPECT_EQ(c::codeOf(runtimeError(text)), TW_ERROR_INPUT_OUTPUT);
  }
}

TEST(Failure, WhatACallerGets) {
  tw_error *error = nullptr;
  const Status fault = Status(StatusKind::device, "launch failed", 700).in("kernel 'k'");
  EXPECT_EQ(c::guarded(&error, [&] { return fault; }), TW_ERROR_DEVICE_FAULT);
  EXPECT_EQ(tw_error_code(error), TW_ERROR_DEVICE_FAULT);
  EXPECT_EQ(tw_error_driver_number(error), 700);
  EXPECT_STREQ(tw_error_message(error), "kernel 'k': launch failed");
  tw_error_free(error);
  EXPECT_EQ(c::guarded(&error, []() -> Status { throw std::bad_alloc(); }), TW_ERROR_OUT_OF_MEMORY);
  EXPECT_STREQ(tw_error_message(error), "not enough memory on the host");
  tw_error_free(error);
  EXPECT_EQ(c::guarded(&error, []() -> Status { throw std::runtime_error("thrown"); }), TW_ERROR_INTERNAL);
  EXPECT_STREQ(tw_error_message(error), "thrown");
  tw_error_free(error);
}

} // namespace
