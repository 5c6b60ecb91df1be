#include "kernels/sampled_reference.h"

#include <algorithm>
#include <cmath>

#include "compiler/base/parallel.h"

namespace tilewright {
namespace {

constexpr int64_t kClassesAtOnce = 2048; // of W, which may be larger than the host's memory

/// visit(first class, number of classes, their rows of W), piece by piece.
Status forEachPiece(const SampledProblem &problem,
                    const std::function<void(int64_t, int64_t, const float *)> &visit) {
  for (int64_t first = 0; first < problem.classes; first += kClassesAtOnce) {
    const int64_t count = std::min(kClassesAtOnce, problem.classes - first);
    TW_ASSIGN_OR_RETURN(const float *weight, problem.weight(first, count));
    visit(first, count, weight);
  }
  return {};
}

const float *hiddenRow(const SampledProblem &problem, std::size_t index) {
  return problem.hidden + problem.rows[index] * problem.hiddenSize;
}

/// What arrives for a logit, of a class that has this probability in its row.
double logitGradient(const SampledProblem &problem, std::size_t index, int64_t label, double probability) {
  return problem.gradients[index] * (probability - (problem.labels[index] == label ? 1 : 0));
}

void addScaled(double *sum, double factor, const float *row, int64_t size) {
  for (int64_t k = 0; k < size; ++k)
    sum[k] += factor * row[k];
}

void setLoss(SampledRow &row, const std::vector<double> &logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit - top);
    row.logitSize = std::max(row.logitSize, std::fabs(logit));
  }
  row.lse = top + std::log(sum);
}

using Logits = std::vector<std::vector<double>>; ///< of each sampled row, all classes

/// Threads share the classes, so that W is read once for all rows.
StatusOr<Logits> logitsOf(const SampledProblem &problem, const std::vector<SampledRow> &rows) {
  Logits logits(rows.size(), std::vector<double>(problem.classes));
  const auto addPiece = [&](int64_t first, int64_t count, const float *weight) {
    parallelFor(count, [&](int64_t j) {
      for (std::size_t s = 0; s < rows.size(); ++s)
        logits[s][first + j] = dotProduct(hiddenRow(problem, rows[s].index), weight + j * problem.hiddenSize,
                                          problem.hiddenSize);
    });
  };
  TW_RETURN_IF_ERROR(forEachPiece(problem, addPiece));
  return logits;
}

/// Threads share the columns, for the same reason, and each adds the classes up in their order.
Status addHiddenGradients(const SampledProblem &problem, Logits gradients, std::vector<SampledRow> &rows) {
  constexpr int64_t kColumns = 128;
  const int64_t hidden = problem.hiddenSize;
  parallelFor(static_cast<int64_t>(rows.size()), [&](int64_t s) {
    for (int64_t label = 0; label < problem.classes; ++label) {
      double &logit = gradients[s][label];
      logit = logitGradient(problem, rows[s].index, label, std::exp(logit - rows[s].lse));
    }
  });
  for (SampledRow &row : rows)
    row.dHidden.assign(hidden, 0.0);
  const auto addPiece = [&](int64_t first, int64_t count, const float *weight) {
    parallelFor((hidden + kColumns - 1) / kColumns, [&](int64_t block) {
      const int64_t begin = block * kColumns, columns = std::min(kColumns, hidden - begin);
      for (int64_t j = 0; j < count; ++j)
        for (std::size_t s = 0; s < rows.size(); ++s)
          addScaled(&rows[s].dHidden[begin], gradients[s][first + j], weight + j * hidden + begin, columns);
    });
  };
  return forEachPiece(problem, addPiece);
}

} // namespace

StatusOr<std::vector<SampledRow>> sampleRows(const SampledProblem &problem, int64_t count, bool gradient) {
  std::vector<SampledRow> rows;
  for (const int64_t index : spread(count, static_cast<int64_t>(problem.rows.size()))) {
    rows.emplace_back();
    rows.back().index = static_cast<std::size_t>(index);
  }
  TW_ASSIGN_OR_RETURN(Logits logits, logitsOf(problem, rows));
  for (std::size_t s = 0; s < rows.size(); ++s)
    setLoss(rows[s], logits[s]);
  if (!gradient) return rows;
  TW_RETURN_IF_ERROR(addHiddenGradients(problem, std::move(logits), rows));
  return rows;
}

StatusOr<SampledClass> sampleClass(const SampledProblem &problem, int64_t label) {
  TW_ASSIGN_OR_RETURN(const float *weight, problem.weight(label, 1));
  SampledClass sample{label, std::vector<double>(problem.rows.size())};
  parallelFor(static_cast<int64_t>(problem.rows.size()), [&](int64_t i) {
    sample.logits[i] = dotProduct(hiddenRow(problem, i), weight, problem.hiddenSize);
  });
  return sample;
}

std::vector<double> weightGradient(const SampledProblem &problem, const SampledClass &sample,
                                   const std::vector<float> &lse) {
  std::vector<double> gradient(problem.hiddenSize, 0.0);
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    const double probability = std::exp(sample.logits[i] - lse[problem.rows[i]]);
    addScaled(gradient.data(), logitGradient(problem, i, sample.label, probability), hiddenRow(problem, i),
              problem.hiddenSize);
  }
  return gradient;
}

std::vector<int64_t> spread(int64_t count, int64_t size) {
  std::vector<int64_t> positions;
  count = std::min(count, size);
  for (int64_t k = 0; k < count; ++k)
    positions.push_back(count < 2 ? 0 : k * (size - 1) / (count - 1));
  return positions;
}

double dotProduct(const float *a, const float *b, int64_t size) {
  double sums[4] = {0, 0, 0, 0}; // four chains, so that the additions overlap
  int64_t k = 0;
  for (; k + 4 <= size; k += 4)
    for (int i = 0; i < 4; ++i)
      sums[i] += static_cast<double>(a[k + i]) * b[k + i];
  for (; k < size; ++k)
    sums[0] += static_cast<double>(a[k]) * b[k];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void RelativeError::add(const float *a, const double *b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    difference_ += (a[i] - b[i]) * (a[i] - b[i]);
    size_ += b[i] * b[i];
  }
}

double RelativeError::value() const { return std::sqrt(size_ > 0 ? difference_ / size_ : difference_); }

} // namespace tilewright
