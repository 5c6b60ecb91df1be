#include <array>

#include "bindings/c/handles.h"
#include "runtime/argument_memory.h"

struct tw_kernel {
  std::shared_ptr<tilewright::Runtime> runtime;
  tilewright::c::DevicePlace place;
  tilewright::KernelHandle kernel;
};

using namespace tilewright;
using namespace tilewright::c;

namespace {

/// The one kernel of a name, or the one of its specialisations that is asked for.
StatusOr<KernelKey> findKey(const Runtime &runtime, const char *name, const char *specialisation) {
  if (!runtime.bundles()) return userError("name: the runtime was opened without bundles");
  std::vector<KernelKey> found;
  for (const KernelKey &key : runtime.bundles()->named(name))
    if (!specialisation || key.specialisation == specialisation) found.push_back(key);
  if (found.size() == 1) return found[0];
  if (found.empty())
    return runtime.bundles()->missing({name, specialisation ? specialisation : "any", "any"});
  std::string choices;
  for (const KernelKey &key : found)
    choices += (choices.empty() ? "'" : ", '") + key.specialisation + "'";
  return userError("specialisation: expected one of " + choices + ", as there are several kernels '" + name +
                   "'");
}

Status bind(const Parameter &parameter, const tw_kernel_argument &given, DevicePlace place,
            KernelArgument &argument) {
  switch (parameter.kind) {
  case Parameter::Kind::index:
    argument = given.index;
    return {};
  case Parameter::Kind::float32:
    argument = given.number;
    return {};
  case Parameter::Kind::view:
    break;
  }
  if (!given.tensor) return expected(parameter.name.c_str());
  return readTensor({given.tensor, parameter.name.c_str(), parameter.rank, &argument.emplace<TensorRef>()},
                    place, Use::run);
}

} // namespace

tw_code tw_kernel_find(tw_runtime *runtime, const char *name, const char *specialisation, tw_kernel **kernel,
                       tw_error **error) {
  if (kernel) *kernel = nullptr;
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    if (!name) return expected("name");
    if (!kernel) return expected("kernel");
    TW_ASSIGN_OR_RETURN(const KernelKey key, findKey(*runtime->runtime, name, specialisation));
    TW_ASSIGN_OR_RETURN(KernelHandle loaded, runtime->runtime->kernel(key, {}));
    *kernel = new tw_kernel{runtime->runtime, runtime->place, std::move(loaded)};
    return {};
  });
}

void tw_kernel_free(tw_kernel *kernel) { release(kernel); }

size_t tw_kernel_parameter_count(const tw_kernel *kernel) {
  return kernel ? kernel->kernel->artifact().parameters.size() : 0;
}

const char *tw_kernel_parameter_name(const tw_kernel *kernel, size_t index) {
  return index < tw_kernel_parameter_count(kernel) ? kernel->kernel->artifact().parameters[index].name.c_str()
                                                   : nullptr;
}

tw_code tw_kernel_launch(const tw_kernel *kernel, const tw_kernel_argument *arguments, size_t argument_count,
                         void *stream, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!kernel) return expected("kernel");
    const std::vector<Parameter> &parameters = kernel->kernel->artifact().parameters;
    if (argument_count != parameters.size())
      return userError("argument_count: expected " + std::to_string(parameters.size()) + ", found " +
                       std::to_string(argument_count));
    if (!arguments && argument_count > 0) return expected("arguments");
    constexpr std::size_t kMostOnStack = 32;
    std::array<KernelArgument, kMostOnStack> few;
    std::vector<KernelArgument> many(argument_count > kMostOnStack ? argument_count : 0);
    KernelArgument *bound = many.empty() ? few.data() : many.data();
    for (std::size_t i = 0; i < argument_count; ++i)
      TW_RETURN_IF_ERROR(bind(parameters[i], arguments[i], kernel->place, bound[i]));
    Device &device = kernel->runtime->device();
    TW_RETURN_IF_ERROR(checkOverlaps(kernel->kernel->artifact(), {bound, argument_count}));
    TW_RETURN_IF_ERROR(checkAddresses(device, kernel->kernel->artifact(), {bound, argument_count}, stream));
    return device.launch(*kernel->kernel, {bound, argument_count}, stream);
  });
}
