#include "kernels/linear_logits.h"

#include <chrono>
#include <vector>

#include "compiler/base/elapsed.h"
#include "kernels/jit.h"
#include "kernels/lce/plan.h"
#include "kernels/loss/carver.h"
#include "kernels/loss/validate.h"

namespace tilewright {
namespace {

using namespace lce;

/// The loss's problem as far as its first product goes.
StatusOr<Problem> validate(const LinearLogitsTensors &t, const LogitOptions &options) {
  LossOptions loss;
  loss.logitScale = options.logitScale;
  loss.softcap = options.softcap;
  TW_RETURN_IF_ERROR(checkOptions(loss, false));
  if (options.lmcl) TW_RETURN_IF_ERROR(checkMargin(*options.lmcl, loss, t.bias.data != nullptr));
  Problem p;
  TW_RETURN_IF_ERROR(checkLinearInputs(t.hidden, t.weight));
  p.rows = t.hidden.sizes[0], p.hidden = t.hidden.sizes[1], p.classes = t.weight.sizes[0];
  p.element = t.hidden.element;
  TW_RETURN_IF_ERROR(checkTf32(options.tf32, p.element));
  p.tf32 = options.tf32;
  TW_RETURN_IF_ERROR(checkGradient(t.logits, "logits", p.rows, p.classes, p.element));
  if (t.bias.data) {
    TW_RETURN_IF_ERROR(checkBias(t.bias, "bias", p.classes, p.element));
    p.terms.bias = t.bias.element;
  }
  p.terms.logitScale = options.logitScale != 1;
  p.terms.softcap = options.softcap.has_value();
  p.terms.margin = options.lmcl.has_value();
  return p;
}

/// Device memory beside inputs and outputs, cut into tensors.
struct Workspace {
  TensorRef rowNorm, classNorm; ///< N, V: of LMCL
  int64_t bytes = 0;
};

Workspace layOut(const Problem &problem, void *base) {
  Carver carver(base);
  Workspace w;
  if (problem.terms.margin) {
    w.rowNorm = carver.vector(ElementType::f32, problem.rows);
    w.classNorm = carver.vector(ElementType::f32, problem.classes);
  }
  w.bytes = carver.bytes();
  return w;
}

Status launchAll(Device &device, Stream stream, const std::vector<KernelHandle> &kernels,
                 const Problem &problem, const LinearLogitsTensors &t, const LogitOptions &options,
                 const Workspace &w) {
  std::vector<KernelArgument> arguments = {t.hidden, t.weight};
  TermValues values;
  values.options.logitScale = options.logitScale;
  values.options.softcap = options.softcap;
  values.bias = t.bias;
  if (options.lmcl) {
    values.margin = *options.lmcl;
    values.classNorm = w.classNorm;
    TW_RETURN_IF_ERROR(device.launch(*kernels[1], {t.hidden, w.rowNorm}, stream));
    TW_RETURN_IF_ERROR(device.launch(*kernels[1], {t.weight, w.classNorm}, stream));
    arguments.push_back(w.rowNorm);
  }
  LogitTerms(problem.terms).bind(values, arguments);
  arguments.push_back(t.logits);
  return device.launch(*kernels[0], arguments, stream);
}

} // namespace

StatusOr<LossReport> linearLogits(Runtime &runtime, const LinearLogitsTensors &tensors,
                                  const LogitOptions &options, Stream stream) {
  TW_ASSIGN_OR_RETURN(const Problem problem, validate(tensors, options));
  Device &device = runtime.device();
  LossReport report;
  auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const Config config, plan(problem, Variant::lossOnly, 0, device.info()));
  CompileOptions compile;
  compile.tf32 = problem.tf32;
  const LogitsSpec spec{problem.element, tensors.logits.element, config.forward.block, problem.terms};
  std::vector<JitRequest> requests = {{logits(spec), compile}};
  if (problem.terms.margin) requests.push_back({rowNorms(problem.element, false), {}});
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> kernels, jitAll(runtime, requests));
  report.compileMilliseconds = millisecondsSince(start);

  start = std::chrono::steady_clock::now();
  report.variant = Variant::lossOnly;
  report.configuration = "block " + config.forward.block.str();
  report.workspaceBytes = layOut(problem, nullptr).bytes;
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  TW_RETURN_IF_ERROR(
      launchAll(device, stream, kernels, problem, tensors, options, layOut(problem, memory.data())));
  TW_RETURN_IF_ERROR(reportNow(device, stream));
  report.runMilliseconds = millisecondsSince(start);
  return report;
}

} // namespace tilewright
