// Runs kernels' code for 64-bit ARM, as a CPU's runtime calls it, and compares what they make with float64.
// Built by aarch64_test.py with one kernel's assembly, whose name and type are KERNEL and TYPE.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" void KERNEL(const int64_t *slots, const int64_t *programId, void *scratch);

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

namespace {

enum Type { f32, bf16, f16 };
constexpr Type kType = TYPE;

/// A matrix of the kernels' type, or of fp32, each number as the kernel reads it.
struct Matrix {
  int64_t rows, columns;
  Type type;
  std::vector<char> bytes;

  Matrix(int64_t rows, int64_t columns, Type type = kType)
      : rows(rows), columns(columns), type(type), bytes(rows * columns * size(), char(0xFF)) {}
  int64_t size() const { return type == f32 ? 4 : 2; }

  double at(int64_t i, int64_t j) const {
    const char *from = &bytes[(i * columns + j) * size()];
    if (type == f32) return load<float>(from);
    if (type == f16) return load<__fp16>(from);
    const uint32_t bits = uint32_t(load<uint16_t>(from)) << 16;
    return load<float>(&bits);
  }
  void set(int64_t i, int64_t j, float value) {
    char *to = &bytes[(i * columns + j) * size()];
    if (type == f32) return store(to, value);
    if (type == f16) return store(to, static_cast<__fp16>(value));
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    store(to, static_cast<uint16_t>(bits >> 16)); // any number that the type has will do
  }
  Matrix filled(float scale) && {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        set(i, j, scale * (static_cast<float>(std::rand()) / static_cast<float>(RAND_MAX) - 0.5f));
    return *this;
  }

private:
  template <typename T> static T load(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename T> static void store(void *to, T value) { std::memcpy(to, &value, sizeof value); }
};

/// A kernel's arguments, in their order.
class Call {
public:
  Call &matrix(Matrix &m) {
    slots_.insert(slots_.end(), {reinterpret_cast<int64_t>(m.bytes.data()), m.rows, m.columns, m.columns});
    return *this;
  }
  template <typename T> Call &vector(std::vector<T> &v) {
    slots_.insert(slots_.end(), {reinterpret_cast<int64_t>(v.data()), static_cast<int64_t>(v.size())});
    return *this;
  }
  Call &index(int64_t value) {
    slots_.push_back(value);
    return *this;
  }
  void run(int64_t programs, int64_t across = 1) const {
    std::vector<char> scratch(64 << 20);
    for (int64_t i = 0; i < programs; ++i)
      for (int64_t j = 0; j < across; ++j) {
        const int64_t id[3] = {i, j, 0};
        KERNEL(slots_.data(), id, scratch.data());
      }
  }

private:
  std::vector<int64_t> slots_;
};

double worst = 0;

void compare(double found, double expected, double size) {
  const double error = std::fabs(found - expected) / size;
  if (!(error <= worst)) worst = error; // NaN stays
}

/// Σ term(k), 0 <= k < count.
template <typename Term> double sumOf(int64_t count, const Term &term) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k)
    sum += term(k);
  return sum;
}

// Sizes that no block divides.
constexpr int64_t kRows = 37, kHidden = 75, kClasses = 149;

void softmax() {
  Matrix x = Matrix(kRows, 3001).filled(20), y(kRows, 3001);
  Call().matrix(x).matrix(y).run(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0, most = 0;
    for (int64_t j = 0; j < x.columns; ++j)
      sum += std::exp(x.at(i, j)), most = std::fmax(most, std::exp(x.at(i, j)));
    for (int64_t j = 0; j < x.columns; ++j)
      compare(y.at(i, j), std::exp(x.at(i, j)) / sum, most / sum);
  }
}

void product() {
  Matrix a = Matrix(kRows, kHidden).filled(2), b = Matrix(kHidden, kClasses).filled(2), c(kRows, kClasses);
  Call().matrix(a).matrix(b).matrix(c).run(1, 2);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kClasses; ++j)
      compare(c.at(i, j), sumOf(kHidden, [&](int64_t k) { return a.at(i, k) * b.at(k, j); }), 6);
}

constexpr double kUnitOfE = 1.0 / 256;

/// E = exp(z - shift) / 256 for all classes but the label, with shift 0.
void logits() {
  Matrix x = Matrix(kRows, kHidden).filled(1), w = Matrix(kClasses, kHidden).filled(1), e(kRows, kClasses);
  Matrix sums(kRows, 2, f32), tops(kRows, 2, f32), stored(kRows, 2, f32);
  std::vector<int32_t> label(kRows), range = {0, kRows};
  std::vector<float> shift(kRows);
  for (int64_t i = 0; i < kRows; ++i)
    label[i] = static_cast<int32_t>(i * 4);
  Call call;
  call.matrix(x).matrix(w).vector(label).vector(shift).vector(range).matrix(sums).matrix(tops).matrix(stored);
  call.matrix(e).run(1, 2);
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < kClasses; ++j) {
      const double z = sumOf(kHidden, [&](int64_t k) { return x.at(i, k) * w.at(j, k); });
      const double expected = j == label[i] ? 0 : std::exp(z) * kUnitOfE;
      sum += expected;
      compare(e.at(i, j), expected, 16 * kUnitOfE);
    }
    compare(sums.at(i, 0) + sums.at(i, 1), sum, sum);
  }
}

/// dW = Eᵀ·xs + the rows of u, of which there are none here.
void weightGradient() {
  Matrix e = Matrix(kRows, kClasses).filled(1), xs = Matrix(kRows, kHidden).filled(1), u(kRows, kHidden, f32);
  Matrix dw(kClasses, kHidden);
  std::vector<int32_t> slot(kClasses, -1), valid = {kRows};
  Call().matrix(e).matrix(xs).matrix(u).vector(slot).vector(valid).index(0).matrix(dw).run(2);
  for (int64_t j = 0; j < kClasses; ++j)
    for (int64_t h = 0; h < kHidden; ++h)
      compare(dw.at(j, h), sumOf(kRows, [&](int64_t i) { return e.at(i, j) * xs.at(i, h); }), 1);
}

/// dX = scale (E W) + one_hot w_label, to the rows' own places, backwards here.
void hiddenGradient() {
  Matrix e = Matrix(kRows, kClasses).filled(1), w = Matrix(kClasses, kHidden).filled(1), dx(kRows, kHidden);
  std::vector<int32_t> label(kRows), row(kRows);
  std::vector<float> scale(kRows), oneHot(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    label[i] = static_cast<int32_t>(3 * i), row[i] = static_cast<int32_t>(kRows - 1 - i);
    scale[i] = 0.5f + static_cast<float>(i) / kRows, oneHot[i] = -1;
  }
  Call call;
  call.matrix(e).matrix(w).vector(label).vector(scale).vector(oneHot).vector(row).matrix(dx).run(1);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t h = 0; h < kHidden; ++h) {
      const double product = sumOf(kClasses, [&](int64_t j) { return e.at(i, j) * w.at(j, h); });
      compare(dx.at(row[i], h), scale[i] * product - w.at(label[i], h), 2);
    }
}

} // namespace

int main() {
  const struct {
    const char *kernel;
    void (*run)();
  } cases[] = {{"row_softmax", softmax},
               {"matmul", product},
               {"lce_forward", logits},
               {"lce_dw", weightGradient},
               {"lce_dx", hiddenGradient}};
  for (const auto &one : cases)
    if (std::strcmp(one.kernel, TEXT(KERNEL)) == 0) {
      one.run();
      std::printf("%.3g\n", worst);
      return worst <= (kType == f32 ? 2e-6 : kType == f16 ? 1e-3 : 8e-3) ? 0 : 1;
    }
  return 2;
}
