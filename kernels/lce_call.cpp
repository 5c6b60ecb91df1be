#include "kernels/lce_call.h"

#include "compiler/base/log.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/search.h"
#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

/// A tensor of LinearCrossEntropyTensors: the one place that says which it is in a program.
struct Member {
  TensorId id;
  TensorRef LinearCrossEntropyTensors::*tensor;
  const char *name;
  bool isOutput = false;
};

using T = LinearCrossEntropyTensors;
constexpr Member kMembers[] = {
    {tensor::hidden, &T::hidden, "hidden"},
    {tensor::weight, &T::weight, "weight"},
    {tensor::label, &T::label, "label"},
    {tensor::gradOutput, &T::gradOutput, "gradOutput"},
    {tensor::bias, &T::bias, "bias"},
    {tensor::classWeight, &T::classWeight, "classWeight"},
    {tensor::gradLse, &T::gradLse, "gradLse"},
    {tensor::gradEntropy, &T::gradEntropy, "gradEntropy"},
    {tensor::savedLse, &T::savedLse, "savedLse"},
    {tensor::loss, &T::loss, "loss", true},
    {tensor::lse, &T::lse, "lse", true},
    {tensor::dHidden, &T::dHidden, "dHidden", true},
    {tensor::dWeight, &T::dWeight, "dWeight", true},
    {tensor::dBias, &T::dBias, "dBias", true},
    {tensor::entropy, &T::entropy, "entropy", true},
    {tensor::argmax, &T::argmax, "argmax", true},
    {tensor::correct, &T::correct, "correct", true},
    {tensor::monitored, &T::monitored, "monitored", true},
};

PreparedCall::Facts factsOf(const Request &request) {
  PreparedCall::Facts facts;
  for (const Member &member : kMembers) {
    const bool isProducts =
        member.id == tensor::weight || member.id == tensor::dHidden || member.id == tensor::dWeight;
    facts.callers.push_back({member.id, member.name, member.isOutput, request.aligned && isProducts});
  }
  if (request.isShard()) {
    facts.callers.push_back({tensor::stats, "stats", true, false, kNoTensor, true});
    facts.callers.push_back({tensor::gathered, "gathered", false, false, kNoTensor, true});
  }
  if (request.dWeight) facts.borrowed = tensor::dWeight;
  facts.checksWeights = request.terms.classWeight;
  return facts;
}

} // namespace

TensorsById::TensorsById(const LinearCrossEntropyTensors &tensors) {
  for (const Member &member : kMembers)
    pointers_[member.id] = &(tensors.*member.tensor);
}

TensorsById::TensorsById(const LinearCrossEntropyTensors &tensors, const ExchangedTensors &exchanged)
    : TensorsById(tensors) {
  pointers_[tensor::stats] = &exchanged.stats;
  pointers_[tensor::gathered] = &exchanged.gathered;
}

StatusOr<Config> pinnedOrPlanned(const Request &request, const LinearCrossEntropyOptions &options,
                                 const DeviceInfo &device) {
  if (options.configuration.empty()) return plan(request, options.variant, options.workspaceLimit, device);
  TW_ASSIGN_OR_RETURN(const Configuration configuration, parseConfiguration(options.configuration));
  return configOf(configuration, request, device);
}

StatusOr<CallPlan> planCall(const LinearCrossEntropyTensors &tensors,
                            const LinearCrossEntropyOptions &options, const DeviceInfo &device,
                            CallPass pass) {
  TW_ASSIGN_OR_RETURN(const Request request, requestFor(tensors, options, device, pass));
  TW_ASSIGN_OR_RETURN(const Config config, pinnedOrPlanned(request, options, device));
  return CallPlan{request, config, schemeFor(request, config.variant)};
}

StatusOr<Program> plannedProgram(const LinearCrossEntropyTensors &tensors,
                                 const LinearCrossEntropyOptions &options, CallPass pass,
                                 const DeviceInfo &device, TargetKind target) {
  TW_ASSIGN_OR_RETURN(const CallPlan call, planCall(tensors, options, device, pass));
  const OptionValues values = {options, options.lmcl.value_or(Margin())};
  return programFor(call.scheme, call.config, values, target);
}

StatusOr<std::shared_ptr<const PreparedCall>> prepareCall(Runtime &runtime, const Request &request,
                                                          const Config &config,
                                                          const LinearCrossEntropyOptions &options) {
  const Scheme scheme = schemeFor(request, config.variant);
  logDebug("preparing " + request.str() + ": " + scheme.str() + "; " + config.str());
  const OptionValues values = {options, options.lmcl.value_or(Margin())};
  TW_ASSIGN_OR_RETURN(Program program, programFor(scheme, config, values, runtime.device().target().kind));
  TW_ASSIGN_OR_RETURN(std::unique_ptr<const PreparedCall> call,
                      PreparedCall::make(runtime, std::move(program), factsOf(request)));
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

Status compileProduct(Runtime &runtime, const Request &request, const Config &config, ProductKind product) {
  const Scheme scheme = schemeFor(request, config.variant);
  TW_ASSIGN_OR_RETURN(const Program program, programFor(scheme, config, {}, runtime.device().target().kind));
  return program.compileTagged(runtime, static_cast<int>(product));
}

} // namespace tilewright::lce
