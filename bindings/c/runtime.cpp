#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bindings/c/handles.h"
#include "compiler/base/log_sink.h"
#include "runtime/open_runtime.h"

using namespace tilewright;
using namespace tilewright::c;

namespace {

constexpr int kMaxThreads = 1024;

Status readBundles(const tw_runtime_options &given, Environment &environment) {
  if (given.struct_bytes < sizeof given || !given.bundles) return {};
  environment.bundles.clear();
  for (std::size_t i = 0; i < given.bundle_count; ++i) {
    if (!given.bundles[i]) return expected("bundles");
    environment.bundles.push_back(given.bundles[i]);
  }
  return {};
}

Status readOptions(const tw_runtime_options *given, Environment &environment) {
  if (!given) return {};
  TW_RETURN_IF_ERROR(checkStruct(given, "options", offsetof(tw_runtime_options, bundles)));
  TW_RETURN_IF_ERROR(readBundles(*given, environment));
  if (given->cache_dir) environment.cacheDir = std::strcmp(given->cache_dir, "off") ? given->cache_dir : "";
  if (given->threads < 0 || given->threads > kMaxThreads)
    return userError("threads: expected 0 to " + std::to_string(kMaxThreads) + ", found " +
                     std::to_string(given->threads));
  if (given->threads > 0) environment.threads = given->threads;
  switch (given->autotune) {
  case TW_AUTOTUNE_ENVIRONMENT:
    return {};
  case TW_AUTOTUNE_OFF:
    environment.autotune = AutotuneMode::off;
    return {};
  case TW_AUTOTUNE_READ:
    environment.autotune = AutotuneMode::read;
    return {};
  default:
    return userError("autotune: expected a tw_autotune, found " + std::to_string(given->autotune));
  }
}

/// "cpu", "cuda" or "cuda:INDEX", as the runtime reads them.
DevicePlace placeOf(const std::string &device) {
  if (device == "cpu") return {};
  const std::size_t colon = device.find(':');
  return {kDLCUDA, colon == std::string::npos ? 0 : std::stoi(device.substr(colon + 1))};
}

Status open(const char *device, const tw_runtime_options *options, tw_runtime **runtime) {
  TW_ASSIGN_OR_RETURN(Environment environment, readEnvironment());
  TW_RETURN_IF_ERROR(readOptions(options, environment));
  const std::string name = device && *device ? device : environment.device;
  const char *target = options && options->target ? options->target : "";
  rememberProcess();
  auto result = std::make_unique<tw_runtime>();
  TW_ASSIGN_OR_RETURN(result->runtime, openRuntime(std::move(environment), name, target));
  result->place = placeOf(name);
  result->target = result->runtime->device().target().str();
  *runtime = result.release();
  return {};
}

} // namespace

const char *tw_version(void) { return TW_VERSION; }
int tw_abi_version(void) { return TW_ABI_VERSION; }

tw_code tw_set_log(tw_log_callback callback, void *user_data, int32_t level, tw_error **error) {
  return guarded(error, [&]() -> Status {
    static_assert(static_cast<int>(LogLevel::error) == TW_LOG_ERROR &&
                  static_cast<int>(LogLevel::debug) == TW_LOG_DEBUG);
    if (level < TW_LOG_ERROR || level > TW_LOG_DEBUG)
      return userError("level: expected a tw_log_level, found " + std::to_string(level));
    setLogLevel(static_cast<LogLevel>(level));
    if (!callback) {
      setLogSink({});
      return {};
    }
    setLogSink([callback, user_data](LogLevel level, const std::string &message) {
      callback(user_data, static_cast<tw_log_level>(level), message.c_str());
    });
    return {};
  });
}

tw_code tw_device_count(int *count, tw_error **error) {
  if (count) *count = 0;
  return guarded(error, [&]() -> Status {
    if (!count) return expected("count");
    rememberProcess();
    *count = static_cast<int>(availableDevices().size());
    return {};
  });
}

tw_code tw_device_name(int index, char *name, size_t bytes, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!name) return expected("name");
    rememberProcess();
    const std::vector<std::string> names = availableDevices();
    if (index < 0 || index >= static_cast<int>(names.size()))
      return userError("index: expected 0 to " + std::to_string(names.size() - 1) + ", found " +
                       std::to_string(index));
    const std::string &found = names[index];
    if (bytes <= found.size())
      return userError("name: expected room for " + std::to_string(found.size() + 1) + " bytes, found " +
                       std::to_string(bytes));
    std::memcpy(name, found.c_str(), found.size() + 1);
    return {};
  });
}

tw_code tw_runtime_open(const char *device, const tw_runtime_options *options, tw_runtime **runtime,
                        tw_error **error) {
  if (runtime) *runtime = nullptr;
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    return open(device, options, runtime);
  });
}

void tw_runtime_close(tw_runtime *runtime) { release(runtime); }

tw_code tw_runtime_device_info(const tw_runtime *runtime, tw_device_info *info, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    TW_RETURN_IF_ERROR(checkStruct(info, "info"));
    const DeviceInfo &device = runtime->runtime->device().info();
    info->name = device.name.c_str();
    info->target = runtime->target.c_str();
    info->fingerprint = device.fingerprint.c_str();
    info->memory_bytes = device.memoryBytes;
    info->units = device.units;
    info->device_type = runtime->place.type;
    info->device_index = runtime->place.index;
    return {};
  });
}

tw_code tw_runtime_counters(const tw_runtime *runtime, tw_counters *counters, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    TW_RETURN_IF_ERROR(checkStruct(counters, "counters", offsetof(tw_counters, from_bundles)));
    const RuntimeCounters counted = runtime->runtime->counters();
    counters->compiled = counted.compiled;
    counters->from_disk = counted.diskHits;
    counters->from_memory = counted.memoryHits;
    counters->compile_milliseconds = counted.compileMilliseconds;
    if (counters->struct_bytes == sizeof *counters) counters->from_bundles = counted.bundleHits;
    return {};
  });
}

tw_code tw_call_status_create(tw_runtime *runtime, void *words, tw_call_status **status, tw_error **error) {
  static_assert(TW_CALL_STATUS_BYTES == kCallStatusBytes);
  if (status) *status = nullptr;
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    if (!status) return expected("status");
    if (reinterpret_cast<uintptr_t>(words) % alignof(int64_t))
      return userError("words: expected an address that is a multiple of 8, found one that is not");
    auto made = std::make_unique<tw_call_status>();
    made->runtime = runtime->runtime;
    Device &device = runtime->runtime->device();
    StatusOr<CallStatus> callStatus = words ? CallStatus::at(device, words) : CallStatus::allocate(device);
    if (!callStatus.ok()) return words ? callStatus.status().in("words") : callStatus.status();
    made->status = *std::move(callStatus);
    *status = made.release();
    return {};
  });
}

int tw_call_status_is_done(const tw_call_status *status) { return !status || status->status.isDone(); }

tw_code tw_call_status_error(const tw_call_status *status, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!status) return expected("status");
    return status->status.error();
  });
}

void tw_call_status_free(tw_call_status *status) { release(status); }
