#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tilewright::cuda {

/// Runs a program (`words[0]`, a path) and waits for it, at most `limit`; then it is killed. Returns whether
/// it returned 0. What it writes goes to a file. It is given no descriptor of this process, and of the
/// environment only a search path that begins with its own folder, so that what it does is the same
/// everywhere. Works where the application ignores SIGCHLD, which takes exit codes away.
bool runProgram(const std::vector<std::string> &words, const std::string &outputFile,
                std::chrono::milliseconds limit);

/// Empty if only this user or root can have put this program where it is, else what is wrong: running it
/// would be running others' code as this user.
std::string distrustOf(const std::string &path);

} // namespace tilewright::cuda
