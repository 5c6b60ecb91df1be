// Outputs one by one, and gradients of another type than the matrices': each choice has kernels of its own.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "tests/bindings/c_api_fixture.h"

namespace {

/// A call with a bias, and memory for its three gradients.
class ChosenGradients : public CApi {
protected:
  void SetUp() override {
    CApi::SetUp();
    for (int64_t i = 0; i < kRows * kHidden; ++i)
      x[i] = static_cast<float>(i % 7) / 7;
    for (int64_t i = 0; i < kClasses * kHidden; ++i)
      w[i] = static_cast<float>(i % 5) / 5;
    for (int64_t i = 0; i < kClasses; ++i)
      b[i] = static_cast<float>(i % 3) / 3;
    tensors.bias = bias.set(b, kDLFloat, 32, kClasses);
    dHidden.set(dx, kDLFloat, 32, kRows, kHidden);
    dWeight.set(dw, kDLFloat, 32, kClasses, kHidden);
    dBias.set(db, kDLFloat, 32, kClasses);
    lse.set(savedLse, kDLFloat, 32, kRows);
  }
  /// The gradients that a call with some of them makes; 0 in place of the others.
  std::vector<float> gradients(bool hidden, bool weight, bool bias, int32_t pass) {
    std::fill(std::begin(dx), std::end(dx), 0.0f);
    std::fill(std::begin(dw), std::end(dw), 0.0f);
    std::fill(std::begin(db), std::end(db), 0.0f);
    tensors.d_hidden = hidden ? &dHidden.dl : nullptr;
    tensors.d_weight = weight ? &dWeight.dl : nullptr;
    tensors.d_bias = bias ? &dBias.dl : nullptr;
    const bool isBackward = pass == TW_PASS_BACKWARD;
    tensors.loss = isBackward ? nullptr : &loss.dl;
    tensors.lse = isBackward ? nullptr : &lse.dl;
    tensors.saved_lse = isBackward ? &lse.dl : nullptr;
    expectOk(prepare(pass));
    expectOk(run());
    std::vector<float> all(dx, dx + kRows * kHidden);
    all.insert(all.end(), dw, dw + kClasses * kHidden);
    all.insert(all.end(), db, db + kClasses);
    return all;
  }

  float b[kClasses], dw[kClasses * kHidden], db[kClasses], savedLse[kRows];
  Tensor bias, dWeight, dBias, lse;
};

TEST_F(ChosenGradients, eachIsWhatItIsBesideTheOthers) {
  constexpr int64_t kEnds[] = {kRows * kHidden, (kRows + kClasses) * kHidden,
                               (kRows + kClasses) * kHidden + kClasses};
  const std::vector<float> all = gradients(true, true, true, TW_PASS_FUSED);
  for (const int32_t pass : {TW_PASS_FUSED, TW_PASS_BACKWARD})
    for (int choice = 1; choice < 8; ++choice) {
      const bool wanted[] = {(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0};
      const std::vector<float> found = gradients(wanted[0], wanted[1], wanted[2], pass);
      for (int64_t i = 0, which = 0; i < kEnds[2]; ++i) {
        which += i == kEnds[which];
        EXPECT_NEAR(found[i], wanted[which] ? all[i] : 0, 1e-6) << choice << " " << i;
      }
    }
}

/// With hidden states of 0 all probabilities are 1 / V.
TEST_F(CApi, rowsOutputsOneByOne) {
  float entropies[kRows];
  int32_t classes[kRows], isCorrect[kRows];
  Tensor entropy, argmax, correct;
  entropy.set(entropies, kDLFloat, 32, kRows);
  argmax.set(classes, kDLInt, 32, kRows);
  correct.set(isCorrect, kDLInt, 32, kRows);
  const auto expectRun = [&] {
    expectOk(prepare());
    expectOk(run());
  };
  tensors.entropy = &entropy.dl;
  expectRun();
  tensors.entropy = nullptr, tensors.argmax = &argmax.dl;
  expectRun();
  tensors.argmax = nullptr, tensors.correct = &correct.dl;
  expectRun();
  for (int64_t i = 0; i < kRows; ++i) {
    EXPECT_NEAR(entropies[i], std::log(static_cast<float>(kClasses)), 1e-6);
    EXPECT_EQ(classes[i], 0);
    EXPECT_EQ(isCorrect[i], y[i] == 0 ? 1 : 0);
  }
}

TEST_F(CApi, f32GradientsOfBf16Matrices) {
  std::vector<uint16_t> narrowX(kRows * kHidden), narrowW(kClasses * kHidden, 0x3f80); // 0 and 1
  std::vector<float> dw(kClasses * kHidden);
  Tensor dWeight;
  hidden.set(narrowX.data(), kDLBfloat, 16, kRows, kHidden);
  weight.set(narrowW.data(), kDLBfloat, 16, kClasses, kHidden);
  tensors.d_weight = dWeight.set(dw.data(), kDLFloat, 32, kClasses, kHidden);
  expectOk(prepare());
  expectOk(run());
  EXPECT_NEAR(l[0], std::log(static_cast<float>(kClasses)), 1e-6);
  EXPECT_NEAR(dx[0], 0, 1e-6); // all rows of W are equal
  EXPECT_NEAR(dw[0], 0, 1e-6);
}

} // namespace
