#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "kernels/jit.h"
#include "kernels/linear_cross_entropy.h"

namespace {

// What stands between these marks stands in the README, word for word.
// clang-format off
const char *const kReadme = "README.md", *const kThisFile = "tests/unit/tools/readme_test.cpp";

// kernel {
using namespace tilewright;

Kernel rowSoftmax() {
  return defineKernel("my_softmax", "f32", [](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 2);
    const View y = k.output("y", ElementType::f32, 2);

    const Range rows = k.blockRows(x.dim(0), 4);  // a program works on 4 rows
    const Range columns = k.whole(x.dim(1));      // of any length: the compiler streams them

    k.store(y, rows, columns, exp(logSoftmax(x.at(rows, columns))));
  });
}

Status softmax(Runtime &runtime, float *x, float *y, int64_t rows, int64_t columns) {
  return launch(runtime, rowSoftmax(), {TensorRef::matrix(x, ElementType::f32, rows, columns),
                                        TensorRef::matrix(y, ElementType::f32, rows, columns)}, nullptr);
}
// } kernel

// call {
/// x: N×H hidden states, w: V×H vocabulary weight, y: N labels; loss: 1 number, dx and dw: the gradients of the mean.
Status lossAndGradients(Runtime &runtime, float *x, float *w, int32_t *y, int64_t n, int64_t h, int64_t v,
                        float *loss, float *dx, float *dw) {
  LinearCrossEntropyTensors t;
  t.hidden = TensorRef::matrix(x, ElementType::f32, n, h);
  t.weight = TensorRef::matrix(w, ElementType::f32, v, h);
  t.label = TensorRef::vector(y, ElementType::i32, n);
  t.loss = TensorRef::vector(loss, ElementType::f32, 1);
  t.dHidden = TensorRef::matrix(dx, ElementType::f32, n, h);
  t.dWeight = TensorRef::matrix(dw, ElementType::f32, v, h);
  return linearCrossEntropy(runtime, t, {}, nullptr).status();
}
// } call
// clang-format on

std::string contents(const char *path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string between(const std::string &text, const std::string &name) {
  const std::string open = "// " + name + " {\n", close = "// } " + name + "\n";
  const std::size_t begin = text.find("\n" + open) + 1 + open.size();
  return text.substr(begin, text.find("\n" + close) + 1 - begin);
}

std::unique_ptr<Runtime> makeRuntime() {
  return std::make_unique<Runtime>(*openDevice("cpu"), Environment());
}

TEST(Readme, showsTheCodeThatIsTestedHere) {
  const std::string readme = contents(kReadme), source = contents(kThisFile);
  for (const char *name : {"kernel", "call"})
    EXPECT_NE(readme.find("```cpp\n" + between(source, name) + "```\n"), std::string::npos) << name;
}

TEST(KernelsReadme, showsAnOption) {
  const std::string source = contents("kernels/loss/terms/z_loss.cpp");
  const std::size_t begin = source.find("/// loss_i +="), end = source.find("\n};\n", begin) + 4;
  ASSERT_LT(begin, end);
  const std::string quoted = "```cpp\n" + source.substr(begin, end - begin) + "```\n";
  EXPECT_NE(contents("kernels/README.md").find(quoted), std::string::npos) << quoted;
}

TEST(Readme, firstKernelRuns) {
  std::vector<float> x = {0, 0, 0, std::log(2.0f), 0, 0}, y(6);
  const Status status = softmax(*makeRuntime(), x.data(), y.data(), 2, 3);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int j = 0; j < 3; ++j)
    EXPECT_NEAR(y[j], 1.0 / 3, 1e-6);
  EXPECT_NEAR(y[3], 0.5, 1e-6);
}

TEST(Readme, firstCallRuns) {
  std::vector<float> x = {1, 2}, w = {0.5f, 0, 0.5f, 0}, loss(1), dx(2), dw(4); // two equal classes
  std::vector<int32_t> y = {1};
  const Status status = lossAndGradients(*makeRuntime(), x.data(), w.data(), y.data(), 1, 2, 2, loss.data(),
                                         dx.data(), dw.data());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(dw[0], 0.5, 1e-6);
  EXPECT_NEAR(dw[3], -1, 1e-6);
}

} // namespace
