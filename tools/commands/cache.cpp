#include <fmt/format.h>

#include "autotune/tuning_cache.h"
#include "compiler/base/byte_text.h"
#include "compiler/base/env.h"
#include "compiler/base/version.h"
#include "runtime/artifact_cache.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"

namespace tilewright {
namespace {

StatusOr<std::unique_ptr<ArtifactCache>> openCache(std::string &dir) {
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  dir = environment.cacheDir;
  if (dir.empty())
    return userError("expected a cache folder, found none; set TILEWRIGHT_CACHE_DIR or HOME to a folder");
  return ArtifactCache::open(dir);
}

std::string ageText(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

Status list(ArtifactCache &cache, const std::string &dir) {
  TW_ASSIGN_OR_RETURN(const std::vector<CacheEntry> entries, cache.entries());
  Table table({"entry", "kernel", "size", "age", "state"});
  int64_t bytes = 0;
  for (const CacheEntry &entry : entries) {
    bytes += entry.bytes;
    const std::string kernel = entry.key.kernel.name + " " + entry.key.kernel.specialisation;
    table.add({entry.digest.substr(0, 12), printable(kernel), byteText(static_cast<double>(entry.bytes)),
               ageText(entry.secondsOld), entry.problem.empty() ? "good" : "damaged"});
  }
  if (!entries.empty()) fmt::print("{}", table.str(""));
  fmt::print("{} kernels, {} in {}\n", entries.size(), byteText(static_cast<double>(bytes)), dir);
  for (const TuningCache::Record &record : TuningCache::shared(dir)->records()) {
    const int64_t limit = record->workspaceLimit;
    fmt::print("tuned: {} {}{}, {}{}\n", record->key.operation, record->key.problem.str(),
               limit > 0 ? " in " + byteText(static_cast<double>(limit)) : "", record->deviceName,
               record->complete ? "" : " (interrupted)");
  }
  return {};
}

Status verify(ArtifactCache &cache, const std::string &dir) {
  TW_ASSIGN_OR_RETURN(const std::vector<CacheEntry> entries, cache.entries());
  std::size_t damaged = 0;
  for (const CacheEntry &entry : entries) {
    if (entry.problem.empty()) continue;
    ++damaged;
    fmt::print("{}: {}\n", entry.digest.substr(0, 12), printable(entry.problem));
  }
  fmt::print("{} kernels, {} damaged in {}\n", entries.size(), damaged, dir);
  if (damaged == 0) return {};
  return runtimeError(
      fmt::format("expected whole entries, found {} damaged; they are compiled anew when needed, or "
                  "remove them: tilewright cache prune",
                  damaged));
}

Status prune(ArtifactCache &cache, const std::string &dir) {
  TW_ASSIGN_OR_RETURN(const ArtifactCache::Pruned pruned, cache.prune(compilerVersion()));
  fmt::print("removed {} kernels ({}) and {} leftovers from {}\n", pruned.entries,
             byteText(static_cast<double>(pruned.bytes)), pruned.leftovers, dir);
  return {};
}

Status exportTo(ArtifactCache &cache, const std::string &file) {
  TW_ASSIGN_OR_RETURN(const int count, cache.exportTo(file));
  fmt::print("wrote {} kernels to {}\n", count, file);
  return {};
}

Status importFrom(ArtifactCache &cache, const std::string &file) {
  TW_ASSIGN_OR_RETURN(const int count, cache.importFrom(file));
  fmt::print("added {} kernels from {}\n", count, file);
  return {};
}

bool isTuningFile(const std::string &file) {
  const std::string ending = ".json";
  return file.size() > ending.size() && file.compare(file.size() - ending.size(), ending.size(), ending) == 0;
}

Status exportTuning(const std::string &dir, const std::string &file) {
  TW_ASSIGN_OR_RETURN(const int count, TuningCache::shared(dir)->exportTo(file));
  fmt::print("wrote {} tuning records to {}\n", count, file);
  return {};
}

Status importTuning(const std::string &dir, const std::string &file) {
  TW_ASSIGN_OR_RETURN(const int count, TuningCache::shared(dir)->importFrom(file));
  fmt::print("added {} tuning records from {}\n", count, file);
  return {};
}

Status cacheAction(const Arguments &arguments) {
  const std::vector<std::string> &words = arguments.positionals();
  const std::string action = words.empty() ? "" : words[0];
  const bool takesFile = action == "export" || action == "import";
  if (action != "list" && action != "verify" && action != "prune" && !takesFile)
    return userError("expected list, verify, prune, export FILE or import FILE; found '" + action + "'");
  if (takesFile != (words.size() == 2))
    return userError("expected " + action +
                     (takesFile ? " FILE, found no file" : " alone, found '" + words[1] + "'"));
  std::string dir;
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactCache> cache, openCache(dir));
  if (action == "list") return list(*cache, dir);
  if (action == "verify") return verify(*cache, dir);
  if (action == "prune") return prune(*cache, dir);
  if (isTuningFile(words[1]))
    return action == "export" ? exportTuning(dir, words[1]) : importTuning(dir, words[1]);
  return action == "export" ? exportTo(*cache, words[1]) : importFrom(*cache, words[1]);
}

} // namespace

Command cacheCommand() {
  Command command;
  command.name = "cache";
  command.summary = "the compiled kernels and tuning records on disk";
  command.usage =
      "list          every kernel, its size, age and state\n"
      "verify        checks every file against its hash; exit code 1 if any is damaged\n"
      "prune         removes damaged kernels, those of other versions, and what dead processes left\n"
      "export FILE   all good kernels as one tar file; to a FILE.json, the tuning records\n"
      "import FILE   adds those of an exported file; kernels will be run, so trust their source";
  command.positionals = 2;
  command.run = cacheAction;
  return command;
}

} // namespace tilewright
