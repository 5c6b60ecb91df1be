#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tilewright {

/// What an error is about, and so who has to act on it.
enum class StatusKind {
  ok,
  user,     ///< the caller's mistake
  compile,  ///< a kernel that its author, or this compiler, has to change
  memory,   ///< the host or the device has not enough
  noDevice, ///< there is none of that name, no driver for it, or either is too old
  device,   ///< it, or its driver, failed
  runtime,  ///< other failures of the machine: files above all
  internal, ///< our mistake
};

/// The result of an operation that returns no value. A message says what was expected, what was found and
/// what to do about it.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusKind kind, std::string message, int driverNumber = 0)
      : kind_(kind), driverNumber_(driverNumber), message_(std::move(message)) {}

  bool ok() const { return kind_ == StatusKind::ok; }
  StatusKind kind() const { return kind_; }
  const std::string &message() const { return message_; }
  /// The CUDA driver's own number (CUresult) where it has a part in this, else 0.
  int driverNumber() const { return driverNumber_; }

  /// The same error with other words.
  Status saying(std::string message) const { return {kind_, std::move(message), driverNumber_}; }
  /// The same error, where it happened in front of its message.
  Status in(const std::string &place) const { return saying(place + ": " + message_); }

private:
  StatusKind kind_ = StatusKind::ok;
  int driverNumber_ = 0;
  std::string message_;
};

inline Status userError(std::string message) { return {StatusKind::user, std::move(message)}; }
inline Status compileError(std::string message) { return {StatusKind::compile, std::move(message)}; }
inline Status memoryError(std::string message) { return {StatusKind::memory, std::move(message)}; }
inline Status noDeviceError(std::string message) { return {StatusKind::noDevice, std::move(message)}; }
inline Status deviceError(std::string message) { return {StatusKind::device, std::move(message)}; }
inline Status runtimeError(std::string message) { return {StatusKind::runtime, std::move(message)}; }
inline Status internalError(std::string message) { return {StatusKind::internal, std::move(message)}; }

/// A value, or the Status that says why there is none.
template <typename T> class [[nodiscard]] StatusOr {
public:
  /// Of an ok Status, which comes with no value, an internal error is made.
  StatusOr(Status status) : status_(std::move(status)) {
    if (status_.ok()) status_ = internalError("expected a value or an error, found an ok Status alone");
  }
  StatusOr(T value) : value_(std::move(value)) {}

  bool ok() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  Status status_;
  std::optional<T> value_;
};

} // namespace tilewright

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

/// Returns from the enclosing function when `expression` is not ok.
#define TW_RETURN_IF_ERROR(expression)                                                                       \
  do { /* one statement, so that an `else` behind it belongs to the `if` before it */                        \
    if (auto twStatus = (expression); !twStatus.ok()) return twStatus;                                       \
  } while (false)

/// `TW_ASSIGN_OR_RETURN(auto x, f())`: x is f's value, or the enclosing function returns f's Status.
#define TW_ASSIGN_OR_RETURN(declaration, expression)                                                         \
  auto TW_CONCAT(twOr, __LINE__) = (expression);                                                             \
  if (!TW_CONCAT(twOr, __LINE__).ok()) return TW_CONCAT(twOr, __LINE__).status();                            \
  declaration = *std::move(TW_CONCAT(twOr, __LINE__))
