#include "kernels/bundle_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>

#include "compiler/base/parallel.h"
#include "compiler/compile.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/ptxas.h"
#include "runtime/disk/bundle_file.h"
#include "runtime/host_sources.h"

namespace tilewright {
namespace {

StatusOr<Artifact> compileFor(const JitRequest &request, const Target &target, const Environment &environment,
                              const std::optional<cuda::Ptxas> &ptxas) {
  TW_ASSIGN_OR_RETURN(Artifact artifact, compile(request.kernel, target, request.options, environment));
  artifact.compileMilliseconds = 0; // the same kernels make the same file
  if (ptxas) {
    TW_ASSIGN_OR_RETURN(artifact.binary, ptxas->assemble(artifact.kernel, artifact.assembly, target.arch));
  }
  return artifact;
}

/// Beside it first: who opens the file meanwhile sees the old one or the new one.
Status replaceFile(const std::string &path, const std::string &bytes) {
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  const bool isWritten = !file.fail();
  if (isWritten && std::rename(beside.c_str(), path.c_str()) == 0) return {};
  const Status failure = runtimeError("cannot write " + path + ": " + std::strerror(errno));
  std::remove(beside.c_str());
  return failure;
}

} // namespace

void BundleWriter::add(Kernel kernel, const CompileOptions &options) {
  const KernelKey key = {kernel.name, kernel.specialisation, options.str()};
  covers_.push_back("kernel '" + kernel.name + "'");
  kernels_.emplace(key.str(), JitRequest{std::move(kernel), options});
}

Status BundleWriter::add(const CoveredCalls &calls) {
  TW_RETURN_IF_ERROR(addKernels(calls, target_, device_, kernels_));
  covers_.push_back(calls.str());
  return {};
}

StatusOr<int64_t> BundleWriter::write(const std::string &path, const Environment &environment) const {
  constexpr int anyVersion = std::numeric_limits<int>::max(); // nothing is loaded here
  std::optional<cuda::Ptxas> ptxas;
  if (target_.kind == TargetKind::nvptx) ptxas = cuda::Ptxas::find(environment.toolFolders, anyVersion);
  std::vector<const JitRequest *> requests;
  for (const auto &[key, request] : kernels_)
    requests.push_back(&request);
  std::vector<std::optional<StatusOr<Artifact>>> made(requests.size());
  parallelFor(static_cast<int64_t>(requests.size()),
              [&](int64_t i) { made[i] = compileFor(*requests[i], target_, environment, ptxas); });

  BundleContents contents{hostSources(), target_.str(), device_, covers_, {}};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!made[i]->ok()) return made[i]->status();
    const JitRequest &request = *requests[i];
    contents.kernels.push_back(
        {{request.kernel.name, request.kernel.specialisation, request.options.str()}, **std::move(made[i])});
  }
  TW_ASSIGN_OR_RETURN(const std::string bytes, encodeBundle(contents));
  TW_RETURN_IF_ERROR(replaceFile(path, bytes));
  return static_cast<int64_t>(bytes.size());
}

DeviceInfo exportDevice(const Target &target) {
  if (target.kind == TargetKind::cpu) return CpuDevice(0).info();
  const bool isHopper = target.capability() >= 90;
  DeviceInfo info;
  info.name = isHopper ? "NVIDIA H200" : "NVIDIA A100";
  info.units = isHopper ? 132 : 108;
  info.memoryBytes = int64_t(isHopper ? 141 : 80) << 30;
  info.cacheBytes = int64_t(isHopper ? 60 : 40) << 20;
  info.sharedBytes = target.sharedLimit();
  info.warpgroups = target.arch == "sm_90a";
  return info;
}

} // namespace tilewright
