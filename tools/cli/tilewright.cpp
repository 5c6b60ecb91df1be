#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "compiler/base/env.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"

namespace tilewright {
namespace {

constexpr int kDone = 0, kOtherError = 1, kUserError = 2;

std::vector<Command> allCommands() {
  return {demoCommand(),   runCommand(),     tuneCommand(), benchCommand(), emitCommand(),
          exportCommand(), inspectCommand(), planCommand(), cacheCommand()};
}

void printOverview(const std::vector<Command> &commands) {
  std::printf(
      "tilewright: kernels compiled as they are called; linear + cross entropy without the logits\n\n");
  for (const Command &command : commands)
    std::printf("  tilewright %-9s %s\n", command.name.c_str(), command.summary.c_str());
  std::printf(
      "\n`tilewright COMMAND --help` says more. Exit code: 0 done, 2 a mistake in what was asked, 1 anything "
      "else.\n");
}

Status unknownCommand(const std::string &word, const std::vector<Command> &commands) {
  std::string names;
  for (const Command &command : commands)
    names += (names.empty() ? "" : ", ") + command.name;
  return userError("expected a command (" + names + "), found '" + word + "'; see tilewright --help");
}

bool asksForHelp(const std::vector<std::string> &words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string &w) { return w == "--help" || w == "-h"; });
}

Status dispatch(const std::vector<std::string> &words) {
  const std::vector<Command> commands = allCommands();
  if (words.empty()) return userError("expected a command, found none; see tilewright --help");
  if (words[0] == "--help" || words[0] == "-h") {
    printOverview(commands);
    return {};
  }
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const Command &c) { return c.name == words[0]; });
  if (command == commands.end()) return unknownCommand(words[0], commands);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (asksForHelp(rest)) {
    std::fputs(helpText(*command).c_str(), stdout);
    return {};
  }
  TW_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::parse(*command, rest));
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  setDefaultLogLevel(environment.log);
  return command->run(arguments);
}

/// The standard library reports a lack of memory by an exception; nothing else throws.
Status guardedDispatch(const std::vector<std::string> &words) {
  try {
    return dispatch(words);
  } catch (const std::bad_alloc &) {
    return memoryError("not enough memory for this problem; make it smaller, or free some");
  } catch (const std::exception &error) {
    return internalError(error.what());
  }
}

int exitCode(const Status &status) {
  if (status.ok()) return kDone;
  const bool isTheirs = status.kind() == StatusKind::user || status.kind() == StatusKind::noDevice;
  return isTheirs ? kUserError : kOtherError;
}

} // namespace
} // namespace tilewright

int main(int count, char **words) {
  using namespace tilewright;
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows beyond the limit is then an error of write
  const std::vector<std::string> rest(words + std::min(count, 1), words + count);
  Status status = guardedDispatch(rest);
  if (std::fflush(stdout) != 0 && status.ok()) status = runtimeError("standard output cannot be written");
  if (!status.ok())
    std::fprintf(stderr, "tilewright%s%s: %s\n", rest.empty() ? "" : " ",
                 rest.empty() ? "" : printable(rest[0]).c_str(), printable(status.message()).c_str());
  return exitCode(status);
}
