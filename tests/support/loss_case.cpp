#include "tests/support/loss_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>

#include "compiler/number_formats.h"
#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

class Random {
public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double normal() { return distribution_(engine_); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> distribution_;
};

/// x_i = factor · w_y / |w_y|² + noise: the label's logit is about `factor`.
void alignWithLabel(LossCase &c, int64_t i, double factor, double noise, Random &random) {
  const float *w = &c.w[c.label[i] * c.hidden];
  double square = 0;
  for (int64_t k = 0; k < c.hidden; ++k)
    square += double(w[k]) * w[k];
  for (int64_t k = 0; k < c.hidden; ++k)
    c.x[i * c.hidden + k] = factor * w[k] / std::max(square, 1e-3) + noise * random.normal();
}

void fillOnGrid(LossCase &c, Random &random) {
  auto step = [&] { return (random.below(17) - 8) / 8.0; };
  for (float &x : c.x)
    x = step();
  for (float &w : c.w)
    w = step();
  for (int64_t i = 0; i < c.rows; ++i)
    c.x[i * c.hidden] = 4096;
  for (int64_t j = 0; j < c.classes; ++j)
    c.w[j * c.hidden] = 1;
}

void fill(LossCase &c, DataKind kind, Random &random) {
  for (float &x : c.x)
    x = random.normal();
  for (float &w : c.w)
    w = random.normal() / std::sqrt(c.hidden);
  for (int64_t i = 0; i < c.rows; ++i) {
    if (kind == DataKind::peaked && i % 4) alignWithLabel(c, i, 8, 0.5, random);
    if (kind == DataKind::confident) alignWithLabel(c, i, 30, 0, random);
    if (kind == DataKind::largeLoss) alignWithLabel(c, i, -3000, 1, random);
  }
  if (kind == DataKind::constant) {
    std::fill(c.x.begin(), c.x.end(), 0.5f);
    std::fill(c.w.begin(), c.w.end(), 0.25f);
  }
  if (kind == DataKind::commonOffset) fillOnGrid(c, random);
}

bool isIgnored(IgnorePattern pattern, int64_t row, int64_t rows) {
  switch (pattern) {
  case IgnorePattern::none:
    return false;
  case IgnorePattern::some:
    return row % 3 == 1;
  case IgnorePattern::firstHalf:
    return row < rows / 2;
  case IgnorePattern::all:
    return true;
  }
  return false;
}

std::vector<float> readBf16(const std::string &path, int64_t first, int64_t count) {
  std::ifstream file(path, std::ios::binary);
  std::vector<uint16_t> bits(count);
  file.seekg(first * 2);
  file.read(reinterpret_cast<char *>(bits.data()), count * 2);
  std::vector<float> values;
  if (file)
    for (uint16_t b : bits)
      values.push_back(floatFromBf16(b));
  return values;
}

} // namespace

const char *dataKindName(DataKind kind) {
  constexpr const char *names[] = {"random", "peaked", "constant", "confident", "largeLoss", "commonOffset"};
  return names[static_cast<int>(kind)];
}

LossCase makeCase(DataKind kind, int64_t rows, int64_t hidden, int64_t classes, ElementType element,
                  IgnorePattern ignored) {
  LossCase c;
  c.rows = rows, c.hidden = hidden, c.classes = classes, c.element = element;
  c.x.resize(rows * hidden), c.w.resize(classes * hidden), c.label.resize(rows);
  Random random(rows * 1000003 + hidden * 1009 + classes);
  for (int64_t &label : c.label)
    label = random.below(classes);
  fill(c, kind, random);
  for (float &x : c.x)
    x = rounded(x, element);
  for (float &w : c.w)
    w = rounded(w, element);
  for (int64_t i = 0; i < rows; ++i)
    if (isIgnored(ignored, i, rows)) c.label[i] = c.ignoreIndex;
  return c;
}

void addCommonPart(LossCase &data) {
  for (int64_t i = 0; i < data.rows; ++i)
    data.x[i * data.hidden] = 1;
  for (int64_t j = 0; j < data.classes; ++j)
    data.w[j * data.hidden] = 128;
}

std::optional<LossCase> trainedHead(int64_t rows, int64_t classes) {
  constexpr int64_t hidden = 384, half = 16384;
  const char *folder = std::getenv("TILEWRIGHT_TEST_DATA");
  if (!folder) return std::nullopt;
  const std::string data = std::string(folder) + "/trained_head/";
  LossCase c;
  c.rows = rows, c.hidden = hidden, c.classes = classes, c.element = ElementType::bf16;
  c.x = readBf16(data + "hidden.bf16", 0, rows * hidden);
  c.w = readBf16(data + "head.0.bf16", 0, std::min(classes, half) * hidden);
  const std::vector<float> rest =
      readBf16(data + "head.1.bf16", 0, std::max<int64_t>(classes - half, 0) * hidden);
  c.w.insert(c.w.end(), rest.begin(), rest.end());
  std::vector<int32_t> labels(rows);
  std::ifstream file(data + "labels.i32", std::ios::binary);
  file.read(reinterpret_cast<char *>(labels.data()), rows * 4);
  if (!file || static_cast<int64_t>(c.x.size()) != rows * hidden ||
      static_cast<int64_t>(c.w.size()) != classes * hidden)
    return std::nullopt;
  for (int32_t label : labels)
    c.label.push_back(label < classes ? label : c.ignoreIndex);
  return c;
}

LossCase logitsCase(DataKind kind, int64_t rows, int64_t classes, ElementType element,
                    IgnorePattern ignored) {
  const int64_t hidden = 16;
  LossCase data = makeCase(kind, rows, hidden, classes, element, ignored);
  std::vector<float> logits(rows * classes);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < classes; ++j) {
      double z = 0;
      for (int64_t k = 0; k < hidden; ++k)
        z += double(data.x[i * hidden + k]) * data.w[j * hidden + k];
      logits[i * classes + j] = rounded(z, element);
    }
  data.x = logits;
  data.hidden = classes;
  return data;
}

} // namespace tilewright::test
