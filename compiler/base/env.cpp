#include "compiler/base/env.h"

#include <algorithm>
#include <cstdlib>

namespace tilewright {
namespace {

constexpr int kMaxThreads = 1024;

std::string valueOf(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

Status notUnderstood(const char *name, const std::string &value) {
  const auto &table = envVariables();
  auto row = std::find_if(table.begin(), table.end(),
                          [&](const EnvVariable &v) { return v.name == std::string(name); });
  return userError(std::string(name) + " is '" + value +
                   "', which is not understood; choices: " + row->choices);
}

/// `$XDG_CACHE_HOME/tilewright` or `$HOME/.cache/tilewright`; empty when there is neither. Relative folders
/// would make the cache depend on the working directory.
std::string defaultCacheDir() {
  if (std::string base = valueOf("XDG_CACHE_HOME"); !base.empty() && base[0] == '/')
    return base + "/tilewright";
  if (std::string home = valueOf("HOME"); !home.empty() && home[0] == '/') return home + "/.cache/tilewright";
  return "";
}

bool isDigits(const std::string &text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool isDevice(const std::string &text) {
  return text == "cpu" || text == "cuda" || (text.rfind("cuda:", 0) == 0 && isDigits(text.substr(5)));
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

/// The folders of PATH, then CUDA_HOME's. What is relative would depend on the working directory.
std::vector<std::string> readToolFolders() {
  std::vector<std::string> folders;
  for (const std::string &folder : split(valueOf("PATH"), ':'))
    if (!folder.empty() && folder[0] == '/') folders.push_back(folder);
  if (std::string home = valueOf("CUDA_HOME"); !home.empty() && home[0] == '/')
    folders.push_back(home + "/bin");
  return folders;
}

void readCacheDir(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_CACHE_DIR");
  if (value.empty())
    environment.cacheDir = defaultCacheDir();
  else if (value != "off")
    environment.cacheDir = value;
}

void readBundles(Environment &environment) {
  for (const std::string &path : split(valueOf("TILEWRIGHT_BUNDLES"), ':'))
    if (!path.empty()) environment.bundles.push_back(path);
}

Status readDevice(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_DEVICE");
  if (value.empty()) return {};
  if (!isDevice(value)) return notUnderstood("TILEWRIGHT_DEVICE", value);
  environment.device = value;
  return {};
}

Status readDump(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_DUMP");
  if (value.empty()) return {};
  for (const std::string &stage : split(value, ',')) {
    if (stage != "tile" && stage != "lowered" && stage != "llvm" && stage != "assembly")
      return notUnderstood("TILEWRIGHT_DUMP", value);
    environment.dump.push_back(stage);
  }
  return {};
}

Status readLog(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_LOG");
  if (value.empty()) return {};
  for (LogLevel level : {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug})
    if (value == logLevelName(level)) {
      environment.log = level;
      return {};
    }
  return notUnderstood("TILEWRIGHT_LOG", value);
}

Status readAutotune(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_AUTOTUNE");
  if (value == "off")
    environment.autotune = AutotuneMode::off;
  else if (value == "write")
    environment.autotune = AutotuneMode::write;
  else if (!value.empty() && value != "read")
    return notUnderstood("TILEWRIGHT_AUTOTUNE", value);
  return {};
}

Status readThreads(Environment &environment) {
  std::string value = valueOf("TILEWRIGHT_THREADS");
  if (value.empty()) return {};
  int threads = isDigits(value) ? std::stoi(value) : 0;
  if (threads < 1 || threads > kMaxThreads) return notUnderstood("TILEWRIGHT_THREADS", value);
  environment.threads = threads;
  return {};
}

std::string readKeyLines() {
  std::string lines;
  for (const EnvVariable &variable : envVariables())
    if (std::string value = valueOf(variable.name); variable.entersKey && !value.empty())
      lines += std::string(variable.name) + "=" + value + "\n";
  return lines;
}

} // namespace

const std::vector<EnvVariable> &envVariables() {
  static const std::vector<EnvVariable> table = {
      {"TILEWRIGHT_AUTOTUNE",
       "whether tuned configurations are used, and sought at the first call if missing",
       "off (ignore them), read (use them), write (tune what has none); default: read", false},
      {"TILEWRIGHT_BUNDLES", "compiled kernels (tilewright export) that are used before all others",
       "a colon-separated list of files; default: none", false},
      {"TILEWRIGHT_CACHE_DIR", "where compiled kernels and tuning records are kept",
       "a path, or off; default: $XDG_CACHE_HOME/tilewright, else $HOME/.cache/tilewright", false},
      {"TILEWRIGHT_DEVICE", "the device used when none is named", "cpu, cuda, cuda:INDEX; default: cpu",
       false},
      {"TILEWRIGHT_DUMP", "stages written while compiling; kernels are then not read from disk",
       "a comma-separated list of tile, lowered, llvm, assembly", false},
      {"TILEWRIGHT_DUMP_DIR", "the folder that dumps go to, and what repeats a pass that failed",
       "a path; default: the working directory, for dumps alone", false},
      {"TILEWRIGHT_LOG", "how much is written to stderr", "error, warning, info, debug; default: warning",
       false},
      {"TILEWRIGHT_TARGET", "what code of a device of that kind is generated for",
       "sm_80, sm_90, …; x86-64-v3, znver4, …; default: all that the device has", false},
      {"TILEWRIGHT_THREADS", "threads of the CPU device",
       "1 to 1024; default: one for each core this process may use", false},
      {"CUDA_HOME", "where NVIDIA's assembler is sought if not on PATH", "the path of a CUDA toolkit", false},
      {"PATH", "where NVIDIA's assembler is sought", "paths with colons between them", false},
      {"XDG_CACHE_HOME", "where the default cache folder lies", "an absolute path", false},
      {"HOME", "where the default cache folder lies without XDG_CACHE_HOME", "an absolute path", false},
  };
  return table;
}

std::string currentValue(const EnvVariable &variable) { return valueOf(variable.name); }

StatusOr<Environment> readEnvironment() {
  Environment environment;
  readCacheDir(environment);
  readBundles(environment);
  TW_RETURN_IF_ERROR(readDevice(environment));
  TW_RETURN_IF_ERROR(readDump(environment));
  TW_RETURN_IF_ERROR(readLog(environment));
  TW_RETURN_IF_ERROR(readAutotune(environment));
  TW_RETURN_IF_ERROR(readThreads(environment));
  environment.toolFolders = readToolFolders();
  environment.keyLines = readKeyLines();
  environment.target = valueOf("TILEWRIGHT_TARGET");
  if (std::string value = valueOf("TILEWRIGHT_DUMP_DIR"); !value.empty()) environment.dumpDir = value;
  return environment;
}

} // namespace tilewright
