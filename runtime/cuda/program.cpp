#include "runtime/cuda/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace tilewright::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A shell waits for the program and writes its exit code to descriptor 3: this process cannot learn it where
/// SIGCHLD is ignored. The end of file is the end of both.
constexpr const char *kReportExit = "\"$@\" 3>&-; echo $? >&3";
constexpr int kReport = 3;

class Spawn {
public:
  Spawn() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn &) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

/// Its process, which leads a group of its own; -1 when it could not be started.
pid_t start(const std::vector<std::string> &words, const std::string &outputFile, int report) {
  Spawn spawn;
  posix_spawn_file_actions_addopen(&spawn.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&spawn.files, STDOUT_FILENO, outputFile.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&spawn.files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, report, kReport);
  posix_spawn_file_actions_addclosefrom_np(&spawn.files, kReport + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> arguments = {"/bin/sh", "-c", kReportExit, "sh"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::string path = "PATH=" + words[0].substr(0, words[0].rfind('/')) + ":/usr/bin:/bin";
  std::string locale = "LC_ALL=C";
  char *environment[] = {path.data(), locale.data(), nullptr};
  pid_t process = -1;
  const int result = posix_spawn(&process, arguments[0].c_str(), &spawn.files, &spawn.attributes,
                                 pointers.data(), environment);
  return result == 0 ? process : -1;
}

/// All that is written to a pipe until its end, or until the deadline.
std::string readUntilEnd(int pipe, Clock::time_point deadline) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd waiting = {pipe, POLLIN, 0};
    const int ready = left > 0 ? poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return text;
    char bytes[16];
    const ssize_t count = read(pipe, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(bytes, count);
  }
}

bool othersMayWrite(const struct stat &info) {
  return (info.st_uid != 0 && info.st_uid != geteuid()) || (info.st_mode & 022);
}

} // namespace

bool runProgram(const std::vector<std::string> &words, const std::string &outputFile, milliseconds limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t process = start(words, outputFile, ends[1]);
  close(ends[1]);
  const std::string report = process > 0 ? readUntilEnd(ends[0], Clock::now() + limit) : "";
  close(ends[0]);
  if (process <= 0) return false;
  if (report.empty()) kill(-process, SIGKILL);
  while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return report == "0\n";
}

std::string distrustOf(const std::string &path) {
  char *resolved = realpath(path.c_str(), nullptr);
  if (!resolved) return "it cannot be found";
  const std::string real = resolved;
  free(resolved);
  for (const std::string &place : {path.substr(0, path.rfind('/')), real.substr(0, real.rfind('/')), real}) {
    struct stat info;
    if (stat(place.empty() ? "/" : place.c_str(), &info) != 0) return place + " cannot be inspected";
    if (othersMayWrite(info)) return "others may write " + place;
  }
  return "";
}

} // namespace tilewright::cuda
