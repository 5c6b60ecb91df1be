#include <gtest/gtest.h>

#include <cmath>

#include "kernels/jit.h"
#include "tools/bench/accuracy.h"
#include "tools/tiny_model/corpus.h"
#include "tools/tiny_model/layers.h"
#include "tools/tiny_model/model.h"
#include "tools/tiny_model/tokenizer.h"

namespace tilewright {
namespace {

constexpr ElementType f32 = ElementType::f32;

std::unique_ptr<Runtime> makeRuntime() {
  Environment environment; // no folder: nothing of a test stays on disk
  StatusOr<std::unique_ptr<Device>> device = openDevice("cpu");
  return std::make_unique<Runtime>(*std::move(device), environment);
}

TEST(Tokenizer, joinsTheMostFrequentPairs) {
  const Tokens tokens = tokenize("ababab cab", 258);
  ASSERT_EQ(tokens.spelling.size(), 258u);
  EXPECT_EQ(tokens.spelling[256], "ab");
  EXPECT_EQ(tokens.ids.front(), 257); // "abab"
  std::string text;
  for (int32_t id : tokens.ids)
    text += tokens.spelling[id];
  EXPECT_EQ(text, "ababab cab");
}

TEST(Tokenizer, stopsWhenNoPairIsLeft) {
  EXPECT_EQ(tokenize("abc", 300).spelling.size(), 256u);
  EXPECT_EQ(tokenize("", 300).ids.size(), 0u);
  EXPECT_EQ(tokenize("aaaaa", 257).ids.size(), 3u);
}

TEST(Corpus, hasTextWhereverItRuns) {
  const Corpus corpus = repositoryText(50000);
  EXPECT_EQ(corpus.text.size(), 50000u);
  EXPECT_FALSE(corpus.origin.empty());
}

/// Sizes that are no multiple of a block.
constexpr int64_t kN = 70, kD = 37, kM = 83;

struct Layer {
  std::vector<float> x = randomNumbers(kN * kD, 1, 1), w = randomNumbers(kM * kD, 0.2, 2);
  std::vector<float> b = randomNumbers(kM, 1, 3), dh = randomNumbers(kN * kM, 1, 4);
  std::vector<double> h, dz, dx, dw, db;

  Layer() : h(kN * kM), dz(kN * kM), dx(kN * kD), dw(kM * kD), db(kM) {
    for (int64_t i = 0; i < kN; ++i)
      for (int64_t j = 0; j < kM; ++j) {
        double z = b[j];
        for (int64_t k = 0; k < kD; ++k)
          z += static_cast<double>(x[i * kD + k]) * w[j * kD + k];
        h[i * kM + j] = std::tanh(z);
        const double slope = dh[i * kM + j] * (1 - h[i * kM + j] * h[i * kM + j]);
        dz[i * kM + j] = slope;
        db[j] += slope;
        for (int64_t k = 0; k < kD; ++k) {
          dx[i * kD + k] += slope * w[j * kD + k];
          dw[j * kD + k] += slope * x[i * kD + k];
        }
      }
  }
};

class LayersTest : public testing::Test {
protected:
  OwnedTensor upload(const std::vector<float> &values, const std::vector<int64_t> &shape) {
    return *uploadFloats(runtime_->device(), f32, shape, values);
  }
  /// Launches a kernel whose last parameter is its result, and returns how far it is from `expected`.
  double errorOf(const Kernel &kernel, std::vector<KernelArgument> arguments,
                 const std::vector<int64_t> &shape, const std::vector<double> &expected) {
    const OwnedTensor result = upload(std::vector<float>(expected.size(), NAN), shape);
    arguments.push_back(result.ref);
    const Status status = launch(*runtime_, kernel, arguments, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    return relativeError(download(runtime_->device(), result.ref)->data(), expected.data(), expected.size());
  }
  std::vector<float> floats(const std::vector<double> &values) { return {values.begin(), values.end()}; }

  std::unique_ptr<Runtime> runtime_ = makeRuntime();
};

TEST_F(LayersTest, agreeWithPlainLoops) {
  const Layer layer;
  const OwnedTensor x = upload(layer.x, {kN, kD}), w = upload(layer.w, {kM, kD}), b = upload(layer.b, {kM});
  const OwnedTensor dh = upload(layer.dh, {kN, kM}), h = upload(floats(layer.h), {kN, kM});
  const OwnedTensor dz = upload(floats(layer.dz), {kN, kM});
  EXPECT_LT(errorOf(denseTanh(), {x.ref, w.ref, b.ref}, {kN, kM}, layer.h), 1e-6);
  EXPECT_LT(errorOf(tanhBackward(), {dh.ref, h.ref}, {kN, kM}, layer.dz), 1e-6);
  EXPECT_LT(errorOf(denseBackwardInput(), {dz.ref, w.ref}, {kN, kD}, layer.dx), 1e-6);
  EXPECT_LT(errorOf(denseBackwardWeight(), {dz.ref, x.ref}, {kM, kD}, layer.dw), 1e-6);
  EXPECT_LT(errorOf(denseBackwardBias(), {dz.ref}, {kM}, layer.db), 1e-6);
}

TEST(NextTokenModel, learnsAPattern) {
  const std::unique_ptr<Runtime> runtime = makeRuntime();
  ModelSizes sizes;
  sizes.batch = 32, sizes.context = 2, sizes.embedding = 4, sizes.hidden = 16, sizes.vocabulary = 5;
  StatusOr<NextTokenModel> model = NextTokenModel::make(*runtime, sizes);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::vector<int32_t> ids;
  for (int i = 0; i < 200; ++i)
    ids.push_back(i * i % 5); // two neighbours determine the next
  std::vector<int64_t> places(sizes.batch);
  double first = 0, last = 0;
  for (int step = 0; step < 150; ++step) {
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = 2 + (step * 31 + static_cast<int64_t>(i) * 7) % 198;
    StatusOr<double> loss = model->trainStep(ids, places, 0.02);
    ASSERT_TRUE(loss.ok()) << loss.status().message();
    if (step == 0) first = *loss;
    last = *loss;
  }
  EXPECT_NEAR(first, std::log(5.0), 0.3);
  EXPECT_LT(last, 0.05);
  EXPECT_EQ(model->next(&ids[10], 1, 0.5), ids[12]);
}

} // namespace
} // namespace tilewright
