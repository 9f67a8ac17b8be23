// Error types. A UserError says what to do and exits with status 2. A Failure says what broke and exits with status 1. A failed
// CHECK is a bug and says where it is.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace trireme {

// An error that the user can fix: a setting, a path, a file. The text names the key or path, the value, and what to do.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
  template <class... Args>
  explicit UserError(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

// An error of the environment: a full disk, a damaged checkpoint, a lost peer.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
  template <class... Args>
  explicit Failure(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

// Returns the text shown to the user for any exception; a bug is marked as one.
std::string line_of(const std::exception& error);

[[noreturn]] void check_failed(const char* file, int line, const std::string& what);

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) ::trireme::check_failed(__FILE__, __LINE__, #condition); \
  } while (0)

// For code that is unreachable unless there is a bug.
#define CHECK_NEVER(what) ::trireme::check_failed(__FILE__, __LINE__, what)

#define CHECK_EQ(a, b)                                                                                           \
  do {                                                                                                           \
    const auto check_a = (a);                                                                                    \
    const auto check_b = (b);                                                                                    \
    if (!(check_a == check_b))                                                                                   \
      ::trireme::check_failed(__FILE__, __LINE__, fmt::format("{} == {} ({} vs {})", #a, #b, check_a, check_b)); \
  } while (0)

// Returns a / b; b must divide a.
inline int64_t div_exact(int64_t a, int64_t b) {
  if (b == 0 || a % b != 0) check_failed(__FILE__, __LINE__, fmt::format("{} is not divisible by {}", a, b));
  return a / b;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

// Converts a number; the value must be preserved.
template <class To, class From>
To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  const To result = static_cast<To>(value);
  if (static_cast<From>(result) != value || ((result < To{}) != (value < From{})))
    check_failed(__FILE__, __LINE__, fmt::format("{} does not fit", value));
  return result;
}

}  // namespace trireme
