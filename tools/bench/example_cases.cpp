#include "tools/bench/example_cases.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compiler/compile.h"
#include "kernels/examples/examples.h"
#include "kernels/examples/reference.h"
#include "kernels/row_schedule.h"
#include "tools/bench/bench.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/cublas.h"
#include "tools/bench/random_problem.h"
#include "tools/io/tensors.h"

namespace tilewright {
namespace {

constexpr ElementType f32 = ElementType::f32;
constexpr int64_t kDrawn = int64_t(1) << 22; ///< random numbers of a tensor, which it repeats
constexpr int64_t kSamples = 8;              ///< rows, or thousands of elements, that are compared
constexpr float kP = 0.5f, kEpsilon = 1e-5f;
constexpr int64_t kSeed = 1234567890123;

using Numbers = std::vector<double>;

/// |found - expected| / |expected| in the Euclidean norm; 0 where nothing differs.
double distance(const std::vector<float> &found, const Numbers &expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

/// A tensor of random numbers, of which the host has the first; they repeat.
struct Drawn {
  TensorRef ref;
  std::shared_ptr<const Numbers> values;
  double operator[](int64_t i) const { return (*values)[i % count()]; }
  const double *row(int64_t i) const { return values->data() + i * ref.sizes[1] % count(); }
  int64_t count() const { return static_cast<int64_t>(values->size()); }
};

/// One case under construction: its tensors, and its kernels as a device has loaded them.
struct Workplace : std::enable_shared_from_this<Workplace> {
  Workplace(Device &device, ElementType element) : device(device), element(element) {}

  Device &device;
  const ElementType element;
  std::vector<OwnedTensor> tensors;
  double compileMilliseconds = 0;

  bool onGpu() const { return device.target().kind == TargetKind::nvptx; }

  StatusOr<TensorRef> empty(std::vector<int64_t> shape, ElementType type) {
    TW_ASSIGN_OR_RETURN(OwnedTensor tensor, allocateTensor(device, type, shape));
    tensors.push_back(tensor);
    return tensor.ref;
  }

  StatusOr<Drawn> random(std::vector<int64_t> shape) {
    const int64_t row = shape.size() == 1 ? 1 : shape[1], all = shape[0] * row;
    const int64_t count = std::min(all, std::max(kSamples, kDrawn / row) * row);
    const std::vector<float> values = rounded(randomNumbers(count, 1, tensors.size() + 1), element);
    TW_ASSIGN_OR_RETURN(const OwnedTensor first, uploadFloats(device, element, {count}, values));
    TW_ASSIGN_OR_RETURN(const TensorRef ref, empty(shape, element));
    for (int64_t at = 0; at < all; at += count)
      TW_RETURN_IF_ERROR(device.copy(static_cast<char *>(ref.data) + at * elementBytes(element),
                                     first.ref.data, std::min(count, all - at) * elementBytes(element),
                                     nullptr));
    TW_RETURN_IF_ERROR(device.synchronize(nullptr));
    return Drawn{ref, std::make_shared<Numbers>(values.begin(), values.end())};
  }

  /// Compiles and loads a kernel; what comes back enqueues it.
  StatusOr<std::function<Status()>> launchOf(const Kernel &kernel, const CompileOptions &options,
                                             std::vector<KernelArgument> arguments) {
    std::shared_ptr<LoadedKernel> loaded;
    TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment()); // it says which dumps to write
    TW_ASSIGN_OR_RETURN(const double milliseconds, wallMilliseconds([&]() -> Status {
                          TW_ASSIGN_OR_RETURN(Artifact artifact,
                                              compile(kernel, device.target(), options, environment));
                          TW_RETURN_IF_ERROR(device.assemble(artifact));
                          TW_ASSIGN_OR_RETURN(loaded, device.load(artifact));
                          return {};
                        }));
    compileMilliseconds += milliseconds;
    return std::function<Status()>([&device = device, loaded, arguments = std::move(arguments)] {
      return device.launch(*loaded, arguments, nullptr);
    });
  }

  CompileOptions rowOptions(int64_t columns, RowWork work) const {
    CompileOptions options;
    if (const auto schedule = rowOnChip(columns * elementBytes(element), element, device.target(),
                                        device.info().sharedBytes, work))
      options.schedule = *schedule;
    return options;
  }

  double bytesOf(double numbers) const { return numbers * static_cast<double>(elementBytes(element)); }

  ExampleCase done(std::function<Status()> run, double bytes) {
    ExampleCase result;
    result.run = std::move(run), result.bytes = bytes, result.compileMilliseconds = compileMilliseconds;
    result.memory = shared_from_this();
    return result;
  }
};

using Sizes = std::vector<int64_t>;

StatusOr<ExampleCase> vectorAddCase(Workplace &w, const Sizes &sizes) {
  TW_ASSIGN_OR_RETURN(const Drawn a, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const Drawn b, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const TensorRef c, w.empty(sizes, w.element));
  TW_ASSIGN_OR_RETURN(auto run, w.launchOf(vectorAdd(w.element), {}, {a.ref, b.ref, c}));
  ExampleCase result = w.done(run, w.bytesOf(3.0 * sizes[0]));
  result.error = [=, &w]() -> StatusOr<double> {
    const int64_t count = std::min(sizes[0], kSamples * 1000);
    Numbers expected(count);
    for (int64_t i = 0; i < count; ++i)
      expected[i] = a[i] + b[i];
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(w.device, c.rows(0, count)));
    return distance(found, expected);
  };
  return result;
}

StatusOr<ExampleCase> dropoutCase(Workplace &w, const Sizes &sizes) {
  TW_ASSIGN_OR_RETURN(const Drawn x, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const TensorRef y, w.empty(sizes, w.element));
  TW_ASSIGN_OR_RETURN(auto run, w.launchOf(dropout(w.element), {}, {x.ref, kP, kSeed, y}));
  ExampleCase result = w.done(run, w.bytesOf(2.0 * sizes[0]));
  result.error = [=, &w]() -> StatusOr<double> {
    const int64_t count = std::min(sizes[0], kSamples * 1000);
    Numbers expected(count);
    for (int64_t i = 0; i < count; ++i)
      expected[i] = examples::isKept(i, kP, kSeed) ? x[i] / (1 - double(kP)) : 0;
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(w.device, y.rows(0, count)));
    return distance(found, expected);
  };
  return result;
}

/// Compares the first rows of a result with what `makeRow(i, y)` says.
template <class MakeRow>
std::function<StatusOr<double>()> errorOfRows(Device &device, const TensorRef &y, MakeRow makeRow) {
  return [=, &device]() -> StatusOr<double> {
    const int64_t rows = std::min(kSamples, y.sizes[0]), columns = y.sizes[1];
    Numbers expected(rows * columns);
    for (int64_t i = 0; i < rows; ++i)
      makeRow(i, &expected[i * columns]);
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(device, y.rows(0, rows)));
    return distance(found, expected);
  };
}

StatusOr<ExampleCase> rowSoftmaxCase(Workplace &w, const Sizes &sizes) {
  TW_ASSIGN_OR_RETURN(const Drawn x, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const TensorRef y, w.empty(sizes, w.element));
  TW_ASSIGN_OR_RETURN(auto run,
                      w.launchOf(rowSoftmax(w.element), w.rowOptions(sizes[1], RowWork::light), {x.ref, y}));
  ExampleCase result = w.done(run, w.bytesOf(2.0 * sizes[0] * sizes[1]));
  result.error = errorOfRows(w.device, y,
                             [=](int64_t i, double *row) { examples::softmaxRow(x.row(i), sizes[1], row); });
  return result;
}

StatusOr<ExampleCase> layerNormCase(Workplace &w, const Sizes &sizes) {
  const int64_t rows = sizes[0], columns = sizes[1];
  if (columns > kDrawn)
    return userError(fmt::format("expected at most {} columns of layer_norm, found {}", kDrawn, columns));
  TW_ASSIGN_OR_RETURN(const Drawn x, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const Drawn gain, w.random({columns}));
  TW_ASSIGN_OR_RETURN(const Drawn bias, w.random({columns}));
  TW_ASSIGN_OR_RETURN(const TensorRef y, w.empty(sizes, w.element));
  TW_ASSIGN_OR_RETURN(const TensorRef mean, w.empty({rows}, f32));
  TW_ASSIGN_OR_RETURN(const TensorRef scale, w.empty({rows}, f32));
  TW_ASSIGN_OR_RETURN(auto run, w.launchOf(layerNorm(w.element), w.rowOptions(columns, RowWork::heavy),
                                           {x.ref, gain.ref, bias.ref, kEpsilon, y, mean, scale}));
  ExampleCase result = w.done(run, w.bytesOf(2.0 * rows * columns));
  result.error = errorOfRows(w.device, y, [=](int64_t i, double *row) {
    examples::layerNormRow(x.row(i), gain.row(0), bias.row(0), columns,
                           examples::momentsOf(x.row(i), columns, kEpsilon), row);
  });
  return result;
}

StatusOr<ExampleCase> layerNormGradientCase(Workplace &w, const Sizes &sizes) {
  const int64_t rows = sizes[0], columns = sizes[1];
  constexpr int64_t kLargestWidth = 16384, kProgramsOfAUnit = 2;
  if (columns > kLargestWidth)
    return userError(
        fmt::format("expected at most {} columns of layer_norm_gradient, found {}", kLargestWidth, columns));
  int64_t width = 64;
  while (width < columns)
    width *= 2;
  const int64_t programs = kProgramsOfAUnit * w.device.info().units;
  const int64_t rowsOfOne = std::max<int64_t>(1, (rows + programs - 1) / programs),
                parts = (rows + rowsOfOne - 1) / rowsOfOne;
  TW_ASSIGN_OR_RETURN(const Drawn dy, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const Drawn x, w.random(sizes));
  TW_ASSIGN_OR_RETURN(const Drawn gain, w.random({columns}));
  TW_ASSIGN_OR_RETURN(const TensorRef dx, w.empty(sizes, w.element));
  TW_ASSIGN_OR_RETURN(const TensorRef gains, w.empty({parts, columns}, f32));
  TW_ASSIGN_OR_RETURN(const TensorRef biases, w.empty({parts, columns}, f32));
  TW_ASSIGN_OR_RETURN(const TensorRef dGain, w.empty({columns}, w.element));
  TW_ASSIGN_OR_RETURN(const TensorRef dBias, w.empty({columns}, w.element));
  std::vector<float> means, scales;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t same = i - x.count() / columns; // a row of the same numbers
    const auto moments = same < 0 ? examples::momentsOf(x.row(i), columns, kEpsilon)
                                  : examples::RowMoments{means[same], scales[same]};
    means.push_back(static_cast<float>(moments.mean)), scales.push_back(static_cast<float>(moments.scale));
  }
  TW_ASSIGN_OR_RETURN(const OwnedTensor mean, uploadFloats(w.device, f32, {rows}, means));
  TW_ASSIGN_OR_RETURN(const OwnedTensor scale, uploadFloats(w.device, f32, {rows}, scales));
  w.tensors.insert(w.tensors.end(), {mean, scale});
  CompileOptions options;
  constexpr int64_t kWideRow = 8192; // its two sums take 64 registers of 256 threads
  if (w.onGpu() && width > kWideRow) options.schedule.warps = 16;
  TW_ASSIGN_OR_RETURN(auto each,
                      w.launchOf(layerNormGradient(w.element, width, rowsOfOne), options,
                                 {dy.ref, x.ref, gain.ref, mean.ref, scale.ref, dx, gains, biases}));
  TW_ASSIGN_OR_RETURN(auto total,
                      w.launchOf(layerNormGradientSums(w.element), {}, {gains, biases, dGain, dBias}));
  ExampleCase result = w.done(
      [=]() -> Status {
        TW_RETURN_IF_ERROR(each());
        return total();
      },
      w.bytesOf(3.0 * rows * columns));
  result.error = [=, &w]() -> StatusOr<double> {
    Numbers gainSum(columns), biasSum(columns), row(columns);
    const auto makeRow = [&](int64_t i, double *made) {
      examples::layerNormGradientRow(dy.row(i), x.row(i), gain.row(0), columns,
                                     examples::momentsOf(x.row(i), columns, kEpsilon), made, gainSum.data(),
                                     biasSum.data());
    };
    TW_ASSIGN_OR_RETURN(const double ofX, errorOfRows(w.device, dx, makeRow)());
    gainSum.assign(columns, 0), biasSum.assign(columns, 0);
    for (int64_t i = 0; i < rows; ++i)
      makeRow(i, row.data());
    TW_ASSIGN_OR_RETURN(const std::vector<float> foundGain, download(w.device, dGain));
    TW_ASSIGN_OR_RETURN(const std::vector<float> foundBias, download(w.device, dBias));
    return std::max({ofX, distance(foundGain, gainSum), distance(foundBias, biasSum)});
  };
  return result;
}

StatusOr<ExampleCase> matmulCase(Workplace &w, const Sizes &sizes) {
  const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
  TW_ASSIGN_OR_RETURN(const Drawn a, w.random({m, k}));
  TW_ASSIGN_OR_RETURN(const Drawn b, w.random({k, n}));
  TW_ASSIGN_OR_RETURN(const TensorRef c, w.empty({m, n}, w.element));
  CompileOptions options;
  const int64_t width = 16 / elementBytes(w.element);
  options.alignedMatrices = n % width == 0 && k % width == 0;
  const bool isWide = w.onGpu() && w.element != f32;
  const Kernel kernel = matmul(w.element, 128, isWide ? 256 : 128);
  TW_ASSIGN_OR_RETURN(auto run, w.launchOf(kernel, options, {a.ref, b.ref, c}));
  ExampleCase result = w.done(run, w.bytesOf(double(m) * k + double(k) * n + double(m) * n));
  result.operations = 2.0 * m * n * k;
  result.error = [=, &w]() -> StatusOr<double> {
    const int64_t rows = std::min(kSamples, m), columns = std::min<int64_t>(64, n);
    Numbers expected(rows * columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < columns; ++j)
          expected[i * columns + j] += a[i * k + l] * b[l * n + j];
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(w.device, c.rows(0, rows)));
    std::vector<float> part;
    for (int64_t i = 0; i < rows; ++i)
      part.insert(part.end(), &found[i * n], &found[i * n] + columns);
    return distance(part, expected);
  };
  if (!w.onGpu()) return result;
  TW_ASSIGN_OR_RETURN(const Cublas cublas, Cublas::load());
  TW_ASSIGN_OR_RETURN(const TensorRef other, w.empty({m, n}, w.element));
  result.baselineName = cublas.description();
  result.baseline = [=] { return cublas.product(false, false, m, n, k, a.ref, b.ref, other); };
  return result;
}

/// Causal; the last head's first and last positions are compared.
StatusOr<ExampleCase> attentionCase(Workplace &w, const Sizes &sizes) {
  const int64_t heads = sizes[0], size = sizes[1], width = sizes[2], rows = heads * size;
  TW_ASSIGN_OR_RETURN(const Drawn q, w.random({rows, width}));
  TW_ASSIGN_OR_RETURN(const Drawn k, w.random({rows, width}));
  TW_ASSIGN_OR_RETURN(const Drawn v, w.random({rows, width}));
  TW_ASSIGN_OR_RETURN(const TensorRef o, w.empty({rows, width}, w.element));
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  TW_ASSIGN_OR_RETURN(auto run, w.launchOf(attention(w.element, width, /*causal=*/true), {},
                                           {q.ref, k.ref, v.ref, size, heads, scale, o}));
  ExampleCase result = w.done(run, w.bytesOf(4.0 * rows * width));
  result.operations = 2.0 * rows * size * width; // half of the products' 4: no position sees the later ones
  result.error = [=, &w]() -> StatusOr<double> {
    const int64_t head = (rows - size) * width;
    Numbers keys(size * width), values(size * width), query(width), expected;
    for (int64_t i = 0; i < size * width; ++i)
      keys[i] = k[head + i], values[i] = v[head + i];
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(w.device, o.rows(rows - size, size)));
    std::vector<float> sample;
    for (int64_t i = 0; i < size; ++i) {
      if (i >= kSamples && i < size - kSamples) continue;
      for (int64_t c = 0; c < width; ++c)
        query[c] = q[head + i * width + c];
      expected.resize(expected.size() + width);
      examples::attentionRow(query.data(), keys.data(), values.data(), i + 1, width, scale,
                             &expected[expected.size() - width]);
      sample.insert(sample.end(), &found[i * width], &found[i * width] + width);
    }
    return distance(sample, expected);
  };
  return result;
}

struct Entry {
  const char *sizes; ///< as a user writes them
  std::size_t count;
  double (*numbers)(const Sizes &); ///< in all of its tensors, about
  StatusOr<ExampleCase> (*make)(Workplace &, const Sizes &);
};

/// Of so many tensors as large as the sizes say.
template <int count> double tensorsOf(const Sizes &sizes) {
  return count * static_cast<double>(sizes[0]) * static_cast<double>(sizes.size() > 1 ? sizes[1] : 1);
}
double productNumbers(const Sizes &sizes) {
  const double m = sizes[0], n = sizes[1], k = sizes[2];
  return 2 * m * n + (m + n) * k; // the product and the library's
}
double attentionNumbers(const Sizes &sizes) { return tensorsOf<4>(sizes) * static_cast<double>(sizes[2]); }

const std::vector<std::pair<std::string, Entry>> kExamples = {
    {"vector_add", {"N", 1, tensorsOf<3>, vectorAddCase}},
    {"dropout", {"N", 1, tensorsOf<2>, dropoutCase}},
    {"row_softmax", {"ROWS,COLUMNS", 2, tensorsOf<2>, rowSoftmaxCase}},
    {"layer_norm", {"ROWS,COLUMNS", 2, tensorsOf<2>, layerNormCase}},
    {"layer_norm_gradient", {"ROWS,COLUMNS", 2, tensorsOf<3>, layerNormGradientCase}},
    {"matmul", {"M,N,K", 3, productNumbers, matmulCase}},
    {"attention", {"HEADS,POSITIONS,WIDTH", 3, attentionNumbers, attentionCase}},
};

/// A user error when the sizes are not what an example takes.
Status checkSizes(const std::string &name, const Entry &entry, const Sizes &sizes) {
  constexpr int64_t kLargest = int64_t(1) << 31;
  const bool isInRange =
      std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s > 0 && s < kLargest; });
  if (sizes.size() == entry.count && isInRange) return {};
  std::string found;
  for (int64_t size : sizes)
    found += (found.empty() ? "" : ",") + std::to_string(size);
  return userError(fmt::format("expected --shape {} with --kernel {}, sizes from 1 to 2^31 - 1; found {}",
                               entry.sizes, name, found));
}

} // namespace

const std::vector<std::string> &exampleNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto &[name, entry] : kExamples)
      all.push_back(name);
    return all;
  }();
  return names;
}

StatusOr<ExampleCase> makeExample(Device &device, const std::string &name, const Sizes &sizes,
                                  ElementType element) {
  const auto found =
      std::find_if(kExamples.begin(), kExamples.end(), [&](const auto &e) { return e.first == name; });
  TW_RETURN_IF_ERROR(checkSizes(name, found->second, sizes));
  TW_RETURN_IF_ERROR(
      checkFits(found->second.numbers(sizes) * static_cast<double>(elementBytes(element)), device));
  const auto workplace = std::make_shared<Workplace>(device, element);
  return found->second.make(*workplace, sizes);
}

} // namespace tilewright
