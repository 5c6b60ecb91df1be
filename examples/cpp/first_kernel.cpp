// The first kernel of the README, outside its tree: defined, compiled, run and compared with float64.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/jit.h"

using namespace tilewright;

Kernel rowSoftmax() {
  return defineKernel("my_softmax", "f32", [](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 2);
    const View y = k.output("y", ElementType::f32, 2);

    const Range rows = k.blockRows(x.dim(0), 4); // a program works on 4 rows
    const Range columns = k.whole(x.dim(1));     // of any length: the compiler streams them

    k.store(y, rows, columns, exp(logSoftmax(x.at(rows, columns))));
  });
}

Status softmax(Runtime &runtime, float *x, float *y, int64_t rows, int64_t columns) {
  return launch(runtime, rowSoftmax(),
                {TensorRef::matrix(x, ElementType::f32, rows, columns),
                 TensorRef::matrix(y, ElementType::f32, rows, columns)},
                nullptr);
}

/// The largest difference from the softmax of a row in float64.
double errorOf(const float *x, const float *y, int64_t columns) {
  double sum = 0, largest = 0;
  for (int64_t c = 0; c < columns; ++c)
    sum += std::exp(double(x[c]));
  for (int64_t c = 0; c < columns; ++c)
    largest = std::fmax(largest, std::fabs(y[c] - std::exp(double(x[c])) / sum));
  return largest;
}

int main() {
  constexpr int64_t rows = 7, columns = 100;
  std::vector<float> x(rows * columns), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = float(i * 37 % 101) / 25 - 2;
  const StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::open("cpu");
  const Status done = runtime.ok() ? softmax(**runtime, x.data(), y.data(), rows, columns) : runtime.status();
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.message().c_str());
    return 1;
  }
  double error = 0;
  for (int64_t r = 0; r < rows; ++r)
    error = std::fmax(error, errorOf(&x[r * columns], &y[r * columns], columns));
  std::printf("softmax of %d rows: error %.1e against float64\n", int(rows), error);
  return error < 1e-6 ? 0 : 1;
}
