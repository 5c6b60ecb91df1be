#pragma once

#include <cstdlib>

#include "tests/bindings/c_calls.h"

constexpr int64_t kRows = 5, kHidden = 8, kClasses = 13;

/// A call that is right; each test spoils something.
class CApi : public WithRuntime {
protected:
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

  tw_runtime *other = nullptr; ///< of calls that fail
  float x[kRows * 3 * kHidden] = {}, w[kClasses * kHidden] = {}, l[kRows] = {}, dx[kRows * kHidden];
  int64_t y[kRows];
  Tensor hidden, weight, label, loss, dHidden;
  tw_linear_cross_entropy_tensors tensors = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  tw_linear_cross_entropy *prepared = nullptr;
  void *workspace = nullptr;
};
