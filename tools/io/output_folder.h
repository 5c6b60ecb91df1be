#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// A folder that receives a set of files at once: they are written to a hidden folder inside it and moved
/// into place by `commit`. Without it nothing remains of them, nor of the folder if it was made for them.
class OutputFolder {
public:
  /// Checks that `path` is a folder to write to, or can be made, and that no folder bears the name of a file
  /// to be written. Writes nothing. Errors are the user's.
  static StatusOr<OutputFolder> prepare(const std::string &path, const std::vector<std::string> &names);
  OutputFolder(OutputFolder &&other) noexcept;
  OutputFolder &operator=(OutputFolder &&) = delete;
  ~OutputFolder();

  Status addNpy(const std::string &name, const std::vector<int64_t> &shape, const float *values);
  Status addNpy(const std::string &name, const std::vector<int64_t> &shape, const int32_t *values);
  Status addText(const std::string &name, const std::string &text);
  Status commit();

private:
  explicit OutputFolder(std::string path) : path_(std::move(path)) {}
  Status stage();
  Status write(const std::string &name, const std::vector<std::pair<const void *, std::size_t>> &parts);

  std::string path_;
  std::string staging_; ///< empty before the first file
  bool made_ = false;   ///< path_ did not exist
  std::vector<std::string> names_;
};

/// Whether a file can be written at `path`, as far as one can tell without writing: a user error otherwise.
Status checkFile(const std::string &path);

/// Writes a file beside `path` and renames it, so that there is a whole file or none; `path` may name a file,
/// but nothing else, already.
Status writeFile(const std::string &path, const std::string &text);

} // namespace tilewright
