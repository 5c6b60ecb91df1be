#include "kernels/linear_logits.h"

#include <chrono>
#include <utility>

#include "compiler/base/elapsed.h"
#include "kernels/lce/gradient_kernels.h"
#include "kernels/lce/plan.h"
#include "kernels/loss/validate.h"
#include "runtime/argument_memory.h"

namespace tilewright {
namespace {

using namespace lce;

/// The loss's problem as far as its first product goes.
StatusOr<Request> validate(const LinearLogitsTensors &t, const LogitOptions &options) {
  LossOptions loss;
  loss.logitScale = options.logitScale;
  loss.softcap = options.softcap;
  TW_RETURN_IF_ERROR(checkOptions(loss, false));
  if (options.lmcl) TW_RETURN_IF_ERROR(checkMargin(*options.lmcl, loss, t.bias.data != nullptr));
  Request p;
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

namespace id {
enum : TensorId { hidden, weight, bias, logits, status, rowNorm, classNorm };
} // namespace id

/// The caller's tensors, and the norms of LMCL.
TensorTable tensorsOf(const Request &request, const LinearLogitsTensors &t) {
  TensorTable table;
  table.addCallers(id::hidden, "hidden", t.hidden);
  table.addCallers(id::weight, "weight", t.weight);
  table.addCallers(id::logits, "logits", t.logits);
  if (t.bias.data) table.addCallers(id::bias, "bias", t.bias);
  if (request.terms.margin) {
    table.addVector(id::rowNorm, "rowNorm", ElementType::f32, request.rows, {});
    table.addVector(id::classNorm, "classNorm", ElementType::f32, request.classes, {});
  }
  table.place(0);
  return table;
}

Program programOf(const Request &request, const Config &config, const LinearLogitsTensors &t,
                  const LogitOptions &options) {
  Program program(tensorsOf(request, t), {request.rows, request.rows}, id::status);
  const auto arguments = [&] { return StepArguments(program.table()); };
  TermValues values;
  values.options.logitScale = options.logitScale;
  values.options.softcap = options.softcap;
  values.bias = id::bias, values.classNorm = id::classNorm;
  values.margin = options.lmcl.value_or(Margin());
  if (options.lmcl) {
    const int norms = program.addKernel(rowNorms(request.element, false));
    program.addLaunch(norms, arguments().tensors({id::hidden, id::rowNorm}));
    program.addLaunch(norms, arguments().tensors({id::weight, id::classNorm}));
  }
  CompileOptions compile;
  compile.tf32 = request.tf32;
  StepArguments product = arguments();
  product.tensors({id::hidden, id::weight, id::rowNorm});
  LogitTerms(request.terms).bind(values, product);
  const LogitsSpec spec{request.element, t.logits.element, config.forward.block, request.terms};
  program.addLaunch(program.addKernel(logits(spec), compile), product.tensor(id::logits));
  return program;
}

Status checkMemory(const Device &device, const LinearLogitsTensors &t, Stream stream) {
  for (const auto &[name, tensor] : {std::pair{"hidden", &t.hidden}, std::pair{"weight", &t.weight},
                                     std::pair{"bias", &t.bias}, std::pair{"logits", &t.logits}}) {
    if (tensor != &t.logits && overlap(t.logits, *tensor))
      return userError(std::string("logits overlap ") + name + "; they must have memory of their own");
    if (const Status status = device.checkAddress(tensor->data, stream); !status.ok()) return status.in(name);
  }
  return Status();
}

} // namespace

StatusOr<LossReport> linearLogits(Runtime &runtime, const LinearLogitsTensors &tensors,
                                  const LogitOptions &options, Stream stream) {
  TW_ASSIGN_OR_RETURN(const Request request, validate(tensors, options));
  Device &device = runtime.device();
  LossReport report;
  auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const Config config, plan(request, Variant::lossOnly, 0, device.info()));
  Program program = programOf(request, config, tensors, options);
  TW_RETURN_IF_ERROR(program.loadKernels(runtime));
  report.compileMilliseconds = millisecondsSince(start);

  TW_RETURN_IF_ERROR(checkMemory(device, tensors, stream));
  start = std::chrono::steady_clock::now();
  report.variant = Variant::lossOnly;
  report.configuration = "block " + config.forward.block.str();
  report.workspaceBytes = program.table().workspaceBytes();
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  void *const callers[] = {tensors.hidden.data, tensors.weight.data, tensors.bias.data, tensors.logits.data};
  ProgramMemory places;
  places.workspace = static_cast<char *>(memory.data()), places.callers = callers;
  TW_RETURN_IF_ERROR(program.run(device, places, stream));
  report.runMilliseconds = millisecondsSince(start);
  return report;
}

} // namespace tilewright
