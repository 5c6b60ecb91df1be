#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/dsl/builder.h"
#include "compiler/element_type.h"
#include "kernels/loss/validate.h"
#include "kernels/loss_options.h"
#include "kernels/program/program.h"
#include "runtime/device.h"

namespace tilewright {

/// An option of a loss enters its kernels as a *term*, one file each: a step on the way from x·w to the
/// logit, or a part of a row's loss and of its gradient. A term that is off leaves no trace in any kernel.

/// Which terms are on. This much of the options is compiled into kernels; their values are parameters.
struct LossTerms {
  std::optional<ElementType> bias; ///< its type
  bool logitScale = false, softcap = false, margin = false;
  bool prob = false; ///< instead of log_prob
  bool classWeight = false, labelSmoothing = false, zLoss = false;
  bool gradLse = false, gradEntropy = false;

  /// dz/d(x·w) is 1.
  bool logitsAreProducts() const { return !logitScale && !softcap && !margin; }
  /// dz/d(x·w) differs from class to class.
  bool hasClassRates() const { return softcap || margin; }
  std::string logitStr() const; ///< names of the logit's terms, each with a comma before it
  std::string rowStr() const;   ///< names of the others
};

/// Those that options and their (checked) tensors ask for; bias and margin aside.
LossTerms termsOf(const LossOptions &options, const OptionTensors &tensors);

/// What terms' parameters are bound to.
struct TermValues {
  LossOptions options;
  Margin margin;
  int64_t classes = 0;
  TensorId bias = kNoTensor, classWeight = kNoTensor; ///< the caller's
  TensorId gradLse = kNoTensor, gradEntropy = kNoTensor;
  TensorId weightFacts = kNoTensor; ///< of class weights, see loss/kernels.h
  TensorId classNorm = kNoTensor;   ///< V: 1 / |w_j|
};

/// Where logits are: a block of rows and classes, or one class a row, its label.
struct LogitPlace {
  Range rows;
  std::optional<Range> classes; ///< not set: the label
  Tile label;                   ///< of the rows, R×1
  Tile rowNorm;                 ///< 1 / |x_i|, R×1, where there is a margin

  Tile perClass(const View &vector) const; ///< 1×C, or R×1
};

/// A step from the product x·w to the logit z.
class LogitTerm {
public:
  virtual ~LogitTerm() = default;
  virtual void declare(KernelBuilder &k) = 0;
  virtual void bind(const TermValues &values, StepArguments &arguments) const = 0;
  virtual Tile apply(const Tile &t, const LogitPlace &place) const = 0;
  /// The derivative of the step is rowRate · classRate, each 1 where it is not valid. The first is the same
  /// for all classes of a row.
  virtual Tile rowRate(const LogitPlace &) const { return {}; }
  virtual Tile classRate(const Tile & /*z*/, const LogitPlace &) const { return {}; }
};

/// All of them in order.
class LogitTerms {
public:
  explicit LogitTerms(const LossTerms &terms);
  void declare(KernelBuilder &k) const;
  void bind(const TermValues &values, StepArguments &arguments) const;
  Tile logit(const Tile &product, const LogitPlace &place) const;
  Tile rowRate(const LogitPlace &place) const;
  Tile classRate(const Tile &z, const LogitPlace &place) const;

private:
  std::vector<std::unique_ptr<LogitTerm>> terms_;
};

/// Sums over a row's classes that some terms need. E = exp(z - a) without the target, u = class weights.
enum class RowSum {
  stored,        ///< Σ of E as it is stored: times dz/d(x·w), rounded
  exact,         ///< the same before rounding, where that is not Σ E
  moments,       ///< Σ E (z - a)
  secondMoments, ///< Σ E (z - a)²
  weighedLogits, ///< Σ u z
  squares,       ///< Σ z²
};
constexpr int kRowSums = 6;
const char *rowSumName(RowSum sum);
template <typename T> using PerRowSum = std::array<T, kRowSums>;

/// What is known of a block of rows once their logits are.
struct RowFacts {
  KernelBuilder *k = nullptr;
  Tile number, label; ///< which of the N rows; R×1, i32
  Tile shift;         ///< a
  Tile distance;      ///< z_y - a
  Tile logMass;       ///< lse - a
  Tile lse;
  Tile nll;                ///< -log p_y
  Tile probability, other; ///< p_y, 1 - p_y
  Tile v;                  ///< p_ij = v E_ij
  Tile rowNorm;            ///< 1 / |x_i|, where there is a margin
  Tile entropy;            ///< where there are moments
  PerRowSum<Tile> sums;    ///< those that are asked for
  Tile g;                  ///< the gradient that arrives for the row's loss; not valid: none is wanted

  // What terms tell each other; not valid: 1.
  Tile weight;      ///< of the row's -log p_y
  Tile classWeight; ///< u_y
  Tile share;       ///< what a mean multiplies main_i with, when it does not divide by the number of rows
  Tile meanWeight;  ///< Σ_c u_c / V
};

/// What follows from shift, distance, the sums that are asked for, and Σ E.
void addProbabilities(RowFacts &row, const Tile &others);

/// The loss of rows, and its gradient (with g in it):
///     dloss/dz_ij = pull (p_ij - [j = y]) + mass p_ij + moment p_ij (z_ij - a) - uniform u_j
/// What is not valid is 0.
struct RowTotals {
  Tile loss, pull, mass, moment, uniform;
  Tile self; ///< dx_i gets self x_i, for what x_i does beside x_i·w_j
};
/// What multiplies p_ij: pull + mass.
Tile factorOfP(const RowTotals &totals);
/// dloss/dz_iy but for its uniform part.
Tile targetGradient(const RowFacts &row, const RowTotals &totals);
void addTo(Tile &total, const Tile &part);
/// a · b, where a factor that is not valid is 1.
Tile times(const Tile &a, const Tile &b);

/// A part of a row's loss.
class RowTerm {
public:
  virtual ~RowTerm() = default;
  virtual void declare(KernelBuilder &k) = 0;
  virtual void bind(const TermValues &values, StepArguments &arguments) const = 0;
  virtual void prepare(RowFacts &) const {}
  virtual void add(const RowFacts &, RowTotals &) const {}
  virtual void finish(const RowFacts &, RowTotals &) const {}
};

/// All of them; those of gradients alone only when there is one.
class RowTerms {
public:
  RowTerms(const LossTerms &terms, bool gradients);
  void declare(KernelBuilder &k) const;
  void bind(const TermValues &values, StepArguments &arguments) const;
  RowTotals totals(RowFacts &facts) const;

private:
  std::vector<std::unique_ptr<RowTerm>> terms_;
};

// One maker a file.
std::unique_ptr<LogitTerm> biasTerm(ElementType element);
std::unique_ptr<LogitTerm> logitScaleTerm();
std::unique_ptr<LogitTerm> softcapTerm();
std::unique_ptr<LogitTerm> marginTerm();
std::unique_ptr<RowTerm> marginGradientTerm();
std::unique_ptr<RowTerm> classWeightTerm();
std::unique_ptr<RowTerm> labelSmoothingTerm();
std::unique_ptr<RowTerm> logProbTerm();
std::unique_ptr<RowTerm> probTerm();
std::unique_ptr<RowTerm> zLossTerm();
std::unique_ptr<RowTerm> lseGradientTerm();
std::unique_ptr<RowTerm> entropyGradientTerm();

} // namespace tilewright
