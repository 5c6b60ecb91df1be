#include "tools/io/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/io/npy.h"

namespace tilewright {
namespace {

bool isFolder(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string &path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

std::string parentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

Status cannotWrite(const std::string &path) {
  return runtimeError(path + ": cannot be written: " + std::strerror(errno));
}

Status writeAll(int descriptor, const void *data, std::size_t bytes, const std::string &path) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t wrote = ::write(descriptor, static_cast<const char *>(data) + done, bytes - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return cannotWrite(path);
    done += wrote;
  }
  return {};
}

/// Makes a new file; the caller removes it when this fails.
Status writeNew(const std::string &path, const std::string &shownPath,
                const std::vector<std::pair<const void *, std::size_t>> &parts) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return cannotWrite(shownPath);
  Status status;
  for (const auto &[data, bytes] : parts)
    if (status.ok()) status = writeAll(descriptor, data, bytes, shownPath);
  if (close(descriptor) != 0 && status.ok()) status = cannotWrite(shownPath);
  return status;
}

/// Of an array of elements of 4 bytes.
std::size_t bytesOf(const std::vector<int64_t> &shape) {
  std::size_t bytes = 4;
  for (int64_t size : shape)
    bytes *= size;
  return bytes;
}

} // namespace

StatusOr<OutputFolder> OutputFolder::prepare(const std::string &path, const std::vector<std::string> &names) {
  const auto refused = [&](const std::string &found) {
    return userError("--out " + path + ": expected a folder that can be written, found " + found);
  };
  if (path.empty()) return userError("expected --out DIR, found an empty name");
  const bool present = exists(path);
  if (present && !isFolder(path)) return refused("something that is no folder");
  const std::string written = present ? path : parentOf(path);
  if (!isFolder(written)) return refused("no folder " + written + " to make it in; make that first");
  if (access(written.c_str(), W_OK | X_OK) != 0) return refused(std::strerror(errno));
  for (const std::string &name : names)
    if (isFolder(path + "/" + name)) return refused("a folder called " + name + " in it; move it away");
  return OutputFolder(path);
}

OutputFolder::OutputFolder(OutputFolder &&other) noexcept
    : path_(std::move(other.path_)), staging_(std::move(other.staging_)), made_(other.made_),
      names_(std::move(other.names_)) {
  other.staging_.clear();
  other.made_ = false;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!staging_.empty()) std::filesystem::remove_all(staging_, ignored);
  if (made_) rmdir(path_.c_str()); // stays if someone else has put files there
}

Status OutputFolder::stage() {
  if (!exists(path_)) {
    if (mkdir(path_.c_str(), 0777) != 0) return cannotWrite(path_);
    made_ = true;
  }
  std::string pattern = path_ + "/.tilewright-XXXXXX";
  if (!mkdtemp(pattern.data())) return cannotWrite(path_);
  staging_ = pattern;
  return {};
}

Status OutputFolder::write(const std::string &name,
                           const std::vector<std::pair<const void *, std::size_t>> &parts) {
  if (staging_.empty()) TW_RETURN_IF_ERROR(stage());
  names_.push_back(name);
  return writeNew(staging_ + "/" + name, path_ + "/" + name, parts);
}

Status OutputFolder::addNpy(const std::string &name, const std::vector<int64_t> &shape, const float *values) {
  const std::string header = npyFloat32Header(shape);
  return write(name, {{header.data(), header.size()}, {values, bytesOf(shape)}});
}

Status OutputFolder::addNpy(const std::string &name, const std::vector<int64_t> &shape,
                            const int32_t *values) {
  const std::string header = npyInt32Header(shape);
  return write(name, {{header.data(), header.size()}, {values, bytesOf(shape)}});
}

Status OutputFolder::addText(const std::string &name, const std::string &text) {
  return write(name, {{text.data(), text.size()}});
}

Status OutputFolder::commit() {
  for (const std::string &name : names_)
    if (rename((staging_ + "/" + name).c_str(), (path_ + "/" + name).c_str()) != 0)
      return cannotWrite(path_ + "/" + name);
  made_ = false;
  return {};
}

Status checkFile(const std::string &path) {
  struct stat info;
  if (path.empty() || path.back() == '/' || !isFolder(parentOf(path)))
    return userError("expected a file to write in a folder that exists, found '" + path + "'");
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return userError(path + ": expected a file to write, found something else of that name");
  return {};
}

Status writeFile(const std::string &path, const std::string &text) {
  TW_RETURN_IF_ERROR(checkFile(path));
  const std::string beside = path + ".tilewright-" + std::to_string(getpid());
  Status status = writeNew(beside, path, {{text.data(), text.size()}});
  if (status.ok() && rename(beside.c_str(), path.c_str()) != 0) status = cannotWrite(path);
  if (!status.ok()) unlink(beside.c_str());
  return status;
}

} // namespace tilewright
